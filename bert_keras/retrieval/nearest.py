"""Nearest vectors of a corpus, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bert_keras.retrieval.quantization import (
    INT8,
    UBINARY,
    as_float32,
    precision_of,
    unit_length,
)

COSINE, DOT = "cosine", "dot"
_SCORES = 1 << 23  # scores in memory at once
_BITS_AT_ONCE = 1 << 26  # bytes of differing bits in memory at once

# Called after each block of queries or of the corpus with (done, in all).
Progress = Callable[[int, int], None]


class Nearest(NamedTuple):
    """The nearest vectors of each query, the best first.

    Attributes:
        indices: rows of the corpus, int64 [queries, k].
        scores: similarities, float32 [queries, k].
    """

    indices: np.ndarray
    scores: np.ndarray


def nearest(
    queries: np.ndarray,
    corpus: np.ndarray,
    *,
    top_k: int = 10,
    similarity: str = COSINE,
    rescore: int = 4,
    progress: Progress | None = None,
) -> Nearest:
    """Return the nearest vectors of a corpus for each query, by comparing all.

    The corpus may be a memory-mapped array. At most about 100 MB are in memory beside it. Vectors
    with equal scores are in the order of the corpus.

    Args:
        queries: float32 [queries, size].
        corpus: vectors of any precision; see `quantize`.
        top_k: number of vectors for each query.
        similarity: "cosine", or "dot" for vectors of float32 or float16.
        rescore: for single bits, how many times `top_k` vectors are found by the number of
            differing bits, and then compared with the query's own numbers.
        progress: called after each block of the corpus.

    Raises:
        ValueError: an argument is out of range, or the sizes differ.
    """
    precision = precision_of(corpus)
    queries = np.ascontiguousarray(queries, np.float32)
    _check(queries, corpus, precision, top_k, similarity)
    if similarity == COSINE:
        queries = unit_length(queries)
    count = min(top_k, len(corpus))
    if precision == UBINARY:
        candidates = _nearest_bits(queries, corpus, min(len(corpus), rescore * count), progress)
        return rescored(queries, corpus, candidates, count)
    best = Nearest(np.zeros((len(queries), 0), np.int64), np.zeros((len(queries), 0), np.float32))
    block = max(count, _SCORES // max(1, len(queries)))
    for start in range(0, len(corpus), block):
        vectors = as_float32(corpus[start : start + block], queries.shape[1])
        if similarity == COSINE:
            vectors = unit_length(vectors)
        scores = queries @ vectors.T
        numbers = np.arange(start, start + len(vectors))
        best = _merged(best, numbers, scores, count)
        if progress is not None:
            progress(min(start + block, len(corpus)), len(corpus))
    return best


def rescored(
    queries: np.ndarray, corpus: np.ndarray, candidates: np.ndarray, count: int
) -> Nearest:
    """Return the best of some candidates by the cosine of the query's own numbers.

    Args:
        queries: float32 [queries, size].
        corpus: vectors of any precision.
        candidates: rows of the corpus, int64 [queries, n].
        count: number of vectors for each query.
    """
    scores = np.empty(candidates.shape, np.float32)
    for row, (query, numbers) in enumerate(zip(queries, candidates, strict=True)):
        scores[row] = unit_length(as_float32(corpus[numbers], len(query))) @ query
    order = np.argsort(-scores, axis=1, kind="stable")[:, :count]
    return Nearest(
        np.take_along_axis(candidates, order, axis=1), np.take_along_axis(scores, order, axis=1)
    )


def _check(
    queries: np.ndarray, corpus: np.ndarray, precision: str, top_k: int, similarity: str
) -> None:
    """Raise `ValueError` for arguments of `nearest` that do not fit."""
    if queries.ndim != 2:
        raise ValueError(f"`queries` must be [queries, size]. Received: shape {queries.shape}")
    if top_k < 1:
        raise ValueError(f"`top_k` must be at least 1. Received: top_k={top_k}")
    if similarity not in (COSINE, DOT):
        raise ValueError(
            f"`similarity` must be {COSINE!r} or {DOT!r}. Received: similarity={similarity!r}"
        )
    if similarity == DOT and precision in (INT8, UBINARY):
        raise ValueError(
            "Vectors of 8 bits and of single bits have no length, so compare them by "
            f"similarity='cosine'. Received: similarity={similarity!r}"
        )
    size = -(-queries.shape[1] // 8) if precision == UBINARY else queries.shape[1]
    if corpus.shape[1] != size:
        raise ValueError(
            "The vectors of queries and corpus must have one size. Received: queries of "
            f"{queries.shape[1]} and a corpus of {corpus.shape[1]} ({precision}). Encode both with "
            "the same model and the same `truncate_dim`."
        )


def _merged(best: Nearest, numbers: np.ndarray, scores: np.ndarray, count: int) -> Nearest:
    """Return the best of two sets of vectors for each query, sorted."""
    if scores.shape[1] > count:
        top = np.argpartition(-scores, count - 1, axis=1)[:, :count]
        top.sort(axis=1)  # equal scores stay in the order of the corpus
        numbers, scores = numbers[top], np.take_along_axis(scores, top, axis=1)
    else:
        numbers = np.broadcast_to(numbers, scores.shape)
    indices = np.concatenate([best.indices, numbers], axis=1)
    scores = np.concatenate([best.scores, scores], axis=1)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :count]
    return Nearest(
        np.take_along_axis(indices, order, axis=1), np.take_along_axis(scores, order, axis=1)
    )


def _nearest_bits(
    queries: np.ndarray, corpus: np.ndarray, count: int, progress: Progress | None
) -> np.ndarray:
    """Return the vectors with the fewest differing bits for each query: int64 [queries, count]."""
    bits = np.packbits(queries > 0, axis=1)
    found = np.empty((len(queries), count), np.int64)
    block = max(count, _BITS_AT_ONCE // corpus.shape[1])
    for row, query in enumerate(bits):
        differing = np.concatenate(
            [
                np.bitwise_count(corpus[start : start + block] ^ query).sum(axis=1, dtype=np.int32)
                for start in range(0, len(corpus), block)
            ]
        )
        keys = differing.astype(np.int64) * len(corpus) + np.arange(len(corpus))  # all different
        found[row] = np.sort(np.partition(keys, count - 1)[:count]) % len(corpus)
        if progress is not None:
            progress(row + 1, len(queries))
    return found
