"""docs/quickstart.md and docs/tasks.md: their code runs and prints the output that they show."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import keras
import pytest

from bert_keras import models
from bert_keras.training.finetune_recipe import TASK_NAMES
from tests.markdown import PYTHON, blocks

DOCS = Path(__file__).parents[1] / "docs"


class Pages:
    """A page whose code was run: the final values, and the expected and the printed outputs."""

    def __init__(self, name: str, capsys: pytest.CaptureFixture[str]):
        keras.utils.set_random_seed(0)
        self.page = DOCS / name
        self.blocks = blocks(self.page.read_text(encoding="utf-8"))
        self.values: dict[str, Any] = {"__name__": "__main__"}
        self.outputs: list[tuple[str, str]] = []  # (expected, printed)
        for block, following in zip(self.blocks, [*self.blocks[1:], None], strict=True):
            if block.language not in PYTHON or block.not_run is not None:
                continue
            capsys.readouterr()
            source = "\n" * (block.line - 1) + block.text
            exec(compile(source, str(self.page), "exec"), self.values)
            printed = capsys.readouterr().out.rstrip()
            if following is None or following.text.startswith("bert-keras "):
                continue  # the next block has shell commands
            if following.language == "text":
                self.outputs.append((following.text, printed))


def test_the_quickstart_prints_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    page = Pages("quickstart.md", capsys)
    assert page.values["again"].predict_labels(["A dull plot."])[0].label == "negative"
    assert len(page.outputs) == 2
    for expected, printed in page.outputs:
        assert printed == expected


def test_the_tasks_print_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    page = Pages("tasks.md", capsys)
    assert len(page.outputs) == 9
    for expected, printed in page.outputs:
        assert printed == expected


def test_the_table_of_tasks_has_names_that_are_there() -> None:
    text = (DOCS / "tasks.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[.*$", text, re.MULTILINE)
    assert len(rows) == 12
    named = set()
    for row in rows:
        _, cls, task, methods = (cell.strip() for cell in row.strip("|").split("|"))
        made = getattr(models, re.findall(r"`(\w+)`", cls)[0])
        for method in re.findall(r"`(\w+)`", methods):
            assert callable(getattr(made, method))
        named |= set(re.findall(r"^`(\w+)`$", task))
    assert named == set(TASK_NAMES)
    headings = {
        re.sub(r"[^\w ]", "", h).lower().replace(" ", "-")
        for h in re.findall(r"^## (.*)$", text, re.M)
    }
    assert set(re.findall(r"\(#([\w-]+)\)", text)) <= headings
