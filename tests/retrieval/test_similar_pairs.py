"""Pairs and groups are those of sentence-transformers, and of a comparison of all vectors."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
import pytest

from bert_keras.retrieval import (
    PRECISIONS,
    community_detection,
    paraphrase_mining,
    quantize,
)
from bert_keras.retrieval.quantization import as_float32, unit_length

module = sys.modules["bert_keras.retrieval.similar_pairs"]
RNG = np.random.default_rng(0)
CENTRES = RNG.standard_normal((9, 24))
VECTORS = CENTRES[RNG.integers(9, size=300)] + 0.4 * RNG.standard_normal((300, 24))
VECTORS = VECTORS.astype(np.float32)


@pytest.fixture(scope="module")
def util() -> Any:
    pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("sentence_transformers.util")


@pytest.fixture(params=[1024, 77, 8])
def block(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(module, "_ROWS", request.param)
    return request.param


@pytest.mark.parametrize("max_pairs", [1, 90, 100_000])
def test_pairs_are_those_of_sentence_transformers(util: Any, block: int, max_pairs: int) -> None:
    import torch

    expected = util.paraphrase_mining_embeddings(
        torch.from_numpy(VECTORS), top_k=300, max_pairs=max_pairs
    )
    found = paraphrase_mining(VECTORS, max_pairs=max_pairs)
    theirs = {(first, second): score for score, first, second in expected}
    assert set(map(tuple, found.indices.tolist())) == set(theirs)
    np.testing.assert_allclose(found.scores, list(theirs.values()), atol=1e-5)
    assert len(found.scores) == min(max_pairs, 300 * 299 // 2)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_pairs_above_a_score(block: int, precision: str) -> None:
    vectors = quantize(VECTORS, precision)
    numbers = unit_length(as_float32(vectors, 24))
    cosines = numbers @ numbers.T
    firsts, seconds = np.nonzero(np.triu(cosines >= 0.8001, k=1))
    calls: list[tuple[int, int]] = []
    found = paraphrase_mining(
        vectors, min_score=0.8001, progress=lambda *done: calls.append(done), size=24
    )
    expected = set(zip(firsts.tolist(), seconds.tolist(), strict=True))
    assert set(map(tuple, found.indices.tolist())) == expected
    assert (np.diff(found.scores) <= 0).all()
    assert calls[-1] == (300 * 301 // 2, 300 * 301 // 2)


def test_equal_pairs_are_in_the_order_of_their_rows(block: int) -> None:
    """Rows of whole numbers have exact cosines, so that all pairs of copies are equal."""
    copies = np.zeros((30, 4), np.float32)
    copies[:, 0] = 1
    found = paraphrase_mining(copies, max_pairs=40)
    every = [[first, second] for first in range(30) for second in range(first + 1, 30)]
    assert found.indices.tolist() == every[:40]


@pytest.mark.parametrize(("threshold", "min_size"), [(0.75, 10), (0.85, 5), (0.5, 1), (0.99, 2)])
def test_groups_are_those_of_sentence_transformers(
    util: Any, block: int, threshold: float, min_size: int
) -> None:
    expected = util.community_detection(
        VECTORS, threshold=threshold, min_community_size=min_size, batch_size=64
    )
    assert community_detection(VECTORS, threshold=threshold, min_size=min_size) == expected


def test_groups_of_bits(block: int) -> None:
    """Each vector is in at most one group, and near to its centre."""
    calls: list[tuple[int, int]] = []
    bits = quantize(VECTORS, "ubinary")
    groups = community_detection(
        bits, threshold=0.6, min_size=4, progress=lambda *done: calls.append(done)
    )
    numbers = unit_length(as_float32(bits, 24))
    members = [row for group in groups for row in group]
    assert len(groups) > 3
    assert len(members) == len(set(members))
    assert all((numbers[group] @ numbers[group[0]] >= 0.59).all() for group in groups)
    assert calls[-1] == (300 * 300, 300 * 300)


def test_few_vectors_and_messages() -> None:
    assert paraphrase_mining(VECTORS[:1]).indices.shape == (0, 2)
    assert paraphrase_mining(VECTORS[:0]).scores.shape == (0,)
    assert community_detection(VECTORS[:0]) == community_detection(VECTORS[:9]) == []
    with pytest.raises(ValueError, match="`max_pairs` must be at least 1"):
        paraphrase_mining(VECTORS, max_pairs=0)
    with pytest.raises(ValueError, match="`min_size` must be at least 1"):
        community_detection(VECTORS, min_size=0)
    with pytest.raises(ValueError, match="Vectors must be an array"):
        paraphrase_mining(VECTORS.astype(np.float64))
