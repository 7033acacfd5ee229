"""Metrics of rankings have the numbers of scikit-learn, or of their definitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bert_keras import metrics

RNG = np.random.default_rng(0)
SCORES = RNG.standard_normal((20, 30))
GAINS = RNG.integers(0, 4, (20, 30)) * (RNG.random((20, 30)) < 0.2)
GAINS[:, 3] = 1  # every query has a relevant document
RANKINGS = [row.tolist() for row in np.argsort(-SCORES, axis=1)]
RELEVANT = [{int(n): float(row[n]) for n in np.flatnonzero(row)} for row in GAINS]


@pytest.mark.parametrize("k", [1, 5, 10, 40, None])
def test_ndcg_of_scikit_learn(k: int | None) -> None:
    sklearn = pytest.importorskip("sklearn.metrics")
    expected = sklearn.ndcg_score(GAINS, SCORES, k=k)
    assert metrics.ndcg(RANKINGS, RELEVANT, k) == pytest.approx(expected, abs=1e-12)


def test_average_precision_of_scikit_learn() -> None:
    sklearn = pytest.importorskip("sklearn.metrics")
    expected = np.mean(
        [
            sklearn.average_precision_score(row > 0, scores)
            for row, scores in zip(GAINS, SCORES, strict=True)
        ]
    )
    assert metrics.mean_average_precision(RANKINGS, RELEVANT) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("k", [1, 5, 40])
def test_counts(k: int) -> None:
    """Recall, precision and the reciprocal rank, from a table of hits."""
    hits = np.array(
        [
            [document in gains for document in ranking[:k]]
            for ranking, gains in zip(RANKINGS, RELEVANT, strict=True)
        ]
    )
    sizes = np.array([len(gains) for gains in RELEVANT])
    assert metrics.recall_at_k(RANKINGS, RELEVANT, k) == pytest.approx((hits.sum(1) / sizes).mean())
    assert metrics.precision_at_k(RANKINGS, RELEVANT, k) == pytest.approx(hits.sum(1).mean() / k)
    ranks = np.where(hits.any(1), 1 + hits.argmax(1), np.inf)
    found = metrics.mean_reciprocal_rank(RANKINGS, RELEVANT, k)
    assert found == pytest.approx((1 / ranks).mean())


ALL: list[Callable[..., float]] = [
    *(metrics.ndcg, metrics.mean_reciprocal_rank, metrics.mean_average_precision),
    *(metrics.recall_at_k, metrics.precision_at_k),
]


@pytest.mark.parametrize("metric", ALL)
def test_the_best_and_the_worst(metric: Callable[..., float]) -> None:
    best = metric([["a", "b"], ["c", "d"]], [{"a", "b"}, {"c": 2, "d": 1}], 2)
    assert best == pytest.approx(1.0)
    assert metric([["a", "b"]], [{"c"}], 2) == 0.0
    # A query without relevant documents counts as 0.
    assert metric([["a"], ["b"]], [{"a"}, {"b": 0}], 1) == pytest.approx(0.5)


@pytest.mark.parametrize("metric", ALL)
def test_messages(metric: Callable[..., float]) -> None:
    bad: dict[str, tuple[Any, ...]] = {
        "2 rankings, relevant documents of 1": ([["a"], ["b"]], [{"a"}]),
        "there must be one query": ([], []),
        "query 0 has a document twice": ([["a", "a"]], [{"a"}]),
        "`k` must be at least 1": ([["a"]], [{"a"}], 0),
    }
    for message, arguments in bad.items():
        with pytest.raises(ValueError, match=message):
            metric(*arguments)
