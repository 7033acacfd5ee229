"""docs/finetuning.md: its code runs, its commands are accepted, its tables are complete."""

from __future__ import annotations

import dataclasses
import re
import shlex
from pathlib import Path

import keras
import pytest

import bert_keras as bk
from bert_keras import data
from bert_keras.errors import UsageError
from bert_keras.inference import base as answers
from bert_keras.training import finetuned_model, predict
from bert_keras.training.finetune import quicktest
from bert_keras.training.finetune_recipe import (
    TASK_NAMES,
    FinetuneRecipe,
    known_finetunings,
    load_finetuning,
)
from bert_keras.training.pretrain_recipe import PretrainRecipe, load_recipe
from bert_keras.training.pretrain_recipe import quicktest as quick_pretraining
from bert_keras.training.recipe_files import parse_overrides, read_command
from tests.markdown import Block, blocks, run_python

PAGE = Path(__file__).parents[1] / "docs" / "finetuning.md"
_FILE = re.compile(r"# (\w+\.py)\n")  # the first line of a block that shows a file


@pytest.fixture(scope="module")
def text() -> str:
    return PAGE.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def found(text: str) -> list[Block]:
    return blocks(text)


def _rows(text: str, title: str) -> list[list[str]]:
    """Return the rows of the table whose first heading is `title`."""
    lines = iter(text.splitlines())
    next(line for line in lines if line.startswith(f"| {title} |"))
    next(lines)
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def _names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_python_blocks_run(
    found: list[Block], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_python(found, str(PAGE))


def test_commands_are_accepted(
    found: list[Block], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for block in found:
        if name := _FILE.match(block.text):
            Path(name[1]).write_text(block.text, encoding="utf-8")
    lines = [line for block in found if block.language == "bash" for line in block.text.split("\n")]
    programs = [shlex.split(line)[1:] for line in lines if line.startswith("bert-keras ")]
    assert {name for name, *_ in programs} == {"finetune", "evaluate", "predict", "pretrain"}
    for name, *arguments in programs:
        if name == "finetune":
            known = (FinetuneRecipe, ("--quicktest",), load_finetuning, quicktest)
            read_command(arguments, *known, name, named="")
        elif name == "pretrain":
            known = (PretrainRecipe, (), load_recipe, quick_pretraining)
            read_command(arguments, *known, name, named="")
        elif name == "predict":
            parse_overrides([word for word in arguments if "=" in word], predict._DEFAULTS)
        else:
            own: dict[str, str] = dict.fromkeys(("data", "out"), "")
            finetuned_model._values(arguments[1:], own, FinetuneRecipe(task="text_classification"))


def test_every_task_and_every_recipe_has_its_place(text: str) -> None:
    rows = _rows(text, "`task=`")
    assert tuple(_names(row[0])[0] for row in rows) == TASK_NAMES
    recipes = {name: load_finetuning(name).task for name in known_finetunings()}
    for task, _, model, metrics, named in rows:
        (kind,) = _names(task)
        assert _names(named) == [name for name, of in recipes.items() if of == kind]
        assert all(issubclass(getattr(bk, name), keras.Model) for name in _names(model))
        assert _names(metrics)


def test_every_value_is_accepted(text: str) -> None:
    for values, _ in _rows(text, "value"):
        words = _names(values)[0].split()

        def is_accepted(task: str, words: list[str] = words) -> bool:
            recipe = FinetuneRecipe(task=task)
            try:
                FinetuneRecipe(**parse_overrides(words, dataclasses.asdict(recipe)))
            except UsageError:
                return False
            return True

        assert any(is_accepted(task) for task in TASK_NAMES), values


def test_names_of_data_and_answers(text: str) -> None:
    for values, read, examples, task in _rows(text, "values"):
        assert hasattr(bk, _names(task)[0])
        assert all(
            hasattr(data, name) for cell in (values, read, examples) for name in _names(cell)
        )
    for task, methods, given in _rows(text, "task"):
        assert hasattr(bk, _names(task)[0])
        for method in _names(methods):
            assert hasattr(bk.Predictor, method[1:].split("(")[0])
        for answer in _names(given):
            name, _, named = answer.rstrip(")").partition("(")
            fields = [field.name for field in dataclasses.fields(getattr(answers, name))]
            assert not named or named.split(", ") == fields
