"""Gradients on every backend, as NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from tests.contracts import numpy


def gradients(
    function: Callable[..., Any], x: Sequence[np.ndarray], weights: np.ndarray
) -> list[np.ndarray]:
    """The gradients of the weighted sum of a function's outputs by each of its arguments."""

    def total(*x: Any) -> Any:
        return ops.sum(ops.cast(function(*x), "float32") * ops.convert_to_tensor(weights))

    backend = keras.backend.backend()
    if backend == "jax":
        import jax

        found = jax.grad(total, argnums=tuple(range(len(x))))(*map(ops.convert_to_tensor, x))
    elif backend == "torch":
        import torch

        leaves = [ops.convert_to_tensor(each).clone().requires_grad_() for each in x]
        found = torch.autograd.grad(total(*leaves), leaves)
    else:
        import tensorflow as tf

        tensors = [tf.convert_to_tensor(each) for each in x]
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            value = total(*tensors)
        found = tape.gradient(value, tensors)
    return [numpy(each) for each in found]
