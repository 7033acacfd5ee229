"""The first `fit` compiles a task, and a learning rate schedule that has ended causes a warning."""

from __future__ import annotations

import gc
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from bert_keras import optimizer
from bert_keras.data import dataset
from bert_keras.models.compiling import steps_of
from tests.models.test_text_fit import LABELS, QUIET, TEXTS, classifier, examples


def warned(call: Callable[[], Any]) -> str:
    """Return the text of all warnings of a call. On PyTorch, some come from Keras."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return "\n".join(str(each.message) for each in caught)


def test_a_fit_after_the_end_of_its_schedule_warns() -> None:
    task = classifier()
    task.compile(optimizer(1e-3, total_steps=5), **task.loss_and_metrics())
    first, second = (
        warned(lambda: task.fit(TEXTS, LABELS, batch_size=4, **QUIET)) for _ in range(2)
    )
    assert "rate is 0" not in first
    assert "rate is 0 after 5 updates" in second
    assert "Call `compile`" in second


def test_a_generator_has_no_number_of_steps(capsys: pytest.CaptureFixture[str]) -> None:
    def batches() -> Iterator[Any]:
        made = examples()
        for position in range(made.num_batches(0)):
            yield made.batch(0, position)

    task = classifier()
    # Keras warns when a generator ends
    warned(lambda: task.fit(batches(), verbose=2, shuffle=False))
    assert "constant, because the number of steps is not known" in capsys.readouterr().out


def test_steps_of_arrays_and_datasets() -> None:
    x = {"token_ids": np.zeros((10, 4), np.int32)}
    assert steps_of(x, 4, 0.0) == 3
    assert steps_of(x, None, 0.5) == 1
    assert steps_of(dataset(examples()), None, 0.0) == 5
    assert steps_of(dataset(examples(), repeat=True), None, 0.0) is None
    assert steps_of(iter(()), None, 0.0) is None


def test_a_rate_is_of_a_task_that_fit_compiles() -> None:
    task = classifier()
    task.fit(TEXTS, LABELS, batch_size=4, learning_rate=1e-3, **QUIET)
    assert task.optimizer.get_config()["learning_rate"]["config"]["learning_rate"] == 1e-3
    task.compile(optimizer(1e-3), **task.loss_and_metrics())
    with pytest.raises(ValueError, match="an optimizer of your own"):
        task.fit(TEXTS, LABELS, learning_rate=1e-4, **QUIET)


def test_the_optimizer_of_an_earlier_fit_is_freed() -> None:
    """Cross-validation in a loop keeps one optimizer.

    Its moments are twice as large as the model.
    """
    task = classifier()
    task.fit(TEXTS, LABELS, batch_size=6, **QUIET)
    earlier = [weakref.ref(task.optimizer)]
    for _ in range(2):
        task.fit(TEXTS, LABELS, batch_size=6, **QUIET)
        earlier.append(weakref.ref(task.optimizer))
    gc.collect()
    assert [ref() is None for ref in earlier] == [True, True, False]
