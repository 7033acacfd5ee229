"""Digests of files that a resumed fine-tuning must find again."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from bert_keras.training.finetune_recipe import FinetuneRecipe
from bert_keras.training.input_digests import checkpoint_digests, digests, digests_in
from tests import hub


def _recipe(**values: Any) -> FinetuneRecipe:
    return FinetuneRecipe(task="text_classification", name="mine", **values)


def test_files_by_recipe_key_and_name(tmp_path: Path) -> None:
    """Reports beside a model may change; a missing file is for the code that reads it."""
    (tmp_path / "train.tsv").write_bytes(b"a")
    (tmp_path / "model").mkdir()
    for name in ("config.json", "report.md"):
        (tmp_path / "model" / name).write_bytes(name.encode())
    train, encoder = str(tmp_path / "train.tsv"), str(tmp_path / "model")
    recipe = _recipe(train=train, dev=str(tmp_path / "none.tsv"), encoder=encoder)
    expected = {
        "train": {"train.tsv": hashlib.sha256(b"a").hexdigest()},
        "encoder": {"config.json": hashlib.sha256(b"config.json").hexdigest()},
    }
    assert digests(recipe) == expected
    assert digests_in({"files": {**expected, "dev": "an older form"}}) == expected
    assert digests_in({}) == {}


def test_a_name_of_a_preset_binds_by_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a preset name, run.json has the digests of the published files."""
    hub.offline_cache(tmp_path / "cache", monkeypatch)
    found = digests(_recipe(encoder=hub.NAME, teacher=hub.NAME))
    assert found.keys() == {"encoder", "teacher"}
    assert {"config.json", "model.safetensors"} <= found["encoder"].keys()


def test_files_of_a_checkpoint(tmp_path: Path) -> None:
    """Settings and modules of sentence-transformers count; reports do not."""
    names = ("1_Pooling/config.json", "config.json", "modules.json", "predictor.json")
    for name in (*names, "report.md", "seed-0/config.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    found = checkpoint_digests(str(tmp_path))
    assert found == {name: hashlib.sha256(name.encode()).hexdigest() for name in names}
