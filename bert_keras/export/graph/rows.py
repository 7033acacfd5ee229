"""A model within a TensorFlow graph: called by what it takes, on some rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

_TOGETHER = 64  # rows: what a long text costs in memory does not grow with its length


def call(model: keras.Model, inputs: Mapping[str, tf.Tensor]) -> dict[str, Any]:
    """The outputs of a model, of the inputs that it has."""
    return model({tensor.name: inputs[tensor.name] for tensor in model.inputs}, training=False)


def in_parts(
    function: Callable[[dict[str, tf.Tensor]], Sequence[tf.Tensor]],
    inputs: Mapping[str, tf.Tensor],
    specs: Sequence[tf.TensorSpec],
) -> list[tf.Tensor]:
    """What a function gives for any number of rows, so that few are in memory at once.

    Args:
        function: of some of the rows.
        inputs: what it takes, tensors [rows, ...].
        specs: of what it gives, [rows, ...].
    """
    rows = tf.shape(next(iter(inputs.values())))[0]
    count = tf.maximum(1, -(-rows // _TOGETHER))  # once without rows, for the shapes

    def step(number: tf.Tensor, *found: tf.TensorArray) -> tuple[Any, ...]:
        begin = number * _TOGETHER
        part = {name: value[begin : begin + _TOGETHER] for name, value in inputs.items()}
        given = function(part)
        return number + 1, *(a.write(number, v) for a, v in zip(found, given, strict=True))

    arrays = [
        tf.TensorArray(spec.dtype, count, infer_shape=False, element_shape=spec.shape)
        for spec in specs
    ]
    found = tf.while_loop(
        lambda number, *_: number < count, step, [tf.constant(0), *arrays], parallel_iterations=1
    )
    return [array.concat() for array in found[1:]]
