"""The made-up files of the short way: the same each time, readable by their kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bert_keras.training.finetune_data import Data
from bert_keras.training.finetune_quicktest import prepared
from bert_keras.training.finetune_recipe import KINDS, FinetuneRecipe
from bert_keras.training.kinds import kind_of

# Values of a recipe that do not fit what is made up.
_OF_OTHER_FILES: dict[str, dict[str, Any]] = {
    "text_classification": {"text": "x", "labels": "a,z", "positive": "z", "separator": ";"},
    "multi_label_classification": {"text": "x", "label": "y", "label_separator": ";"},
    "retrieval": {"text": "x", "pair": "y"},
    "token_classification": {"tag_column": 5, "scheme": "bmes", "encoding": "gb18030"},
    "question_answering": {},
    "multiple_choice": {
        "prompt": "",
        "options": "a,b",
        "lead": "c",
        "answer": "d",
        "format": "csv",
    },
}


@pytest.mark.parametrize("task", KINDS)
def test_files_of_every_task(task: str, tmp_path: Path) -> None:
    recipe = FinetuneRecipe(task=task, **_OF_OTHER_FILES.get(task, {"text": "x", "label": "y"}))
    recipe = prepared(recipe, tmp_path / "made")
    assert [path.name for path in tmp_path.iterdir()] == ["made"]
    data = Data.read(recipe, kind_of(recipe))
    assert len(data.train) == len(data.dev) >= 6


def test_they_are_the_same_each_time(tmp_path: Path) -> None:
    recipe = FinetuneRecipe(task="text_classification")

    def contents() -> dict[Path, bytes]:
        assert prepared(recipe, tmp_path) == prepared(recipe, tmp_path)
        return {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    assert contents() == contents()
