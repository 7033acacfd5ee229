"""Gradients on every backend, as NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from tests import contracts
from tests.contracts import numpy


def step_of(model: Any, batch: Any) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """Return the logs of a training step, and the gradient of each weight by its path.

    The weights are restored after the step.
    """
    x, y, weights = batch
    before = contracts.weights(model)
    # With plain SGD and a learning rate of 1, the change of a weight is its negative gradient.
    model.compile(keras.optimizers.SGD(1.0), **model.loss_and_metrics())
    logs = model.train_on_batch(x, y, sample_weight=weights, return_dict=True)
    after = contracts.weights(model)
    for weight in model.weights:
        weight.assign(before[weight.path])
    return logs, {path: before[path] - after[path] for path in before}


def gradients(
    function: Callable[..., Any], x: Sequence[np.ndarray], weights: np.ndarray
) -> list[np.ndarray]:
    """Return the gradient of the weighted sum of a function's outputs for each argument."""

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
