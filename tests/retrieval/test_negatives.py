"""Hard negatives are those of a comparison with the whole corpus, within their limits."""

from __future__ import annotations

import dataclasses
import sys

import numpy as np
import pytest

from bert_keras.retrieval import NegativeLimits, choose_negatives, quantize
from bert_keras.retrieval.quantization import as_float32, unit_length

module = sys.modules["bert_keras.retrieval.negatives"]
RNG = np.random.default_rng(0)
CORPUS = RNG.standard_normal((200, 12)).astype(np.float32)
POSITIVES = [[n, 100 + n] if n % 3 else [n] for n in range(40)]
QUERIES = np.stack([CORPUS[rows].mean(axis=0) for rows in POSITIVES])
QUERIES += 0.3 * RNG.standard_normal(QUERIES.shape).astype(np.float32)
LIMITS = NegativeLimits(num_negatives=4, range_max=60, relative_margin=0.4, min_score=-0.2)


def admissible(limits: NegativeLimits, scores: np.ndarray) -> list[list[int]]:
    """Return the rows within the limits of scores for each query, the best first, by plain loops.

    Args:
        limits: limits with a `range_max` that leaves out no candidate.
        scores: score of each row for each query.
    """
    rows = []
    for number, right in enumerate(POSITIVES):
        lowest = min(scores[number, row] for row in right)
        fits = [
            row
            for row, score in enumerate(scores[number])
            if row not in right
            and score + (limits.absolute_margin or -9) <= lowest
            and score <= lowest - abs(lowest) * (limits.relative_margin or -9)
            and (limits.min_score or -9) <= score <= (limits.max_score or 9)
        ]
        rows.append(sorted(fits, key=lambda row: -scores[number, row])[limits.range_min :])
    return rows


def cosines(corpus: np.ndarray = CORPUS) -> np.ndarray:
    return unit_length(QUERIES) @ unit_length(as_float32(corpus, 12)).T


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"relative_margin": None, "absolute_margin": 0.3},
        {"relative_margin": None, "min_score": None, "max_score": 0.25},
        {"range_min": 5},
    ],
)
@pytest.mark.parametrize("precision", ["float32", "float16", "int8"])
def test_the_best_rows_within_the_limits(changes: dict, precision: str) -> None:
    limits = dataclasses.replace(LIMITS, range_max=200, **changes)
    corpus = quantize(CORPUS, precision)
    found = choose_negatives(QUERIES, corpus, POSITIVES, limits)
    expected = admissible(limits, cosines(corpus))
    assert sum(map(len, expected)) > 300, "the limits leave too few candidates for a test"
    for number, rows in enumerate(expected):
        padded = [*rows[:4], -1, -1, -1, -1][:4]
        assert found.indices[number].tolist() == padded
        kept = found.indices[number] >= 0
        wanted = cosines(corpus)[number, rows[: kept.sum()]]
        np.testing.assert_allclose(found.scores[number, kept], wanted, atol=1e-6)
        assert np.isneginf(found.scores[number, ~kept]).all()
    right = [cosines(corpus)[n, row] for n, rows in enumerate(POSITIVES) for row in rows]
    np.testing.assert_allclose(found.positive_scores, right, atol=1e-6)


