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
_QUERIES = 1024  # queries that are compared at once
_NUMBERS = 1 << 23  # numbers of an array that is in memory: 32 MB of float32
_FEW = 16  # queries for which differing bits are counted faster than multiplied

# Called after each block with (comparisons done, comparisons in all).
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

    The corpus may be a memory-mapped array. At most about 200 MB are in memory beside it and the
    answer. Vectors with equal scores are in the order of the corpus.

    Args:
        queries: float32 [queries, size].
        corpus: vectors of any precision; see `quantize`.
        top_k: number of vectors for each query.
        similarity: "cosine", or "dot" for vectors of float32 or float16.
        rescore: for single bits, how many times `top_k` vectors are found by the number of
            differing bits, and then compared with the query's own numbers.
        progress: called after each block with the number of comparisons that are done, and in all.

    Raises:
        ValueError: an argument is out of range, the sizes differ, or a score is not a number.
    """
    precision = precision_of(corpus)
    queries = np.ascontiguousarray(queries, np.float32)
    check_search(queries.shape, corpus, top_k, similarity, rescore)
    if similarity == COSINE:
        queries = unit_length(queries)
    count = min(top_k, len(corpus))
    wanted = min(rescore * count, len(corpus)) if precision == UBINARY else count
    blocks = range(0, len(queries), _QUERIES)
    found = joined(
        [_best(queries, start, corpus, wanted, similarity, progress) for start in blocks], wanted
    )
    if (found.indices < 0).any():
        row = int((found.indices < 0).any(axis=1).argmax())
        raise ValueError(
            "Scores must be numbers, and vectors finite. Received: a query or vectors of the "
            f"corpus with nan or infinity, at query {row}"
        )
    return rescored(queries, corpus, found.indices, count) if precision == UBINARY else found


def joined(parts: list[Nearest], count: int) -> Nearest:
    """Return the answers of blocks of queries as one; no queries give empty arrays."""
    empty = Nearest(np.zeros((0, count), np.int64), np.zeros((0, count), np.float32))
    return Nearest(*(np.concatenate(part) for part in zip(empty, *parts, strict=True)))


def rescored(
    queries: np.ndarray,
    corpus: np.ndarray,
    candidates: np.ndarray,
    count: int,
    similarity: str = COSINE,
) -> Nearest:
    """Return the best of some candidates by the query's own numbers.

    Args:
        queries: float32 [queries, size], of the length 1 for the cosine.
        corpus: vectors of any precision.
        candidates: rows of the corpus, int64 [queries, n].
        count: number of vectors for each query.
        similarity: "cosine" or "dot".
    """
    scores = np.empty(candidates.shape, np.float32)
    for row, (query, numbers) in enumerate(zip(queries, candidates, strict=True)):
        vectors = as_float32(corpus[numbers], len(query))
        scores[row] = (unit_length(vectors) if similarity == COSINE else vectors) @ query
    order = np.argsort(-scores, axis=1, kind="stable")[:, :count]
    return Nearest(
        np.take_along_axis(candidates, order, axis=1), np.take_along_axis(scores, order, axis=1)
    )


def check_search(
    shape: tuple[int, ...], corpus: np.ndarray, top_k: int, similarity: str, rescore: int
) -> None:
    """Raise `ValueError` for arguments of `nearest` that do not fit.

    Args:
        shape: shape of the queries.
        corpus: vectors of any precision.
        top_k: number of vectors for each query.
        similarity: name of the similarity.
        rescore: number of candidates for each of these vectors.
    """
    precision = precision_of(corpus)
    if len(shape) != 2:
        raise ValueError(f"`queries` must be [queries, size]. Received: shape {shape}")
    if top_k < 1:
        raise ValueError(f"`top_k` must be at least 1. Received: top_k={top_k}")
    if rescore < 1:
        raise ValueError(f"`rescore` must be at least 1. Received: rescore={rescore}")
    if similarity not in (COSINE, DOT):
        raise ValueError(
            f"`similarity` must be {COSINE!r} or {DOT!r}. Received: similarity={similarity!r}"
        )
    if similarity == DOT and precision in (INT8, UBINARY):
        raise ValueError(
            "Vectors of 8 bits and of single bits have no length, so compare them by "
            f"similarity='cosine'. Received: similarity={similarity!r}"
        )
    size = -(-shape[1] // 8) if precision == UBINARY else shape[1]
    if corpus.shape[1] != size:
        raise ValueError(
            "The vectors of queries and corpus must have one size. Received: queries of "
            f"{shape[1]} and a corpus of {corpus.shape[1]} ({precision}). Encode both with "
            "the same model and the same `truncate_dim`."
        )


def _best(
    queries: np.ndarray,
    start: int,
    corpus: np.ndarray,
    count: int,
    similarity: str,
    progress: Progress | None,
) -> Nearest:
    """Return the nearest vectors of a block of queries; for single bits, by equal bits.

    Args:
        queries: all queries, float32 [queries, size].
        start: first query of the block.
        corpus: vectors of any precision.
        count: number of vectors for each query.
        similarity: "cosine", where queries have the length 1, or "dot".
        progress: see `nearest`.
    """
    block = queries[start : start + _QUERIES]
    shape = (len(block), count)
    best = Nearest(np.full(shape, -1, np.int64), np.full(shape, -np.inf, np.float32))
    is_bits = corpus.dtype == np.uint8
    block = np.where(block > 0, np.float32(1), np.float32(-1)) if is_bits else block
    rows = max(1, _NUMBERS // max(1, *block.shape))
    for first in range(0, len(corpus), rows):
        part = corpus[first : first + rows]
        best = _merged(best, first, _scores(block, part, similarity))
        if progress is not None:
            done = start * len(corpus) + len(block) * (first + len(part))
            progress(done, len(queries) * len(corpus))
    return best


def _scores(queries: np.ndarray, part: np.ndarray, similarity: str) -> np.ndarray:
    """Return the scores of queries and vectors: float32 [queries, vectors].

    The score of single bits is the number of equal bits minus that of differing ones.
    """
    size = queries.shape[1]
    if part.dtype != np.uint8:
        vectors = as_float32(part, size)
        scores = queries @ vectors.T
        if similarity == COSINE:
            lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
            scores /= np.maximum(lengths, np.finfo(np.float32).tiny)
        return scores
    if len(queries) > _FEW:
        return queries @ as_float32(part, size).T
    bits = np.packbits(queries > 0, axis=1)
    if bits.shape[1] % 8 == 0:  # eight bytes are counted at once
        bits, part = bits.view(np.uint64), np.ascontiguousarray(part).view(np.uint64)
    differing = [np.bitwise_count(part ^ row).sum(axis=1, dtype=np.int32) for row in bits]
    return size - 2 * np.stack(differing).astype(np.float32)


def _merged(best: Nearest, first: int, scores: np.ndarray) -> Nearest:
    """Return the best of the vectors so far and of the next block, sorted.

    Args:
        best: best vectors of earlier blocks, [queries, count].
        first: number of the first vector of the block.
        scores: scores of the block, float32 [queries, vectors].
    """
    count = best.scores.shape[1]
    # An equal score is not better, because earlier vectors come first.
    better = scores > best.scores[:, -1:]
    many = np.flatnonzero(better.sum(axis=1) > 4 * count)
    if len(many):
        least = scores.shape[1] - count
        better[many] &= scores[many] >= np.partition(scores[many], least, axis=1)[:, least, None]
    rows, columns = np.nonzero(better)
    if not len(rows):
        return best
    widths = np.bincount(rows, minlength=len(scores))
    places = np.arange(len(rows)) - np.repeat(np.cumsum(widths) - widths, widths)
    added = (len(scores), int(widths.max()))
    new = Nearest(np.full(added, -1, np.int64), np.full(added, -np.inf, np.float32))
    new.indices[rows, places], new.scores[rows, places] = first + columns, scores[rows, columns]
    indices = np.concatenate([best.indices, new.indices], axis=1)
    scores = np.concatenate([best.scores, new.scores], axis=1)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :count]
    return Nearest(
        np.take_along_axis(indices, order, axis=1), np.take_along_axis(scores, order, axis=1)
    )
