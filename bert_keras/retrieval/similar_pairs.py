"""Pairs and groups of similar vectors in a corpus, in bounded memory.

The vectors may be of any precision of `quantize`, and memory-mapped. Scores are cosines.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from bert_keras.retrieval.nearest import Progress
from bert_keras.retrieval.quantization import UBINARY, as_float32, precision_of, unit_length

_ROWS = 1024  # vectors of each side that are compared at once


class SimilarPairs(NamedTuple):
    """Pairs of vectors, the most similar first.

    Attributes:
        indices: rows of the two vectors, the smaller first, int64 [pairs, 2].
        scores: their cosines, float32 [pairs].
    """

    indices: np.ndarray
    scores: np.ndarray


def paraphrase_mining(
    vectors: np.ndarray,
    *,
    min_score: float = -1.0,
    max_pairs: int = 500_000,
    size: int | None = None,
    progress: Progress | None = None,
) -> SimilarPairs:
    """Return the most similar pairs of vectors, by comparing all.

    Pairs with equal scores are in the order of their rows.

    Args:
        vectors: vectors [rows, size] of any precision.
        min_score: lowest cosine of a pair.
        max_pairs: number of pairs to return; there are fewer if fewer have the score.
        size: numbers of a vector before the quantisation, for single bits; None for 8 for each
            byte.
        progress: called after each block with the number of comparisons that are done, and in all.

    Raises:
        ValueError: an argument is out of range.
    """
    _check(vectors, "max_pairs", max_pairs)
    best = SimilarPairs(np.zeros((0, 2), np.int64), np.zeros(0, np.float32))
    waiting: list[SimilarPairs] = []
    count, done, total = 0, 0, len(vectors) * (len(vectors) + 1) // 2
    for start, rows in _blocks(vectors, size):
        for other, columns in _blocks(vectors, size, start):
            scores = rows @ columns.T
            is_pair = scores >= min_score
            if other == start:
                is_pair = np.triu(is_pair, k=1)
            firsts, seconds = np.nonzero(is_pair)
            pairs = np.stack([firsts + start, seconds + other], axis=1)
            waiting.append(SimilarPairs(pairs, scores[firsts, seconds]))
            count += len(pairs)
            if count > max_pairs:
                best = _best([best, *waiting], max_pairs)
                waiting, count = [], 0
                if len(best.scores) == max_pairs:
                    min_score = max(min_score, float(best.scores[-1]))
            if progress is not None:
                same = len(rows) * (len(rows) + 1) // 2
                done += same if other == start else scores.size
                progress(done, total)
    return _best([best, *waiting], max_pairs)


def _best(parts: list[SimilarPairs], count: int) -> SimilarPairs:
    """Return the best `count` pairs of several lists, sorted by score, then by rows."""
    indices = np.concatenate([part.indices for part in parts])
    scores = np.concatenate([part.scores for part in parts])
    order = np.lexsort((indices[:, 1], indices[:, 0], -scores))[:count]
    return SimilarPairs(indices[order], scores[order])


def community_detection(
    vectors: np.ndarray,
    *,
    threshold: float = 0.75,
    min_size: int = 10,
    size: int | None = None,
    progress: Progress | None = None,
) -> list[list[int]]:
    """Return groups of vectors that are similar to a central one.

    The vector with the most neighbours, of a cosine of at least `threshold`, forms a group with
    those that are in no group yet. Then comes the vector with the next most neighbours that is in
    no group. This is "fast clustering" of sentence-transformers, with the same groups. A vector
    may be in no group.

    Args:
        vectors: vectors [rows, size] of any precision.
        threshold: lowest cosine of the central vector and another one of its group.
        min_size: smallest number of vectors of a group.
        size: see `paraphrase_mining`.
        progress: see `paraphrase_mining`; it is called while neighbours are counted.

    Returns:
        Rows of each group, the largest group first; in a group the central vector comes first,
        then the others by their cosines.

    Raises:
        ValueError: an argument is out of range.
    """
    _check(vectors, "min_size", min_size)
    counts = np.zeros(len(vectors), np.int64)
    done, total = 0, len(vectors) ** 2
    for start, rows in _blocks(vectors, size):
        for _, columns in _blocks(vectors, size):
            counts[start : start + len(rows)] += (rows @ columns.T >= threshold).sum(axis=1)
            done += len(rows) * len(columns)
            if progress is not None:
                progress(done, total)
    order = np.argsort(-counts, kind="stable")
    order = order[counts[order] >= min_size]
    groups: list[list[int]] = []
    is_used = np.zeros(len(vectors), bool)
    while len(order):
        for centre, members in _neighbours(vectors, order[:_ROWS], threshold, size):
            free = members[~is_used[members]]
            if not is_used[centre] and len(free) >= min_size:
                group = [centre, *free[free != centre].tolist()]
                groups.append(group)
                is_used[group] = True
        order = order[_ROWS:]
        order = order[~is_used[order]]
    return sorted(groups, key=len, reverse=True)


def _neighbours(
    vectors: np.ndarray, centres: np.ndarray, threshold: float, size: int | None
) -> Iterator[tuple[int, np.ndarray]]:
    """Yield each of some vectors with the rows that are similar to it, the most similar first."""
    rows = _numbers(vectors[centres], size)
    found: list[list[np.ndarray]] = [[] for _ in centres]
    cosines: list[list[np.ndarray]] = [[] for _ in centres]
    for start, columns in _blocks(vectors, size):
        scores = rows @ columns.T
        for row, is_near in enumerate(scores >= threshold):
            if is_near.any():
                near = np.flatnonzero(is_near)
                found[row].append(near + start)
                cosines[row].append(scores[row, near])
    for row, centre in enumerate(centres.tolist()):
        members, scores = np.concatenate(found[row]), np.concatenate(cosines[row])
        yield centre, members[np.argsort(-scores, kind="stable")]


def _blocks(
    vectors: np.ndarray, size: int | None, first: int = 0
) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the number of a block's first vector, and its vectors as float32 of the length 1."""
    for start in range(first, len(vectors), _ROWS):
        yield start, _numbers(vectors[start : start + _ROWS], size)


def _numbers(vectors: np.ndarray, size: int | None) -> np.ndarray:
    """Return vectors of any precision as float32 of the length 1."""
    width: int = vectors.shape[1]
    usual = 8 * width if precision_of(vectors) == UBINARY else width
    return unit_length(as_float32(vectors, usual if size is None else size))


def _check(vectors: np.ndarray, name: str, value: int) -> None:
    """Raise `ValueError` for vectors of another type, or a number below 1."""
    precision_of(vectors)
    if value < 1:
        raise ValueError(f"`{name}` must be at least 1. Received: {name}={value}")
