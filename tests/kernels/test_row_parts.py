"""Functions of a batch in parts: outputs and gradients of all rows at once."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from bert_keras.kernels import recomputed, row_parts
from tests import contracts
from tests.contracts import numpy

ROWS = np.arange(22, dtype="int32").reshape(11, 2) % 5
Y = np.random.default_rng(0).normal(size=(11, 6)).astype("float32")


class _InParts(keras.layers.Layer):
    """Two outputs of each row of ids, by a table and a kernel, for `size` rows at a time."""

    def __init__(self, size: int):
        super().__init__(name="in_parts")
        self.size, self.calls = size, 0

    def build(self, _shape: Any) -> None:
        draw = keras.initializers.RandomNormal(seed=1)
        self.table = self.add_weight((5, 3), initializer=draw, name="table")
        self.kernel = self.add_weight((3, 3), initializer=draw, name="kernel")
        self.frozen = self.add_weight((3,), initializer=draw, name="frozen", trainable=False)

    def call(self, rows: Any) -> Any:
        def function(number: Any, rows: Any) -> list[Any]:
            self.calls += 1
            vectors = ops.take(self.table, rows, axis=0)
            # What is computed again anyway is computed once more, and not twice.
            products = recomputed(lambda x: ops.tanh(x @ self.kernel) * self.frozen)(vectors)
            return [products[:, 0], ops.square(products[:, 1])]

        return ops.concatenate(row_parts.computed_in_parts(function, [rows], self.size), axis=-1)


def _trained(size: int) -> tuple[np.ndarray, dict[str, np.ndarray], tuple[int, int]]:
    """Return outputs, gradients, and how often the first and the second step call the function."""
    inputs = keras.Input((2,), dtype="int32")
    layer = _InParts(size)
    model = keras.Model(inputs, layer(inputs))
    model.compile(keras.optimizers.SGD(1.0), keras.losses.MeanSquaredError())
    outputs, before = numpy(model(ROWS)), contracts.weights(model)
    layer.calls = 0
    model.train_on_batch(ROWS, Y)
    after, first = contracts.weights(model), layer.calls
    model.train_on_batch(ROWS, Y)
    gradients = {path: before[path] - after[path] for path in before}
    return outputs, gradients, (first, layer.calls - first)


@pytest.mark.parametrize("size", [1, 3, 4, 11])
def test_parts_compute_what_all_rows_compute(size: int) -> None:
    expected_outputs, expected, _ = _trained(20)
    outputs, found, _ = _trained(size)
    np.testing.assert_allclose(outputs, expected_outputs, atol=1e-6)
    for path, gradient in expected.items():
        assert np.any(gradient) != path.endswith("frozen")
        np.testing.assert_allclose(found[path], gradient, rtol=1e-5, atol=1e-7)


@pytest.mark.skipif(keras.backend.backend() == "torch", reason="the backend torch compiles nothing")
def test_a_program_has_one_part_whatever_their_number() -> None:
    assert _trained(1)[2] == _trained(4)[2]
    assert _trained(1)[2][1] == 0


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="compiled backends call it once")
def test_each_part_is_computed_once_more_for_the_gradient() -> None:
    assert _trained(4)[2][1] == 2 * 3


def test_marks_what_is_computed_again() -> None:
    assert not row_parts.is_recomputed.get()
    assert row_parts.marked(row_parts.is_recomputed.get)() is True
    assert not row_parts.is_recomputed.get()
