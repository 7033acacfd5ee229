"""Metrics of rankings: nDCG, mean reciprocal rank, mean average precision, recall, precision.

The definitions are those of trec_eval. Each function returns the mean over the queries. A query
without a relevant document counts as 0, as in trec_eval with the option -c.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import cast

import numpy as np

# The documents of a query in the order of their scores, the best first.
Ranking = Sequence[Hashable]
# The relevant documents of a query, or their gains; a gain of 0 or less is not relevant.
Relevant = Collection[Hashable] | Mapping[Hashable, float]


def ndcg(rankings: Sequence[Ranking], relevant: Sequence[Relevant], k: int | None = 10) -> float:
    """Return the normalised discounted cumulative gain (Järvelin & Kekäläinen, 2002).

    The gain of a document is divided by log2(rank + 1).

    Args:
        rankings: documents of each query, the best first.
        relevant: relevant documents of each query, or their gains.
        k: number of documents that count; None for all.

    Raises:
        ValueError: different numbers of queries, no query, a document that is twice in a ranking,
            or a `k` of less than 1.
    """

    def of_query(ranking: Ranking, gains: Mapping[Hashable, float]) -> float:
        """Return the gain of a query as a share of that of the best ranking."""
        best = _discounted(sorted(gains.values(), reverse=True)[:k])
        return _discounted([gains.get(document, 0.0) for document in ranking[:k]]) / best

    return _mean(of_query, rankings, relevant, k)


def _discounted(gains: Sequence[float]) -> float:
    """Return the sum of gains, each divided by log2(rank + 1)."""
    return float(np.sum(np.array(gains) / np.log2(np.arange(2, len(gains) + 2))))


def mean_reciprocal_rank(
    rankings: Sequence[Ranking], relevant: Sequence[Relevant], k: int | None = 10
) -> float:
    """Return the mean of 1 / rank of the first relevant document; 0 if there is none among `k`.

    See `ndcg` for the arguments and errors.
    """

    def of_query(ranking: Ranking, gains: Mapping[Hashable, float]) -> float:
        """Return 1 / rank of the first relevant document."""
        ranks = (rank for rank, document in enumerate(ranking[:k], 1) if document in gains)
        return 1 / next(ranks, np.inf)

    return _mean(of_query, rankings, relevant, k)


def mean_average_precision(
    rankings: Sequence[Ranking], relevant: Sequence[Relevant], k: int | None = None
) -> float:
    """Return the mean over the relevant documents of the precision at their ranks.

    A relevant document that is not among `k` counts as 0. See `ndcg` for the arguments and errors.
    """

    def of_query(ranking: Ranking, gains: Mapping[Hashable, float]) -> float:
        """Return the average precision of a query."""
        ranks = [rank for rank, document in enumerate(ranking[:k], 1) if document in gains]
        return sum(number / rank for number, rank in enumerate(ranks, 1)) / len(gains)

    return _mean(of_query, rankings, relevant, k)


def recall_at_k(
    rankings: Sequence[Ranking], relevant: Sequence[Relevant], k: int | None = 10
) -> float:
    """Return the share of the relevant documents that are among `k`.

    See `ndcg` for the arguments and errors.
    """

    def of_query(ranking: Ranking, gains: Mapping[Hashable, float]) -> float:
        """Return the recall of a query."""
        return sum(document in gains for document in ranking[:k]) / len(gains)

    return _mean(of_query, rankings, relevant, k)


def precision_at_k(
    rankings: Sequence[Ranking], relevant: Sequence[Relevant], k: int | None = 10
) -> float:
    """Return the share of `k` documents that are relevant; a shorter ranking has others behind it.

    See `ndcg` for the arguments and errors.
    """

    def of_query(ranking: Ranking, gains: Mapping[Hashable, float]) -> float:
        """Return the precision of a query."""
        found = sum(document in gains for document in ranking[:k])
        return found / (k or max(1, len(ranking)))

    return _mean(of_query, rankings, relevant, k)


def _mean(
    of_query: Callable[[Ranking, Mapping[Hashable, float]], float],
    rankings: Sequence[Ranking],
    relevant: Sequence[Relevant],
    k: int | None,
) -> float:
    """Return the mean of a score over the queries; 0 for a query without relevant documents."""
    if len(rankings) != len(relevant) or not len(rankings):
        raise ValueError(
            "Every query needs a ranking and its relevant documents, and there must be one query. "
            f"Received: {len(rankings)} rankings, relevant documents of {len(relevant)} queries"
        )
    if k is not None and k < 1:
        raise ValueError(f"`k` must be at least 1, or None for all documents. Received: k={k}")
    scores: list[float] = []
    for number, (ranking, documents) in enumerate(zip(rankings, relevant, strict=True)):
        if len(set(ranking)) < len(ranking):
            raise ValueError(f"The ranking of query {number} has a document twice.")
        if isinstance(documents, Mapping):
            given = cast("Mapping[Hashable, float]", documents)
            gains = {name: float(gain) for name, gain in given.items() if gain > 0}
        else:
            gains = dict.fromkeys(documents, 1.0)
        scores.append(of_query(ranking, gains) if gains else 0.0)
    return float(np.mean(scores))
