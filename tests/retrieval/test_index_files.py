"""A damaged folder of an index, or another folder, is refused by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bert_keras.errors import ArtifactError
from bert_keras.retrieval import VectorIndex
from bert_keras.retrieval.index_files import StoredTexts

VECTORS = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    VectorIndex(VECTORS, list("abcdef")).save(tmp_path / "index")
    return tmp_path / "index"


def _settings(**values: Any) -> Callable[[Path], object]:
    """Return a function that changes settings; None removes one."""

    def change(folder: Path) -> None:
        path = folder / "vector_index.json"
        merged = {**json.loads(path.read_bytes()), **values}
        path.write_text(json.dumps({key: value for key, value in merged.items() if value != ...}))

    return change


def _cut(name: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:-1])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "vector_index.json").unlink(), "not an index"),
        (lambda folder: (folder / "vector_index.json").write_text("[]"), "expected a JSON object"),
        (_settings(format=2), "newer version"),
        (_settings(format="x"), "format is missing or wrong"),
        (_settings(rows=0), "rows is missing or wrong"),
        (_settings(rows=5), r"states float32 of shape \(5, 4\)"),
        (_settings(size=True), "size is missing or wrong"),
        (_settings(precision="int4"), "precision is missing or wrong"),
        (_settings(precision="int8"), "states int8"),
        (_settings(precision=["int8"]), "precision is missing or wrong"),
        (_settings(similarity=...), "similarity is missing or wrong"),
        (_settings(model=3), "model is missing or wrong"),
        (_settings(options=[]), "options is missing or wrong"),
        (_settings(texts="yes"), "texts is missing or wrong"),
        (_settings(graph_bytes=-1), "graph_bytes is missing or wrong"),
        (_settings(graph_bytes=9), "graph_precision is missing or wrong"),
        (_settings(graph_precision="int8"), "graph_precision is missing or wrong"),
        (_settings(later=1), "unknown keys"),
        (lambda folder: (folder / "vectors.npy").unlink(), "vectors.npy: no such file"),
        (lambda folder: (folder / "vectors.npy").write_bytes(b""), "vectors.npy: damaged"),
        (lambda folder: (folder / "vectors.npy").write_bytes(b"abc"), "vectors.npy: damaged"),
        (_cut("vectors.npy"), "vectors.npy: damaged"),
        (_cut("offsets.npy"), "offsets.npy: damaged"),
        (_cut("texts.jsonl"), "texts.jsonl: missing or damaged.*23 bytes"),
        (lambda folder: (folder / "texts.jsonl").unlink(), "texts.jsonl: missing.*no file"),
    ],
)
def test_damage_is_found_at_loading(
    folder: Path, damage: Callable[[Path], object], message: str
) -> None:
    damage(folder)
    with pytest.raises(ArtifactError, match=message):
        VectorIndex.load(folder)


def test_a_damaged_text_is_named(folder: Path) -> None:
    path = folder / "texts.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"b"', b'"b ').replace(b'"c"', b"123"))
    texts = StoredTexts(folder, 6)
    assert texts[0] == "a"
    with pytest.raises(ArtifactError, match=r"texts.jsonl:2: not JSON"):
        texts[1]
    with pytest.raises(ArtifactError, match=r"texts.jsonl:3: not a text"):
        texts[2]
