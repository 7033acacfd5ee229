"""Hard negatives chosen by vectors: rows of a corpus that are near to a query, and no answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bert_keras.retrieval.nearest import COSINE, nearest
from bert_keras.retrieval.quantization import as_float32, unit_length

TOP, RANDOM = "top", "random"
SAMPLINGS = (TOP, RANDOM)
_CANDIDATES = 1 << 20  # scores of candidates in memory at once
_QUERIES = 4096  # queries that are compared with the corpus at once
_NONE = -np.inf  # score of a candidate that is left out

# Score of each pair of a query and a row of the corpus: (int64 [pairs], int64 [pairs]) -> [pairs].
PairScores = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True, kw_only=True)
class NegativeLimits:
    """Limits of the choice of hard negatives.

    They are those of `sentence_transformers.util.mine_hard_negatives`. A margin compares with the
    lowest score of the query's right answers (NV-Retriever: de Souza Moreira et al., 2024, §3).

    Attributes:
        num_negatives: number of negatives for each query.
        range_min: number of the best candidates to skip, of those within all other limits.
        range_max: rank of the last candidate to choose from; None for ten times `num_negatives` if
            a limit of scores may leave candidates out, else for as many as are needed.
        max_score: highest score of a negative.
        min_score: lowest score of a negative.
        absolute_margin: least difference of a negative's score below the right answer's.
        relative_margin: the same difference as a share of the right answer's score, such as 0.05.
        sampling: "top" chooses the best candidates, "random" draws from all of them.
        seed: seed of the draw.

    Raises:
        ValueError: a value is out of range.
    """

    num_negatives: int = 3
    range_min: int = 0
    range_max: int | None = None
    max_score: float | None = None
    min_score: float | None = None
    absolute_margin: float | None = None
    relative_margin: float | None = None
    sampling: str = TOP
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("num_negatives", 1), ("range_min", 0), ("seed", 0)):
            if (value := getattr(self, name)) < least:
                raise ValueError(f"`{name}` must be at least {least}. Received: {name}={value}")
        for name in ("max_score", "min_score", "absolute_margin", "relative_margin"):
            value = getattr(self, name)
            if value is not None and not np.isfinite(value):
                raise ValueError(f"`{name}` must be a finite number. Received: {name}={value}")
        if self.range_max is not None and self.range_max < self.range_min + self.num_negatives:
            raise ValueError(
                "`range_max` must leave candidates for all negatives: at least `range_min` + "
                f"`num_negatives`, {self.range_min + self.num_negatives}. "
                f"Received: range_max={self.range_max}"
            )
        if self.sampling not in SAMPLINGS:
            raise ValueError(
                f"`sampling` must be {TOP!r} or {RANDOM!r}. Received: sampling={self.sampling!r}"
            )

    @property
    def limits_scores(self) -> bool:
        """True if a candidate may be left out by its score."""
        scores = self.max_score, self.min_score, self.absolute_margin, self.relative_margin
        return any(value is not None for value in scores)

    def last_rank(self, max_positives: int, *, is_rescored: bool) -> int:
        """Return `range_max`, or its default.

        Args:
            max_positives: largest number of right answers of a query.
            is_rescored: whether a cross-encoder scores the candidates.
        """
        if self.range_max is not None:
            return self.range_max
        # Candidates come by falling scores, so `min_score` alone needs no others.
        most = self.max_score, self.absolute_margin, self.relative_margin
        needs_more = any(value is not None for value in most)
        needs_more = needs_more or (is_rescored and self.min_score is not None)
        return self.range_min + max_positives + self.num_negatives * (10 if needs_more else 1)


# === Vectors ===


class HardNegatives(NamedTuple):
    """Hard negatives of each query, as rows of the corpus.

    Attributes:
        indices: rows, the best score first, int64 [queries, num_negatives]; -1 where a query has
            fewer.
        scores: their scores, float32 of the same shape; -inf where the row is -1.
        positive_scores: scores of the right answers of all queries, one after another: float32.
        left_out: number of candidates that were left out, by reason: "right answer" or the name of
            a limit.
    """

    indices: np.ndarray
    scores: np.ndarray
    positive_scores: np.ndarray
    left_out: dict[str, int]


def choose_negatives(
    queries: np.ndarray,
    corpus: np.ndarray,
    positives: Sequence[Sequence[int]],
    limits: NegativeLimits | None = None,
    *,
    excluded: Sequence[Sequence[int]] | None = None,
    similarity: str = COSINE,
    pair_scores: PairScores | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> HardNegatives:
    """Choose hard negatives by the vectors of queries and corpus.

    The memory does not grow with the corpus, which may be a memory-mapped array.

    Args:
        queries: float32 [queries, size].
        corpus: vectors of any precision; see `quantize`.
        positives: rows of the corpus that answer each query, at least one for each.
        limits: limits of the choice; None for the default ones.
        excluded: further rows that are no negatives of each query; None for none.
        similarity: "cosine" or "dot"; see `nearest`.
        pair_scores: function that scores the candidates in place of the vectors, such as a
            cross-encoder's: called with the numbers of queries and rows of the corpus, int64
            [pairs] each; returns [pairs].
        progress: called after each block of queries.

    Raises:
        ValueError: a query has no right answer, arguments differ in length, or there are
            `pair_scores` and no limit of scores.
    """
    limits = limits or NegativeLimits()
    excluded = positives if excluded is None else excluded
    _check(queries, positives, excluded, limits, pair_scores)
    not_negative = [{*rows, *more} for rows, more in zip(positives, excluded, strict=True)]
    last_rank = limits.last_rank(max(map(len, positives)), is_rescored=pair_scores is not None)
    count = min(last_rank + max(map(len, not_negative)), len(corpus))
    block = max(1, min(_QUERIES, _CANDIDATES // count))
    indices = np.full((len(queries), limits.num_negatives), -1, np.int64)
    scores = np.full(indices.shape, _NONE, np.float32)
    all_right: list[np.ndarray] = []
    left_out: dict[str, int] = {}
    for start in range(0, len(queries), block):
        numbers = range(start, min(start + block, len(queries)))
        part = np.ascontiguousarray(queries[start : numbers.stop], np.float32)
        found = nearest(part, corpus, top_k=count, similarity=similarity)
        masks = [np.isin(found.indices[row], [*not_negative[n]]) for row, n in enumerate(numbers)]
        is_right = np.stack(masks)
        owners = np.repeat(np.arange(len(part)), [len(positives[n]) for n in numbers])
        right_rows = np.concatenate([np.asarray(positives[n], np.int64) for n in numbers])
        if pair_scores is None:
            candidates = found.scores
            right = _pair_similarities(part, corpus, owners, right_rows, similarity)
        else:
            rows, columns = np.nonzero(~is_right)
            pairs = (
                np.concatenate([rows, owners]),
                np.concatenate([found.indices[rows, columns], right_rows]),
            )
            rescored = np.asarray(pair_scores(start + pairs[0], pairs[1]), np.float32)
            candidates = np.full(found.scores.shape, _NONE, np.float32)
            candidates[rows, columns], right = rescored[: len(rows)], rescored[len(rows) :]
        lowest = np.full(len(part), np.inf, np.float32)
        np.minimum.at(lowest, owners, right)
        candidates = _within_limits(candidates, is_right, lowest, limits, left_out)
        order = np.argsort(-candidates, axis=1, kind="stable")[:, limits.range_min : last_rank]
        for row, number in enumerate(numbers):
            ranked = order[row][candidates[row, order[row]] > _NONE]
            chosen = _sampled(ranked, limits, number)
            indices[number, : len(chosen)] = found.indices[row, chosen]
            scores[number, : len(chosen)] = candidates[row, chosen]
        all_right.append(right)
        if progress is not None:
            progress(numbers.stop, len(queries))
    return HardNegatives(indices, scores, np.concatenate(all_right), left_out)


def _check(
    queries: np.ndarray,
    positives: Sequence[Sequence[int]],
    excluded: Sequence[Sequence[int]],
    limits: NegativeLimits,
    pair_scores: PairScores | None,
) -> None:
    """Raise `ValueError` for arguments of `choose_negatives` that do not fit."""
    if not len(queries) or not len(queries) == len(positives) == len(excluded):
        raise ValueError(
            "Each query needs its right answers, and at least one query is needed. Received: "
            f"{len(queries)} queries, {len(positives)} positives, {len(excluded)} excluded"
        )
    if (number := next((n for n, rows in enumerate(positives) if not len(rows)), None)) is not None:
        raise ValueError(
            f"Each query needs at least one right answer. Received: none for query {number}"
        )
    if pair_scores is not None and not limits.limits_scores:
        raise ValueError(
            "A cross-encoder leaves candidates out by a limit of their scores. Pass "
            "`relative_margin`, `absolute_margin`, `max_score` or `min_score`, or no "
            f"cross-encoder. Received: {limits}"
        )


def _pair_similarities(
    queries: np.ndarray, corpus: np.ndarray, owners: np.ndarray, rows: np.ndarray, similarity: str
) -> np.ndarray:
    """Return the similarity of queries and rows of the corpus, float32 [pairs]."""
    vectors = as_float32(corpus[rows], queries.shape[1])
    firsts = queries[owners]
    if similarity == COSINE:
        firsts, vectors = unit_length(firsts), unit_length(vectors)
    return (firsts * vectors).sum(axis=1, dtype=np.float32)


def _within_limits(
    scores: np.ndarray,
    is_right: np.ndarray,
    lowest: np.ndarray,
    limits: NegativeLimits,
    left_out: dict[str, int],
) -> np.ndarray:
    """Return the scores of candidates, -inf for those outside the limits; count these.

    Args:
        scores: float32 [queries, candidates].
        is_right: candidates that must not be negatives, of the same shape.
        lowest: lowest score of each query's right answers, float32 [queries].
        limits: limits of the choice.
        left_out: numbers of candidates by reason, to add to.
    """
    scores = np.where(is_right, np.float32(_NONE), scores)
    left_out["right answer"] = left_out.get("right answer", 0) + int(is_right.sum())
    for name in ("absolute_margin", "relative_margin", "max_score", "min_score"):
        value = getattr(limits, name)
        if value is not None:
            outside = _outside(name, np.float32(value), scores, lowest[:, None])
            outside &= scores > _NONE
            scores = np.where(outside, np.float32(_NONE), scores)
            left_out[name] = left_out.get(name, 0) + int(outside.sum())
    return scores


def _outside(name: str, value: np.float32, scores: np.ndarray, lowest: np.ndarray) -> np.ndarray:
    """Return which scores are outside a limit, by its name; `lowest` is [queries, 1]."""
    if name == "absolute_margin":
        return scores + value > lowest
    if name == "relative_margin":
        return scores > lowest - np.abs(lowest) * value
    return scores > value if name == "max_score" else scores < value


def _sampled(ranked: np.ndarray, limits: NegativeLimits, number: int) -> np.ndarray:
    """Return the chosen ones of ranked candidates, in their order; `number` is the query's."""
    if limits.sampling == TOP or len(ranked) <= limits.num_negatives:
        return ranked[: limits.num_negatives]
    draw = np.random.default_rng([limits.seed, number])  # one query does not change another
    return ranked[np.sort(draw.choice(len(ranked), limits.num_negatives, replace=False))]
