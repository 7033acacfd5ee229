"""Waiting for batches: its time, and the line about a batch that does not come."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from bert_keras.data import Batch, SupervisedExamples, dataset
from bert_keras.training.data_wait import DataWaitTimer, told_when_late


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Replace the clock by a list whose only item is the time."""
    time = [0.0]
    monkeypatch.setattr("bert_keras.training.data_wait.perf_counter", lambda: time[0])
    return time


@pytest.fixture
def slow(
    examples: SupervisedExamples, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> SupervisedExamples:
    """Return examples whose batches take two seconds each."""
    build = examples.batch

    def batch(epoch: int, position: int) -> Batch:
        clock[0] += 2.0
        return build(epoch, position)

    monkeypatch.setattr(examples, "batch", batch)
    return examples


def test_from_its_begin_until_the_batch_is_ready(
    slow: SupervisedExamples, clock: list[float]
) -> None:
    watched = DataWaitTimer(slow, 0, 4)
    # workers may finish in another order
    for clock[0], place in ((1.0, (0, 4)), (4.0, (1, 1)), (5.0, (1, 0))):
        watched.batch(*place)
    assert [watched.waited(begun) for begun in (2.0, 6.0, 6.0)] == [1.0, 1.0, 0.0]


def test_not_before_it_was_asked_for(slow: SupervisedExamples, clock: list[float]) -> None:
    watched = DataWaitTimer(slow, 0, 0)
    clock[0] = 7.0  # tracing the first step took so long
    watched.batch(0, 0)
    assert watched.waited(0.0) == 2.0


def test_a_batch_that_was_built_for_its_shapes_is_built_again(
    slow: SupervisedExamples, clock: list[float]
) -> None:
    watched = DataWaitTimer(slow, 0, 0)
    watched.batch(0, 0)
    clock[0] = 4.0
    watched.batch(0, 0)
    assert watched.waited(5.0) == 1.0


def test_the_batches_are_those_of_the_examples(examples: SupervisedExamples) -> None:
    batches = dataset(DataWaitTimer(examples, 0, 1), position=1, steps=7)
    read = iter(batches) if hasattr(batches, "map") else (batches[i] for i in range(7))
    for index, (_, y, _) in enumerate(read):
        same = examples.batch(*examples.locate(0, 1, index))[1]
        np.testing.assert_array_equal(y["label"], same["label"])
    assert index == 6


def test_a_batch_that_does_not_come_is_told_until_it_is_there(
    examples: SupervisedExamples, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    is_told, build = threading.Event(), examples.batch

    def tell(line: str) -> None:
        lines.append(line)
        is_told.set()

    def batch(epoch: int, position: int) -> Batch:
        assert is_told.wait(30)
        return build(epoch, position)

    monkeypatch.setattr(examples, "batch", batch)
    watched = DataWaitTimer(examples, 0, 3)
    reader = threading.Thread(target=watched.batch, args=(0, 3), name="batches_1")
    with told_when_late(watched, tell, seconds=0.01):
        reader.start()
        reader.join()
    assert lines[0].startswith(
        "batches_1 has given nothing for 0 s: it works on batch 3 of epoch 0"
    )
    assert watched.late(0.0) == []


def test_a_batch_that_fails_is_not_awaited(
    examples: SupervisedExamples, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise OSError("gone")

    monkeypatch.setattr(examples, "batch", fail)
    watched = DataWaitTimer(examples, 0, 0)
    with pytest.raises(OSError, match="gone"):
        watched.batch(0, 0)
    assert watched.late(0.0) == []
