"""docs/training_with_fit.md: its code runs, and its table has every task that takes text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bert_keras import models
from bert_keras.models.text_fit import FitsText
from tests.markdown import blocks, run_python
from tests.models import every_model

PAGE = Path(__file__).parents[1] / "docs" / "training_with_fit.md"


def test_the_code_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    values = run_python(blocks(PAGE.read_text(encoding="utf-8")), str(PAGE))
    assert values["again"].max_length == 128


def test_the_table_has_every_task_and_its_methods() -> None:
    rows = re.findall(r"^\| `(\w+)` \|.*\| (.*) \|$", PAGE.read_text(encoding="utf-8"), re.M)
    classes = every_model.classes_below(models.Task)
    takes_text = {
        name for name, cls in classes.items() if cls.examples_of is not FitsText.examples_of
    }
    assert {name for name, _ in rows} == takes_text
    for name, methods in rows:
        for method in re.findall(r"`(\w+)`", methods):
            assert callable(getattr(classes[name], method))
