"""A graph of other vectors, or a damaged one, is refused; all vectors can still be compared."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bert_keras.errors import ArtifactError
from bert_keras.retrieval import VectorIndex
from bert_keras.retrieval.graph import VectorGraph

VECTORS = np.random.default_rng(0).standard_normal((60, 16)).astype(np.float32)


def built(vectors: np.ndarray, similarity: str = "cosine") -> VectorGraph:
    return VectorGraph.build(vectors, vectors.shape[1], "float32", similarity)


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.unlink(),
        lambda path: path.write_bytes(path.read_bytes()[:-9]),
        lambda path: path.write_bytes(b"0" * path.stat().st_size),
    ],
)
def test_damage(damage: Callable[[Path], object], tmp_path: Path) -> None:
    index = VectorIndex(VECTORS)
    index.build_graph()
    index.save(tmp_path / "index")
    damage(tmp_path / "index" / "graph.usearch")
    loaded = VectorIndex.load(tmp_path / "index")
    with pytest.raises(ArtifactError, match=r"graph.usearch: the graph is damaged.*exact=True"):
        loaded.search(VECTORS[:1])
    assert loaded.search(VECTORS[:1], top_k=1, exact=True).indices.tolist() == [[0]]
    loaded.build_graph()
    assert loaded.search(VECTORS[:1], top_k=1).indices.tolist() == [[0]]


@pytest.mark.parametrize(
    ("rows", "size", "precision", "similarity"),
    [
        (50, 16, "float32", "cosine"),
        (60, 8, "float32", "cosine"),
        (60, 16, "int8", "cosine"),
        (60, 16, "float32", "dot"),
    ],
)
def test_other_vectors(
    rows: int, size: int, precision: str, similarity: str, tmp_path: Path
) -> None:
    path = tmp_path / "graph"
    built(VECTORS).save(path)
    count = path.stat().st_size
    assert VectorGraph.open(path, count, 60, 16, "float32", "cosine").precision == "float32"
    with pytest.raises(ArtifactError, match="the graph is damaged"):
        VectorGraph.open(path, count, rows, size, precision, similarity)


def test_fewer_vectors_than_wanted() -> None:
    found, is_complete = built(VECTORS).candidates(VECTORS[:2], 61)
    assert found.shape == (2, 61)
    assert not is_complete.any()
