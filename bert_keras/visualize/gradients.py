"""Gradient of a number with respect to an array, by the differentiation of the active backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops


def value_and_gradient(
    function: Callable[[Any], Any], x: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return what a function gives for an array, and the gradient of the sum of that.

    Args:
        function: from a tensor to a tensor of floats. It is called eagerly, and once.
        x: floats of any shape.

    Returns:
        The function's value, and the gradient: float32 of the shape of `x`.

    Raises:
        NotImplementedError: the backend of Keras is another than TensorFlow, JAX and PyTorch.
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
    """Return value and gradient by a tape that watches `x` alone."""
    import tensorflow as tf

    tensor = tf.constant(x, tf.float32)
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(tensor)
        value = function(tensor)
    return value, tape.gradient(value, tensor)


def _by_jax(function: Callable[[Any], Any], x: np.ndarray) -> tuple[Any, Any]:
    """Return value and gradient by `jax.vjp`, which does not trace for compilation."""
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
    """Return a tensor as float32 of NumPy."""
    return np.asarray(ops.convert_to_numpy(ops.cast(tensor, "float32")))
