"""Random numbers are pure functions of (seed, epoch, stream, row)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bert_keras.data.counter_rng import Draws, Stream, below, chance

SIZES = st.integers(1, 9)


def test_the_generator_is_the_published_philox() -> None:
    """The generator is Philox: it gives Random123's known answer for a zero counter and key.

    NumPy adds one to the counter before the first draw, so that the counter here is -1.
    """
    ones = np.full(4, 2**64 - 1, np.uint64)
    integers = np.random.Philox(key=np.zeros(2, np.uint64), counter=ones).random_raw(4)
    known = "16554d9eca36314c db20fe9d672d0fdc d7e772cee186176b 7e68b68aec7ba23b"
    assert " ".join(f"{integer:016x}" for integer in integers) == known


def test_integers_stay_the_same_for_ever() -> None:
    """Random integers never change, so that old runs can be repeated."""
    integers = Draws(seed=1, epoch=2).rows(Stream.MASK, first=3, count=1, width=2)
    assert integers.tolist() == [[11116537331696857650, 3521497973555345652]]


@given(first=st.integers(0, 2**40), before=SIZES, count=SIZES, width=SIZES)
def test_a_row_does_not_depend_on_its_neighbours(
    first: int, before: int, count: int, width: int
) -> None:
    draws = Draws(3, 4)
    rows = draws.rows(Stream.PLAN, first, before + count, width)
    assert rows.shape == (before + count, width)
    np.testing.assert_array_equal(
        rows[before:], draws.rows(Stream.PLAN, first + before, count, width)
    )


@given(numbers=st.lists(st.integers(0, 20), max_size=12), width=SIZES)
def test_rows_of_any_numbers(numbers: list[int], width: int) -> None:
    draws = Draws(3, 4)
    found = draws.rows_at(Stream.MASK, np.array(numbers, np.int64), width)
    every = draws.rows(Stream.MASK, 0, 21, width)
    np.testing.assert_array_equal(found, every[numbers], strict=True)


def test_seed_epoch_stream_and_row_all_matter() -> None:
    rows = [
        Draws(seed, epoch).rows(stream, row, 1, 4).tolist()[0]
        for seed in (0, 1)
        for epoch in (0, 1)
        for stream in Stream
        for row in (0, 1)
    ]
    integers = [integer for row in rows for integer in row]
    assert len(set(integers)) == len(integers)


def test_keys_are_distinct_and_start_the_same() -> None:
    """Sort keys are distinct, and a longer list begins with the shorter one."""
    keys = Draws(0, 0).keys(Stream.ORDER, 1001)
    assert len(np.unique(keys)) == 1001
    np.testing.assert_array_equal(Draws(0, 0).keys(Stream.ORDER, 10), keys[:10])


@pytest.mark.parametrize(("seed", "epoch"), [(-1, 0), (2**64, 0), (0, -1)])
def test_seed_and_epoch_must_fit_a_word(seed: int, epoch: int) -> None:
    with pytest.raises(ValueError, match=r"must be in \[0, 2\*\*64\)\. Received: "):
        Draws(seed, epoch)
    Draws(2**64 - 1, 2**64 - 1).rows(Stream.PLAN, 0, 1, 1)


def test_below_is_uniform_and_stays_below() -> None:
    raw = Draws(5, 0).keys(Stream.PLAN, 70_000)
    values = below(raw, 7)
    assert values.dtype == np.int64
    counts = np.bincount(values, minlength=7)
    assert len(counts) == 7
    # Each value is expected 10,000 times. The bound is five standard deviations of a binomial.
    assert np.abs(counts - 10_000).max() < 5 * np.sqrt(10_000 * 6 / 7)
    np.testing.assert_array_equal(below(raw[:3], np.array([1, 1, 1])), 0)
    assert below(np.array([2**64 - 1], np.uint64), 2**31 - 1).tolist() == [2**31 - 2]


def test_chance_has_its_probability() -> None:
    raw = Draws(6, 0).keys(Stream.PLAN, 100_000)
    assert not chance(raw, 0).any()
    assert chance(raw, 1).all()
    assert abs(chance(raw, 0.1).mean() - 0.1) < 5 * np.sqrt(0.09 / 100_000)