@pytest.mark.parametrize("queries", [1, 7, 4096])
def test_the_size_of_a_block_changes_nothing(queries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = dataclasses.replace(LIMITS, sampling="random")
    whole = choose_negatives(QUERIES, CORPUS, POSITIVES, limits)
    monkeypatch.setattr(module, "_QUERIES", queries)
    calls: list[tuple[int, int]] = []
    found = choose_negatives(
        QUERIES, CORPUS, POSITIVES, limits, progress=lambda *done: calls.append(done)
    )
    np.testing.assert_array_equal(found.indices, whole.indices)
    assert found.left_out == whole.left_out
    assert calls[-1] == (40, 40)
    assert len(calls) == -(-40 // queries)


def test_random_rows_are_drawn_from_the_same_candidates() -> None:
    limits = dataclasses.replace(LIMITS, sampling="random", range_max=200)
    draws = [
        choose_negatives(QUERIES, CORPUS, POSITIVES, dataclasses.replace(limits, seed=seed)).indices
        for seed in (0, 0, 1)
    ]
    np.testing.assert_array_equal(draws[0], draws[1])
    assert (draws[0] != draws[2]).any()
    expected = admissible(limits, cosines())
    for number, rows in enumerate(expected):
        chosen = [row for row in draws[0][number].tolist() if row >= 0]
        assert len(chosen) == min(4, len(rows))
        assert chosen == [row for row in rows if row in chosen]  # the best first
    top = choose_negatives(QUERIES, CORPUS, POSITIVES, LIMITS).indices
    assert (draws[0] != top).any()
    some = choose_negatives(QUERIES[:3], CORPUS, POSITIVES[:3], limits).indices
    np.testing.assert_array_equal(some, draws[0][:3])


def test_reasons_are_counted() -> None:
    """Each of the candidates is a right answer, outside one limit, or may be chosen."""
    limits = dataclasses.replace(LIMITS, range_max=198, max_score=0.3, num_negatives=198)
    found = choose_negatives(QUERIES, CORPUS, POSITIVES, limits)
    chosen = int((found.indices >= 0).sum())
    assert found.left_out.keys() == {"right answer", "relative_margin", "max_score", "min_score"}
    assert found.left_out["right answer"] == sum(map(len, POSITIVES))
    assert chosen + sum(found.left_out.values()) == 40 * 200


def test_scores_of_pairs_replace_those_of_vectors() -> None:
    """Each candidate is scored once, and right answers are scored for the margin."""
    scores = RNG.standard_normal((40, 200)).astype(np.float32)
    asked: list[tuple[int, int]] = []

    def score(numbers: np.ndarray, rows: np.ndarray) -> np.ndarray:
        asked.extend(zip(numbers.tolist(), rows.tolist(), strict=True))
        return scores[numbers, rows]

    limits = dataclasses.replace(LIMITS, range_max=200, min_score=None)
    found = choose_negatives(QUERIES, CORPUS, POSITIVES, limits, pair_scores=score)
    assert len(asked) == len(set(asked)) == 40 * 200
    for number, rows in enumerate(admissible(limits, scores)):
        assert found.indices[number].tolist() == [*rows[:4], -1, -1, -1, -1][:4]


def test_excluded_rows() -> None:
    limits = NegativeLimits(num_negatives=2)
    first = choose_negatives(QUERIES, CORPUS, POSITIVES, limits)
    excluded = [row[:1] for row in first.indices]
    found = choose_negatives(QUERIES, CORPUS, POSITIVES, limits, excluded=excluded)
    np.testing.assert_array_equal(found.indices[:, 0], first.indices[:, 1])
    np.testing.assert_array_equal(found.positive_scores, first.positive_scores)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"num_negatives": 0}, "`num_negatives` must be at least 1"),
        ({"range_min": -1}, "`range_min` must be at least 0"),
        ({"seed": -1}, "`seed` must be at least 0"),
        ({"max_score": float("nan")}, "`max_score` must be a finite number"),
        ({"range_max": 4, "range_min": 2}, "at least `range_min` . `num_negatives`, 5"),
        ({"sampling": "best"}, "Received: sampling='best'"),
    ],
)
def test_bad_limits(values: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NegativeLimits(**values)


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="Received: 40 queries, 39 positives"):
        choose_negatives(QUERIES, CORPUS, POSITIVES[1:])
    with pytest.raises(ValueError, match="Received: none for query 1"):
        choose_negatives(QUERIES[:2], CORPUS, [[0], []])
    with pytest.raises(ValueError, match="leaves candidates out by a limit"):
        choose_negatives(QUERIES, CORPUS, POSITIVES, pair_scores=lambda *_: np.zeros(0))
