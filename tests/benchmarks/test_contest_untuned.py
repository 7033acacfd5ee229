"""Timed datasets do not wait for tf.data's autotuning, and yield the same batches as the arrays."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from benchmarks import mean_vectors, train_steppers
from benchmarks.contest import untuned, untuned_batches
from tests.benchmarks.test_train_steppers import TINY

tf = pytest.importorskip("tensorflow")


def test_options_before_and_after_count() -> None:
    dataset = tf.data.Dataset.range(3).map(lambda x: x, num_parallel_calls=tf.data.AUTOTUNE)
    assert dataset.options().autotune.enabled is not False
    assert untuned(dataset).options().autotune.enabled is False
    assert untuned(dataset).map(lambda x: x).options().autotune.enabled is False


def test_batches_are_the_arrays_in_their_order() -> None:
    rows = np.arange(5)
    read = list(untuned_batches(({"ids": rows}, rows + 1), 2).as_numpy_iterator())
    assert [len(y) for _, y in read] == [2, 2, 1]
    np.testing.assert_array_equal(np.concatenate([x["ids"] for x, _ in read]), rows)
    np.testing.assert_array_equal(np.concatenate([y for _, y in read]), rows + 1)


@pytest.mark.parametrize(
    ("module", "called", "always"),
    [(train_steppers, "fit", True), (mean_vectors, "predict", False)],
)
@pytest.mark.parametrize("whose", ["ours", "keras_hub"])
# TINY has a pooler that this task does not use
@pytest.mark.filterwarnings("ignore:Gradients do not exist")
def test_what_keras_reads_is_not_tuned(
    module: Any,
    called: str,
    always: bool,
    whose: str,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    if whose == "keras_hub":
        request.getfixturevalue(whose)
    read = []
    of_keras = getattr(keras.Model, called)

    def watched(model: Any, x: Any, **options: Any) -> Any:
        read.append(x)
        return of_keras(model, x, **options)

    monkeypatch.setattr(keras.Model, called, watched)
    getattr(module, whose)(TINY, "float32")
    assert read
    if keras.backend.backend() == "tensorflow" or (always and whose == "keras_hub"):
        assert all(x.options().autotune.enabled is False for x in read)
    else:  # Keras reads arrays without tf.data
        assert not any(isinstance(x, tf.data.Dataset) for x in read)
