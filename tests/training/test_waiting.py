"""A step's wait ends when its batch is ready."""

from __future__ import annotations

import numpy as np
import pytest

from bert_keras.data import Rows, SupervisedExamples, dataset
from training.waiting import Watched


@pytest.fixture
def examples() -> SupervisedExamples:
    """Five batches in each epoch."""
    rows = Rows.of([np.arange(5, 9)] * 10, [np.zeros(4)] * 10, pad_id=0)
    return SupervisedExamples(rows, {"label": np.arange(10)}, batch_size=2, seed=0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which tests set."""
    time = [0.0]
    monkeypatch.setattr("training.waiting.perf_counter", lambda: time[0])
    return time


def test_from_its_begin_until_the_batch_is_ready(
    examples: SupervisedExamples, clock: list[float]
) -> None:
    watched = Watched(examples, 0, 4)
    for clock[0], place in ((3.0, (0, 4)), (5.0, (1, 1)), (7.0, (1, 0))):  # workers overtake
        watched.batch(*place)
    assert [watched.waited(begun) for begun in (1.0, 6.0, 6.0)] == [2.0, 1.0, 0.0]


def test_a_batch_that_was_built_for_its_shapes_is_built_again(
    examples: SupervisedExamples, clock: list[float]
) -> None:
    watched = Watched(examples, 0, 0)
    watched.batch(0, 0)
    clock[0] = 4.0
    watched.batch(0, 0)
    assert watched.waited(1.0) == 3.0


def test_the_batches_are_those_of_the_examples(examples: SupervisedExamples) -> None:
    batches = dataset(Watched(examples, 0, 1), position=1, steps=7)
    read = iter(batches) if hasattr(batches, "map") else (batches[i] for i in range(7))
    for index, (_, y, _) in enumerate(read):
        same = examples.batch(*examples.locate(0, 1, index))[1]
        np.testing.assert_array_equal(y["label"], same["label"])
    assert index == 6
