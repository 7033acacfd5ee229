"""Searches of vectors are measured beside the nearest float32 vectors."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from rich.console import Console

from benchmarks import vector_search
from bert_keras.retrieval import VectorIndex, nearest


def test_vectors_are_in_clusters_and_the_same_again() -> None:
    found, again = (np.concatenate([*vector_search.vectors(12_000, 24)]) for _ in range(2))
    np.testing.assert_array_equal(found, again)
    assert found.shape == (12_000, 24)
    queries = vector_search.queries_of(12_000, 24, 7)
    assert queries.shape == (7, 24)
    scores = nearest(queries, found).scores
    assert (scores[:, 0] > 0.7).all()
    assert not (scores > 0.9999).any()  # queries are new vectors


def test_recall() -> None:
    best = np.array([[1, 2], [3, 4]])
    assert vector_search.recall(best[:, ::-1], best) == 1
    assert vector_search.recall(np.array([[1, 9], [8, 7]]), best) == 0.25


def test_memory_of_a_search() -> None:
    index = VectorIndex(np.ones((2, 4), np.float32))

    def search():
        held = np.ones(8_000_000, np.float32)
        return index.search(held[None, :4])

    found, megabytes = vector_search.with_memory(search)
    assert found.indices.shape == (1, 2)
    assert 0 <= megabytes < 200


def test_ways_of_searching(tmp_path: Path) -> None:
    """The figures of each number format have the recall beside float32."""
    sizes, best = (2000, 32), tmp_path / "nearest.npy"
    queries = vector_search.queries_of(*sizes, 10)
    results = {}
    for precision, graphs in (("float32", ()), ("int8", ("ubinary",)), ("ubinary", ())):
        blocks = ((block, None) for block in vector_search.vectors(*sizes))
        VectorIndex.write(tmp_path / precision, blocks, precision=precision)
        results[precision] = vector_search.measure(tmp_path / precision, queries, graphs, best)
    recalls = {
        (precision, way): row["recall"]
        for precision, figures in results.items()
        for way, row in figures["ways"].items()
    }
    assert recalls["float32", "all"] == 1
    assert recalls["int8", "all"] > 0.9
    assert recalls["ubinary", "all, rescore=4"] < recalls["int8", "graph of ubinary, rescore=16"]
    screen = io.StringIO()
    vector_search.show(results, Console(file=screen, width=120))
    assert "1.000" in screen.getvalue()
