"""The base class of examples, the cache of batches, and readers of batches."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from bert_keras.data.batches import (
    BaseExamples,
    Batch,
    BatchCache,
    BatchSequence,
    Examples,
    ReadAhead,
    advance,
)


class Numbers(BaseExamples[list[int]]):
    """Examples with 3, 5 and 2 batches in turn. A batch holds its epoch and position."""

    fixed_shapes = True

    def __init__(self, **options: Any):
        super().__init__(**{"batch_size": 2, "seed": 0, **options})
        self.planned: list[int] = []

    def _plan(self, epoch: int) -> list[int]:
        self.planned.append(epoch)
        return [100 * epoch + position for position in range((3, 5, 2)[epoch % 3])]

    def num_batches(self, epoch: int = 0) -> int:
        return len(self.plan(epoch))

    def _batch(self, epoch: int, position: int) -> Batch:
        return self.batch_of(epoch, np.array([self.plan(epoch)[position]]))

    def _tokens_and_places(self, epoch: int, batches: int) -> tuple[int, int]:
        del epoch
        return batches, 4 * batches

    @property
    def pad_id(self) -> int:
        return 0

    def epoch_order(self, epoch: int) -> np.ndarray:
        return np.arange(2 * self.num_batches(epoch))

    def lengths_of(self, epoch: int) -> np.ndarray:
        return np.ones(2 * self.num_batches(epoch), np.int64)

    def batch_of(self, epoch: int, examples: np.ndarray) -> Batch:
        del epoch
        return {"token_ids": examples}, {}, {}


def number(batch: Batch) -> int:
    return int(batch[0]["token_ids"][0])


# === The base class ===


def test_the_base_class_is_a_source_of_batches() -> None:
    source: Examples = Numbers()
    assert [number(source.batch(1, position)) for position in range(5)] == [100, 101, 102, 103, 104]
    assert source.locate(0, 2, 7) == (2, 1)
    assert source.fixed_shapes


def test_the_plans_of_two_epochs_are_kept() -> None:
    source = Numbers()
    for epoch in (0, 1, 0, 1, 0):
        source.plan(epoch)
    assert source.planned == [0, 1]
    source.plan(2)  # The cache holds two plans. Epoch 1 was read before epoch 0, and is dropped.
    source.plan(0)
    assert source.planned == [0, 1, 2]
    source.plan(1)
    assert source.planned == [0, 1, 2, 1]


def test_threads_share_plans() -> None:
    source = Numbers()
    with ThreadPoolExecutor(8) as pool:
        numbers = [
            number(batch) for batch in pool.map(lambda n: source.batch(n % 2, 2), range(200))
        ]
    assert numbers == [2, 102] * 100
    assert sorted(source.planned) == [0, 1]


@pytest.mark.parametrize("position", [-1, 3, 100])
def test_positions_outside_an_epoch_are_errors(position: int) -> None:
    with pytest.raises(IndexError, match=rf"Epoch 3 has 3 batches.*Received: position={position}$"):
        Numbers().batch(3, position)


def test_a_batch_has_at_least_one_row() -> None:
    with pytest.raises(ValueError, match=r"batch_size must be at least 1\. Received: batch_size=0"):
        Numbers(batch_size=0)


def test_statistics_of_the_first_batches() -> None:
    source = Numbers()
    assert source.statistics(1) == {"batches": 5, "tokens": 5, "padding_share": 0.75}
    assert source.statistics(1, batches=2)["tokens"] == 2
    assert source.statistics(1, batches=50)["batches"] == 5


def test_examples_without_masks_and_labels_of_tokens() -> None:
    assert Numbers().per_token_labels == ()
    assert Numbers().most_predictions(100, 10) == 0


# === Positions over epochs of different lengths ===


def test_advance_walks_as_single_steps_do() -> None:
    count = Numbers().num_batches
    place = (0, 0)
    for steps in range(30):
        assert advance(count, 0, 0, steps) == place
        place = advance(count, *place, 1)


@pytest.mark.parametrize("place", [(-1, 0, 0), (0, -1, 0), (0, 0, -1)])
def test_negative_places_are_errors(place: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="must not be negative"):
        advance(Numbers().num_batches, *place)


# === Readers ===


def test_a_sequence_is_numbered_from_its_first_batch() -> None:
    batches = BatchSequence(Numbers(), 1, 3)
    expected = [103, 104, 200, 201, 300, 301, 302, 400]
    assert [number(batches(index)) for index in range(8)] == expected
    assert [number(batches(index)) for index in (7, 0, 4, 2)] == [400, 103, 300, 200]


def test_a_sequence_does_not_plan_earlier_epochs_again() -> None:
    source = Numbers()
    batches = BatchSequence(source, 0, 0)
    for index in range(100):
        batches(index)
    assert source.planned == sorted(set(source.planned))


@pytest.mark.parametrize(("length", "expected"), [(None, [3, 4, 5, 6]), (5, [3, 4])])
def test_reading_ahead_stays_within_a_pass(length: int | None, expected: list[int]) -> None:
    built_numbers: list[int] = []

    def build(index: int) -> Batch:
        built_numbers.append(index)
        return {"token_ids": np.array([index])}, {}, {}

    read = ReadAhead(build, workers=2, length=length)
    assert number(read(3)) == 3
    read._pool.shutdown()
    assert sorted(built_numbers) == expected


# === Batches built in groups equal those built one by one, in any order of reading ===


ROWS, END = 3, 11  # The last group of four has only three batches.


def built(epoch: int, first: int, last: int) -> Batch:
    numbers = np.arange(first * ROWS, last * ROWS) + 1000 * epoch
    return {"x": numbers[:, None] * [1, 2]}, {"y": -numbers}, {"y": numbers / 2}


def assert_batch(found: Batch, epoch: int, position: int) -> None:
    """Check that a batch is the one that `built` gives for its place."""
    for part, same in zip(found, built(epoch, position, position + 1), strict=True):
        assert list(part) == list(same)
        for name in part:
            np.testing.assert_array_equal(part[name], same[name], strict=True)


class Counted:
    """Function `built` that records its calls."""

    def __init__(self):
        self.calls: list[tuple[int, int, int]] = []
        self._lock = threading.Lock()

    def __call__(self, epoch: int, first: int, last: int) -> Batch:
        with self._lock:
            self.calls.append((epoch, first, last))
        return built(epoch, first, last)


def test_in_order_each_group_is_built_once():
    build = Counted()
    batches = BatchCache(build, rows=ROWS, size=4)
    for epoch in (0, 1):
        for position in range(END):
            assert_batch(batches(epoch, position, END), epoch, position)
    groups = [(0, 4), (4, 8), (8, END)]
    assert build.calls == [(epoch, *group) for epoch in (0, 1) for group in groups]


def test_any_order():
    """Batches are right in any order of reading."""
    batches = BatchCache(built, rows=ROWS, size=4)
    draws = np.random.default_rng(0)
    for epoch, position in zip(draws.integers(0, 3, 200), draws.integers(0, END, 200), strict=True):
        assert_batch(batches(int(epoch), int(position), END), epoch, position)


def test_a_batch_is_its_callers_own():
    """A caller may change its batch without changing the cache."""
    batches = BatchCache(built, rows=ROWS, size=4)
    batches(0, 1, END)[0]["x"][:] = -1
    assert_batch(batches(0, 1, END), 0, 1)


def test_one_at_a_time_is_built_without_its_neighbours():
    """With groups of one, a batch is built alone."""
    build = Counted()
    batches = BatchCache(build, rows=ROWS, size=1)
    assert_batch(batches(2, 5, END), 2, 5)
    assert build.calls == [(2, 5, 6)]


def test_threads_share_groups():
    build = Counted()
    batches = BatchCache(build, rows=ROWS, size=4)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda position: batches(0, position, END), range(END)))
    for position, batch in enumerate(found):
        assert_batch(batch, 0, position)
    assert sorted(build.calls) == [(0, 0, 4), (0, 4, 8), (0, 8, END)]


def failing_once() -> Callable[[int, int, int], Batch]:
    """Return a function that raises on its first call and then builds batches."""
    left = [OSError("disk")]

    def build(*call: int) -> Batch:
        if left:
            raise left.pop()
        return built(*call)

    return build


def test_what_failed_is_built_again():
    batches = BatchCache(failing_once(), rows=ROWS, size=4)
    with pytest.raises(OSError, match="disk"):
        batches(0, 0, END)
    assert_batch(batches(0, 0, END), 0, 0)
