"""Rows are never overfull, hold everything, and are nearly full."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_keras.data.bins import fill_rows


@settings(max_examples=300, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 40), max_size=200),
    longer=st.integers(0, 60),
    most=st.none() | st.integers(1, 6),
)
def test_no_row_is_overfull_or_empty(lengths: list[int], longer: int, most: int | None) -> None:
    row_length = max(lengths, default=1) + longer
    rows = fill_rows(np.array(lengths, np.int64), row_length, most)
    assert rows.shape == (len(lengths),)
    assert rows.dtype == np.int64
    counts = np.bincount(rows)
    assert counts.all()
    assert np.bincount(rows, weights=lengths).max(initial=0) <= row_length
    assert most is None or counts.max(initial=0) <= most
    np.testing.assert_array_equal(fill_rows(np.array(lengths), row_length, most), rows)


@settings(max_examples=100, deadline=None)
@given(lengths=st.lists(st.integers(1, 40), min_size=1, max_size=200), seed=st.integers(0, 9))
def test_rows_are_a_matter_of_lengths_alone(lengths: list[int], seed: int) -> None:
    """In another order, the same rows but for which of equally long examples is where."""
    order = np.random.default_rng(seed).permutation(len(lengths))
    first = fill_rows(np.array(lengths), 64)
    other = fill_rows(np.array(lengths)[order], 64)
    for one, two in ((first, np.array(lengths)), (other, np.array(lengths)[order])):
        sums = np.bincount(one, weights=two)
        np.testing.assert_array_equal(sums, np.bincount(first, weights=lengths))


@pytest.mark.parametrize(
    ("draw", "row_length", "share"),
    [
        (lambda rng: rng.lognormal(2.35, 0.65, 50_000).astype(int).clip(1, 64) + 2, 128, 0.99),
        (lambda rng: rng.integers(3, 129, 50_000), 128, 0.99),
        (lambda rng: rng.lognormal(5, 0.9, 50_000).astype(int).clip(1, 510) + 2, 512, 0.97),
        (lambda rng: rng.integers(60, 61, 50_000), 128, 0.93),
    ],
    ids=["sentences", "uniform", "documents", "alike"],
)
def test_little_is_left_empty(draw, row_length: int, share: float) -> None:
    lengths = draw(np.random.default_rng(0))
    rows = fill_rows(lengths, row_length)
    assert lengths.sum() / row_length / (rows.max() + 1) > share


def test_rows_are_alike() -> None:
    """Long and short examples share rows, which so have about as many as others."""
    lengths = np.random.default_rng(0).lognormal(2.35, 0.65, 50_000).astype(int).clip(1, 64) + 2
    counts = np.bincount(fill_rows(lengths, 128))
    assert counts.std() < 0.2 * counts.mean()


def test_few_examples() -> None:
    assert fill_rows(np.zeros(0, int), 8).tolist() == []
    assert fill_rows(np.array([8]), 8).tolist() == [0]
    assert sorted(fill_rows(np.array([5, 3, 4, 4]), 8).tolist()) == [0, 0, 1, 1]
    assert fill_rows(np.array([1, 1, 1]), 8, 1).tolist() == [0, 1, 2]
    rows = fill_rows(np.array([70_000, 5, 65_531]), 2**17)  # more than sixteen bits
    assert np.bincount(rows).tolist() in ([1, 2], [2, 1])


def test_what_cannot_be() -> None:
    with pytest.raises(ValueError, match=r"1 to 8 tokens.* Received: one of 9"):
        fill_rows(np.array([3, 9]), 8)
    with pytest.raises(ValueError, match="Received: one of 0"):
        fill_rows(np.array([3, 0]), 8)
    with pytest.raises(ValueError, match=r"most_examples must be at least 1\. Received: 0"):
        fill_rows(np.array([3]), 8, 0)
