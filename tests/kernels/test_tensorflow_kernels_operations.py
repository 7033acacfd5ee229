"""TensorFlow's kernels in a traced function, with known and unknown shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.kernels import tensorflow_kernels

X = np.linspace(-2.0, 2.0, 30, dtype="float32").reshape(2, 3, 5)
LABELS = np.array([[0, 4, 2], [1, 1, 3]], "int32")
SEED = np.array([3, 4], "int64")
ONES, ZEROS = np.ones(5, "float32"), np.zeros(5, "float32")

KERNELS = {
    "dropped": lambda x: tensorflow_kernels.dropped(x, 0.5, SEED),
    "layer_norm": lambda x: tensorflow_kernels.layer_norm(x, ONES, ZEROS, 1e-6),
    "gelu": tensorflow_kernels.gelu,
    "token_losses": lambda x: tensorflow_kernels.token_losses(LABELS, x),
    "tied_logits": lambda x: tensorflow_kernels.tied_logits(x, np.eye(5, dtype="float32"), ZEROS),
    "is_highest": lambda x: tensorflow_kernels.is_highest(LABELS, x),
}


@pytest.mark.parametrize("shape", [(2, 3, 5), (None, 3, 5), (None, None, 5)])
@pytest.mark.parametrize("name", KERNELS)
def test_traced_as_not_traced(name: str, shape: tuple[Any, ...]) -> None:
    traced = tf.function(
        KERNELS[name], input_signature=[tf.TensorSpec(shape, tf.float32)], autograph=False
    )
    found, expected = traced(X), KERNELS[name](tf.constant(X))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert found.shape == expected.shape


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", ["dropped", "layer_norm", "gelu"])
def test_halves_stay_halves(name: str, dtype: str) -> None:
    """Outputs and gradients keep a 16-bit dtype."""
    x = tf.cast(X, dtype)
    with tf.GradientTape() as tape:
        tape.watch(x)
        found = KERNELS[name](x)
    assert found.dtype == x.dtype
    assert tape.gradient(found, x).dtype == x.dtype


def test_a_slope_has_a_slope() -> None:
    """The gradients of these functions have gradients themselves."""
    x = tf.constant(X)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = tensorflow_kernels.gelu(x)
        slope: Any = inner.gradient(y, x)
    second: Any = outer.gradient(slope, x)
    density = np.exp(-(X**2) / 2) / np.sqrt(2 * np.pi)
    np.testing.assert_allclose(second, density * (2 - X**2), atol=1e-5)
