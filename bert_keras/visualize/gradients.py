"""Gradients of a function of an array, by the automatic differentiation of the backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops


def value_and_gradient(
    function: Callable[[Any], Any], x: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the value of a function of an array, and the gradient of the sum of the value.

    Args:
        function: a function from a tensor to a tensor of floats. It is called once, eagerly.
        x: floats of any shape.

    Returns:
        The value, float32; and the gradient, float32 of the shape of `x`.

    Raises:
        NotImplementedError: the Keras backend is not TensorFlow, JAX or PyTorch.
    """
    backend = keras.backend.backend()
    if backend == "tensorflow":
        value, gradient = _by_tensorflow(function, x)
    elif backend == "jax":
        value, gradient = _by_jax(function, x)
    elif backend == "torch":
        value, gradient = _by_torch(function, x)
    else:
        raise NotImplementedError(
            f"There are no gradients on the backend {backend}. Set KERAS_BACKEND to tensorflow, "
            "jax or torch."
        )
    return _array(value), _array(gradient)


def _by_tensorflow(function: Callable[[Any], Any], x: np.ndarray) -> tuple[Any, Any]:
    """Return value and gradient by a tape that watches only `x`."""
    import tensorflow as tf

    tensor = tf.constant(x, tf.float32)
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(tensor)
        value = function(tensor)
    return value, tape.gradient(value, tensor)


def _by_jax(function: Callable[[Any], Any], x: np.ndarray) -> tuple[Any, Any]:
    """Return value and gradient by `jax.vjp`, which runs the function without compiling it."""
    import jax

    value, backward = jax.vjp(function, jax.numpy.asarray(x, "float32"))
    return value, backward(jax.numpy.ones_like(value))[0]


def _by_torch(function: Callable[[Any], Any], x: np.ndarray) -> tuple[Any, Any]:
    """Return value and gradient by autograd. No weight gets a gradient."""
    import torch

    with torch.enable_grad():
        leaf = ops.convert_to_tensor(x, "float32").detach().clone().requires_grad_()
        value = function(leaf)
        (gradient,) = torch.autograd.grad(value.sum(), leaf)
    return value.detach(), gradient


def _array(tensor: Any) -> np.ndarray:
    """Return a tensor as a NumPy array of float32."""
    return np.asarray(ops.convert_to_numpy(ops.cast(tensor, "float32")))
