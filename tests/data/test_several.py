"""Batches built several at a time are those built one by one, whoever asks in which order."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from bert_keras.data.feeding import Batch
from bert_keras.data.several import Several

ROWS, END = 3, 11  # the last group of four is of three batches


def built(epoch: int, first: int, last: int) -> Batch:
    numbers = np.arange(first * ROWS, last * ROWS) + 1000 * epoch
    return {"x": numbers[:, None] * [1, 2]}, {"y": -numbers}, {"y": numbers / 2}


def assert_batch(found: Batch, epoch: int, position: int) -> None:
    for part, same in zip(found, built(epoch, position, position + 1), strict=True):
        assert list(part) == list(same)
        for name in part:
            np.testing.assert_array_equal(part[name], same[name], strict=True)


class Counted:
    def __init__(self):
        self.calls: list[tuple[int, int, int]] = []
        self._lock = threading.Lock()

    def __call__(self, epoch: int, first: int, last: int) -> Batch:
        with self._lock:
            self.calls.append((epoch, first, last))
        return built(epoch, first, last)


def test_in_order_each_group_is_built_once():
    build = Counted()
    batches = Several(build, rows=ROWS, size=4)
    for epoch in (0, 1):
        for position in range(END):
            assert_batch(batches(epoch, position, END), epoch, position)
    groups = [(0, 4), (4, 8), (8, END)]
    assert build.calls == [(epoch, *group) for epoch in (0, 1) for group in groups]


def test_any_order():
    batches = Several(built, rows=ROWS, size=4)
    draws = np.random.default_rng(0)
    for epoch, position in zip(draws.integers(0, 3, 200), draws.integers(0, END, 200), strict=True):
        assert_batch(batches(int(epoch), int(position), END), epoch, position)


def test_a_batch_is_its_callers_own():
    batches = Several(built, rows=ROWS, size=4)
    batches(0, 1, END)[0]["x"][:] = -1
    assert_batch(batches(0, 1, END), 0, 1)


def test_one_at_a_time_is_built_without_its_neighbours():
    build = Counted()
    batches = Several(build, rows=ROWS, size=1)
    assert_batch(batches(2, 5, END), 2, 5)
    assert build.calls == [(2, 5, 6)]


def test_threads_share_groups():
    build = Counted()
    batches = Several(build, rows=ROWS, size=4)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda position: batches(0, position, END), range(END)))
    for position, batch in enumerate(found):
        assert_batch(batch, 0, position)
    assert sorted(build.calls) == [(0, 0, 4), (0, 4, 8), (0, 8, END)]


def failing_once() -> Callable[[int, int, int], Batch]:
    left = [OSError("disk")]

    def build(*call: int) -> Batch:
        if left:
            raise left.pop()
        return built(*call)

    return build


def test_what_failed_is_built_again():
    batches = Several(failing_once(), rows=ROWS, size=4)
    with pytest.raises(OSError, match="disk"):
        batches(0, 0, END)
    assert_batch(batches(0, 0, END), 0, 0)
