"""An index finds what a comparison of all vectors finds, in memory and from its folder."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bert_keras.errors import UsageError
from bert_keras.retrieval import PRECISIONS, VectorIndex, nearest, quantize

RNG = np.random.default_rng(0)
VECTORS = RNG.standard_normal((500, 20)).astype(np.float32)
QUERIES = VECTORS[:9] + 0.3 * RNG.standard_normal((9, 20)).astype(np.float32)
TEXTS = [f"text {number} é\n\ud800" for number in range(500)]


def index_of(precision: str = "float32", **options: Any) -> VectorIndex:
    return VectorIndex(quantize(VECTORS, precision), TEXTS, size=20, **options)


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


@pytest.mark.parametrize("precision", PRECISIONS)
def test_an_index_is_saved_and_loaded(precision: str, tmp_path: Path) -> None:
    """The search is that of `nearest`, and reads vectors and texts from the disk."""
    index = index_of(precision, model="mine", options={"truncate_dim": 20})
    index.save(tmp_path / "index")
    loaded = VectorIndex.load(tmp_path / "index")
    expected = nearest(QUERIES, quantize(VECTORS, precision), top_k=4)
    for each in (index, loaded):
        found = each.search(QUERIES, top_k=4)
        np.testing.assert_array_equal(found.indices, expected.indices)
        np.testing.assert_array_equal(found.scores, expected.scores)
        assert (each.size, each.precision, each.model) == (20, precision, "mine")
        assert each.options == {"truncate_dim": 20}
        assert each.texts is not None
        assert list(each.texts) == TEXTS
    assert isinstance(loaded.vectors, np.memmap)
    assert loaded.texts is not None
    assert (loaded.texts[-1], loaded.texts[3:5]) == (TEXTS[-1], TEXTS[3:5])
    with pytest.raises(IndexError):
        loaded.texts[500]
    assert "500 vectors of 20 numbers" in repr(loaded)


def test_an_index_replaces_itself(tmp_path: Path) -> None:
    """An index on the disk may be saved into its own folder."""
    index_of().save(tmp_path / "index")
    loaded = VectorIndex.load(tmp_path / "index")
    loaded.save(tmp_path / "index")
    again = VectorIndex.load(tmp_path / "index")
    np.testing.assert_array_equal(again.vectors, VECTORS)
    np.testing.assert_array_equal(loaded.vectors, VECTORS)
    assert names(tmp_path) == ["index"]


@pytest.mark.parametrize("precision", PRECISIONS)
def test_blocks_make_the_index_of_all_vectors(precision: str, tmp_path: Path) -> None:
    blocks = [(VECTORS[at : at + 70], TEXTS[at : at + 70]) for at in range(0, 500, 70)]
    found = VectorIndex.write(tmp_path / "blocks", iter(blocks), precision=precision, model="m")
    index_of(precision, model="m").save(tmp_path / "whole")
    for path in (tmp_path / "whole").iterdir():
        assert path.read_bytes() == (tmp_path / "blocks" / path.name).read_bytes()
    assert (found.size, len(found)) == (20, 500)


def test_vectors_alone(tmp_path: Path) -> None:
    index = VectorIndex.write(tmp_path / "index", [(VECTORS, None)], similarity="dot")
    assert index.texts is None
    assert sorted(names(tmp_path / "index")) == ["vector_index.json", "vectors.npy"]
    expected = np.argsort(-QUERIES @ VECTORS.T, axis=1)[:, :3]
    np.testing.assert_array_equal(index.search(QUERIES, top_k=3).indices, expected)


def test_a_failed_block_leaves_the_earlier_index(tmp_path: Path) -> None:
    def blocks() -> Iterator[tuple[np.ndarray, None]]:
        yield VECTORS, None
        raise RuntimeError("the encoder failed")

    VectorIndex.write(tmp_path / "index", [(VECTORS[:5], None)])
    with pytest.raises(RuntimeError, match="the encoder failed"):
        VectorIndex.write(tmp_path / "index", blocks())
    assert len(VectorIndex.load(tmp_path / "index")) == 5
    assert names(tmp_path) == ["index"]


# === Graphs ===


@pytest.mark.parametrize(
    ("precision", "similarity"),
    [*((precision, "cosine") for precision in PRECISIONS), ("float32", "dot")],
)
def test_a_graph_finds_the_nearest(precision: str, similarity: str, tmp_path: Path) -> None:
    """With candidates enough the graph finds what a comparison of all vectors finds."""
    index = index_of(precision, similarity=similarity)
    assert not index.has_graph
    calls: list[tuple[int, int]] = []
    index.build_graph(progress=lambda *numbers: calls.append(numbers))
    assert calls[-1] == (500, 500)
    index.save(tmp_path / "index")
    loaded = VectorIndex.load(tmp_path / "index")
    loaded.save(tmp_path / "again")
    exact = index.search(QUERIES, top_k=5, exact=True, rescore=60)
    for each in (index, loaded, VectorIndex.load(tmp_path / "again")):
        assert each.has_graph
        found = each.search(QUERIES, top_k=5, exact=False, rescore=60)
        assert (found.indices == exact.indices).mean() > 0.95
        one = each.search(QUERIES[:1], top_k=5, rescore=60)
        np.testing.assert_array_equal(one.indices, found.indices[:1])
        same = found.indices == exact.indices
        np.testing.assert_allclose(found.scores[same], exact.scores[same], atol=1e-5)
    assert index.search(QUERIES[:0]).indices.shape == (0, 10)
    assert index.search(QUERIES, top_k=600).indices.shape == (9, 500)


def test_a_graph_of_fewer_bytes(tmp_path: Path) -> None:
    """Candidates of single bits are compared with the vectors of the index."""
    index = index_of("int8")
    index.build_graph(precision="ubinary")
    index.save(tmp_path / "index")
    exact = index.search(QUERIES, top_k=5, exact=True)
    for each in (index, VectorIndex.load(tmp_path / "index")):
        found = each.search(QUERIES, top_k=5, rescore=60)
        assert (found.indices == exact.indices).mean() > 0.95
    with pytest.raises(ValueError, match="have no length"):
        VectorIndex(VECTORS, similarity="dot").build_graph(precision="int8")
    with pytest.raises(ValueError, match="must be at least 2"):
        index.build_graph(connectivity=1)


def test_without_usearch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "usearch", None)
    with pytest.raises(ImportError, match=r'pip install "bert-keras\[search\]"'):
        index_of().build_graph()


# === Messages ===


def test_messages_about_arguments(tmp_path: Path) -> None:
    bad = {
        "a text for each vector": lambda: VectorIndex(VECTORS, TEXTS[:3]),
        "must be JSON": lambda: index_of(options={"a": object()}),
        "at least one row": lambda: VectorIndex(VECTORS[:0]),
        "for `size`": lambda: VectorIndex(VECTORS, size=21),
        "have no length": lambda: index_of("int8", similarity="dot"),
        "needs a graph": lambda: index_of().search(QUERIES, exact=False),
        "one size": lambda: index_of().search(QUERIES[:, :4]),
        "no blocks": lambda: VectorIndex.write(tmp_path / "a", []),
        "block 1 of shape": lambda: VectorIndex.write(
            tmp_path / "a", [(VECTORS, None), (VECTORS[:, :3], None)]
        ),
        "unlike block 1": lambda: VectorIndex.write(
            tmp_path / "a", [(VECTORS, None), (VECTORS, TEXTS)]
        ),
        "one of float32": lambda: VectorIndex.write(
            tmp_path / "a", [(VECTORS, None)], precision="int4"
        ),
    }
    for message, call in bad.items():
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(TypeError, match="int in row 1"):
        VectorIndex(VECTORS[:2], ["a", 1])  # type: ignore[list-item]
    assert names(tmp_path) == []


def test_other_folders_are_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("mine")
    for write in (
        index_of().save,
        lambda folder: VectorIndex.write(folder, [(VECTORS, None)]),
    ):
        with pytest.raises(UsageError, match="not an index, so it is not overwritten"):
            write(tmp_path / "notes")
    assert names(tmp_path / "notes") == ["mine.txt"]
