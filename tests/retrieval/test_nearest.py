"""The nearest vectors are those of a comparison with the whole corpus."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from bert_keras.retrieval import nearest, quantize
from bert_keras.retrieval.quantization import as_float32, unit_length

module = sys.modules["bert_keras.retrieval.nearest"]
RNG = np.random.default_rng(0)
CORPUS = RNG.standard_normal((300, 20)).astype(np.float32)
QUERIES = RNG.standard_normal((7, 20)).astype(np.float32)


@pytest.mark.parametrize("precision", ["float32", "float16", "int8"])
@pytest.mark.parametrize(("numbers", "queries"), [(1 << 23, 1024), (1000, 3), (1, 1)])
def test_all_are_compared(
    monkeypatch: pytest.MonkeyPatch, precision: str, numbers: int, queries: int
) -> None:
    """The answer does not depend on the size of the blocks that are in memory."""
    monkeypatch.setattr(module, "_NUMBERS", numbers)
    monkeypatch.setattr(module, "_QUERIES", queries)
    corpus = quantize(CORPUS, precision)
    found = nearest(QUERIES, corpus, top_k=9)
    scores = unit_length(QUERIES) @ unit_length(as_float32(corpus, 20)).T
    expected = np.argsort(-scores, axis=1)[:, :9]
    np.testing.assert_array_equal(found.indices, expected)
    np.testing.assert_allclose(found.scores, np.take_along_axis(scores, expected, 1), atol=1e-6)


def test_dot_products() -> None:
    found = nearest(QUERIES, CORPUS, top_k=3, similarity="dot")
    np.testing.assert_array_equal(found.indices, np.argsort(-QUERIES @ CORPUS.T)[:, :3])


@pytest.mark.parametrize(("numbers", "few"), [(1 << 23, 16), (1000, 16), (1000, 0)])
def test_bits(monkeypatch: pytest.MonkeyPatch, numbers: int, few: int) -> None:
    """Candidates have the fewest differing bits; the query's own numbers give their order."""
    monkeypatch.setattr(module, "_NUMBERS", numbers)
    monkeypatch.setattr(module, "_FEW", few)
    corpus = quantize(CORPUS, "ubinary")
    calls: list[tuple[int, int]] = []
    found = nearest(QUERIES, corpus, top_k=5, rescore=3, progress=lambda *n: calls.append(n))
    signs = as_float32(corpus, 20)
    differing = ((QUERIES > 0)[:, None] != (CORPUS > 0)[None]).sum(axis=2)
    for row in range(7):
        candidates = np.argsort(differing[row], kind="stable")[:15]
        scores = unit_length(signs[candidates]) @ unit_length(QUERIES[row : row + 1])[0]
        assert set(found.indices[row]) <= set(candidates)
        np.testing.assert_allclose(found.scores[row], np.sort(scores)[::-1][:5], atol=1e-6)
    assert calls[-1] == (7 * 300, 7 * 300)


@pytest.mark.parametrize("precision", ["float32", "int8", "ubinary"])
def test_equal_scores_are_in_the_order_of_the_corpus(
    monkeypatch: pytest.MonkeyPatch, precision: str
) -> None:
    """The first of many copies are found, in one block and in several.

    A query of one number has exact scores, whatever the order of additions.
    """
    one, other = np.ones((2, 20), np.float32)
    other[1:] = 3
    other[9:] = -1
    query = np.eye(1, 20, dtype=np.float32)
    corpus = quantize(np.repeat([other, one, other, one], 100, axis=0), precision)
    for numbers in (1 << 23, 300 * 20, 30 * 20):
        monkeypatch.setattr(module, "_NUMBERS", numbers)
        found = nearest(query, corpus, top_k=102, rescore=1)
        first = 0 if precision == "ubinary" else 100  # its bits are nearer to those of `other`
        assert found.indices[0].tolist() == [*range(first, first + 100), first + 200, first + 201]


@pytest.mark.parametrize("size", [20, 64])
def test_counted_bits_are_the_product_of_signs(size: int) -> None:
    """Few queries count differing bits, many are multiplied: the scores are the same."""
    corpus = RNG.standard_normal((50, size)).astype(np.float32)
    many = nearest(corpus, quantize(corpus, "ubinary"), top_k=5)
    few = [nearest(row[None], quantize(corpus, "ubinary"), top_k=5) for row in corpus]
    np.testing.assert_array_equal(many.indices, np.concatenate([each.indices for each in few]))


def test_fewer_vectors_than_wanted() -> None:
    for precision in ("float32", "ubinary"):
        found = nearest(QUERIES, quantize(CORPUS[:3], precision), top_k=10)
        assert found.indices.shape == found.scores.shape == (7, 3)
    assert nearest(QUERIES[:0], CORPUS).indices.shape == (0, 10)


def test_messages() -> None:
    bad = {
        "`queries` must be": lambda: nearest(QUERIES[0], CORPUS),
        "`top_k` must be": lambda: nearest(QUERIES, CORPUS, top_k=0),
        "`rescore` must be": lambda: nearest(QUERIES, quantize(CORPUS, "ubinary"), rescore=0),
        "vectors finite": lambda: nearest(QUERIES * np.float32(np.nan), CORPUS),
        "`similarity` must be": lambda: nearest(QUERIES, CORPUS, similarity="near"),
        "have no length": lambda: nearest(QUERIES, quantize(CORPUS, "int8"), similarity="dot"),
        "must have one size": lambda: nearest(QUERIES[:, :8], CORPUS),
    }
    for message, call in bad.items():
        with pytest.raises(ValueError, match=message):
            call()
