"""docs/data_files.md: its code runs, its commands are accepted, and its rows are read."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from bert_keras.data import read_entities
from bert_keras.data.annotation_files import ENTITY_KEYS
from bert_keras.training import finetuned_model
from bert_keras.training.finetune import quicktest
from bert_keras.training.finetune_recipe import FinetuneRecipe, load_finetuning
from bert_keras.training.recipe_files import read_command
from tests.markdown import Block, blocks, run_python

PAGE = Path(__file__).parents[1] / "docs" / "data_files.md"


@pytest.fixture(scope="module")
def found() -> list[Block]:
    return blocks(PAGE.read_text(encoding="utf-8"))


def test_the_code_of_the_page_runs(
    found: list[Block], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    values = run_python(found, str(PAGE))
    assert values["sentences"].tags == (("B-PER", "O", "O", "B-LOC", "O"),)
    assert values["widened"].tags == (("B-PER", "O", "O"),)
    assert values["films"].targets == ("bien", "mal")


def test_the_rows_of_the_page_are_read(found: list[Block], tmp_path: Path) -> None:
    (rows,) = [block.text for block in found if block.language == "text"]
    path = tmp_path / "names.jsonl"
    path.write_text(rows, encoding="utf-8")
    assert len(read_entities(path)) == 2
    text = PAGE.read_text(encoding="utf-8")
    assert all(f"`{key}`" in text for key in ENTITY_KEYS)


def test_commands_are_accepted(found: list[Block]) -> None:
    lines = [line for block in found if block.language == "bash" for line in block.text.split("\n")]
    for line in lines:
        name, *arguments = shlex.split(re.sub("^bert-keras ", "", line))
        if name == "finetune":
            known = (FinetuneRecipe, ("--quicktest",), load_finetuning, quicktest)
            read_command(arguments, *known, name, named="")
        else:
            own: dict[str, str] = dict.fromkeys(("data", "out"), "")
            finetuned_model._values(arguments[1:], own, FinetuneRecipe(task="text_classification"))
