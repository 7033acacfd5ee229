"""Value and gradient of a function on the active backend."""

from __future__ import annotations

import keras
import numpy as np
import pytest
from keras import ops

from bert_keras.visualize.gradients import value_and_gradient


def test_a_function_of_an_array() -> None:
    x = np.array([[0.5, -1.0], [2.0, 0.0]], np.float32)
    value, gradient = value_and_gradient(lambda t: ops.sum(t**3), x)
    assert float(value) == pytest.approx(float((x**3).sum()))
    assert (gradient.dtype, gradient.shape) == (np.float32, x.shape)
    np.testing.assert_allclose(gradient, 3 * x**2, rtol=1e-6)


def test_the_value_is_float32_and_the_sum_is_differentiated() -> None:
    value, gradient = value_and_gradient(lambda t: ops.cast(t * 2, "bfloat16"), np.ones(3))
    assert (value.dtype, value.tolist()) == (np.float32, [2.0] * 3)
    assert gradient.tolist() == [2.0] * 3


def test_no_variable_gets_a_gradient() -> None:
    dense = keras.layers.Dense(1)
    dense.build((None, 2))
    _, gradient = value_and_gradient(dense, np.ones((1, 2), np.float32))
    np.testing.assert_allclose(gradient[0], ops.convert_to_numpy(dense.kernel)[:, 0])
    assert all(getattr(v.value, "grad", None) is None for v in dense.trainable_variables)


def test_another_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keras.backend, "backend", lambda: "numpy")
    with pytest.raises(NotImplementedError, match="no gradients on the backend numpy"):
        value_and_gradient(lambda t: t, np.ones(1))
