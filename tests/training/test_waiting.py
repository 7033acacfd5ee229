"""A step's wait ends when its batch is ready."""

from __future__ import annotations

import numpy as np
import pytest

from bert_keras.data import Batch, EncodedTexts, SupervisedExamples, dataset
from bert_keras.training.waiting import Watched


@pytest.fixture
def examples() -> SupervisedExamples:
    """Five batches in each epoch."""
    rows = EncodedTexts.of([np.arange(5, 9)] * 10, [np.zeros(4)] * 10, pad_id=0)
    return SupervisedExamples(rows, {"label": np.arange(10)}, batch_size=2, seed=0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which tests set."""
    time = [0.0]
    monkeypatch.setattr("bert_keras.training.waiting.perf_counter", lambda: time[0])
    return time


@pytest.fixture
def slow(
    examples: SupervisedExamples, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> SupervisedExamples:
    """The same, two seconds for each."""
    build = examples.batch

    def batch(epoch: int, position: int) -> Batch:
        clock[0] += 2.0
        return build(epoch, position)

    monkeypatch.setattr(examples, "batch", batch)
    return examples


def test_from_its_begin_until_the_batch_is_ready(
    slow: SupervisedExamples, clock: list[float]
) -> None:
    watched = Watched(slow, 0, 4)
    for clock[0], place in ((1.0, (0, 4)), (4.0, (1, 1)), (5.0, (1, 0))):  # workers overtake
        watched.batch(*place)
    assert [watched.waited(begun) for begun in (2.0, 6.0, 6.0)] == [1.0, 1.0, 0.0]


def test_not_before_it_was_asked_for(slow: SupervisedExamples, clock: list[float]) -> None:
    watched = Watched(slow, 0, 0)
    clock[0] = 7.0  # the step was traced so long
    watched.batch(0, 0)
    assert watched.waited(0.0) == 2.0


def test_a_batch_that_was_built_for_its_shapes_is_built_again(
    slow: SupervisedExamples, clock: list[float]
) -> None:
    watched = Watched(slow, 0, 0)
    watched.batch(0, 0)
    clock[0] = 4.0
    watched.batch(0, 0)
    assert watched.waited(5.0) == 1.0


def test_the_batches_are_those_of_the_examples(examples: SupervisedExamples) -> None:
    batches = dataset(Watched(examples, 0, 1), position=1, steps=7)
    read = iter(batches) if hasattr(batches, "map") else (batches[i] for i in range(7))
    for index, (_, y, _) in enumerate(read):
        same = examples.batch(*examples.locate(0, 1, index))[1]
        np.testing.assert_array_equal(y["label"], same["label"])
    assert index == 6
