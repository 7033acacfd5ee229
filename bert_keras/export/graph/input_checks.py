"""Checks of the inputs of a SavedModel, in its graph: shapes, ids and lengths.

TensorFlow compares the inputs of a signature neither with its ranks nor with the tables of the
model. A scalar or a table of texts would be answered with other rows, and an id outside the
vocabulary with a message about a node. These checks name the input instead, in every program that
runs the SavedModel.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from bert_keras.models.value_checks import ValueChecks

Axes = Mapping[str, Sequence[str | int]]  # input name -> names or sizes of its axes


def with_shapes(inputs: Mapping[str, tf.Tensor], axes: Axes) -> dict[str, tf.Tensor]:
    """Return inputs that the graph refuses if they have other shapes than those of the signature.

    Inputs with the same names of axes must have the same shape, and all inputs the same number of
    rows.

    Args:
        inputs: input name -> tensor.
        axes: input name -> names or sizes of its axes, such as ("batch", "length").
    """
    inputs = {name: inputs[name] for name in axes if name in inputs}
    checks = []
    for name, tensor in inputs.items():
        named = ", ".join(map(str, axes[name]))
        message = f"`{name}` must have the shape [{named}]. Received the shape:"
        shape = _actual_shape(tensor)
        has_rank = tf.debugging.Assert(tf.equal(tf.size(shape), len(axes[name])), [message, shape])
        checks.append(has_rank)
        with tf.control_dependencies([has_rank]):
            for place, size in enumerate(axes[name]):
                if isinstance(size, int):
                    is_fixed = tf.equal(shape[place], size)
                    checks.append(tf.debugging.Assert(is_fixed, [message, shape]))
    references: dict[tuple[str | int, ...], str] = {}
    with tf.control_dependencies(checks):
        shapes = {name: _actual_shape(tensor) for name, tensor in inputs.items()}
        first = next(iter(inputs))
        for name in inputs:
            other, text, part = first, "as many rows as", slice(1)
            same = references.setdefault(tuple(axes[name]), name)
            if same != name:
                other, text, part = same, "the shape of", slice(None)
            if other != name:
                mine, theirs = shapes[name][part], shapes[other][part]
                message = f"`{name}` must have {text} `{other}`. Received the sizes:"
                is_equal = tf.reduce_all(tf.equal(mine, theirs))
                checks.append(tf.debugging.Assert(is_equal, [message, mine, theirs]))
    return _after(checks, inputs)


def _actual_shape(tensor: tf.Tensor) -> tf.Tensor:
    """Return the shape of a tensor when the graph runs, int32 [rank].

    TensorFlow would replace the rank by the static one, so an operation hides the static shape.
    """
    hidden = tf.compat.v1.placeholder_with_default(tensor, shape=None)
    return tf.shape(hidden)


def with_valid_ids(
    model: Any, inputs: Mapping[str, tf.Tensor], names: Mapping[str, str] | None = None
) -> dict[str, tf.Tensor]:
    """Return inputs that the graph refuses if an id, a position or a length is out of its range.

    Args:
        model: functional model that takes the inputs.
        inputs: name of the model -> int32 tensor.
        names: name of the model -> name of the signature, for messages; None for the same names.
    """
    checks = []
    for name, values, upper in _limits(model, inputs):
        shown = f"`{(names or {}).get(name, name)}`"
        if values.shape.rank == 0:
            message = f"The rows of {shown} must have at most {upper - 1} tokens. Received:"
            checks.append(tf.debugging.Assert(values < upper, [message, values]))
            continue
        lowest, highest = tf.reduce_min(values), tf.reduce_max(values)
        wrong = tf.where(lowest < 0, lowest, highest)
        is_valid = tf.logical_and(lowest >= 0, highest < upper)
        if isinstance(upper, tf.Tensor):
            message = (
                f"{shown} must be positions in the row. Received position and tokens in a row:"
            )
            checks.append(tf.debugging.Assert(is_valid, [message, wrong, upper]))
        else:
            message = f"{shown} must be numbers from 0 to {upper - 1}. Received:"
            checks.append(tf.debugging.Assert(is_valid, [message, wrong]))
    return _after(checks, inputs)


def _limits(model: Any, inputs: Mapping[str, tf.Tensor]) -> Iterator[tuple[str, Any, Any]]:
    """Yield input name, values and the smallest number that is too large."""
    limits = ValueChecks(model).limits(inputs, None, lambda tensor, axis: tf.shape(tensor)[axis])
    for limit in limits:
        yield limit.name, limit.values, limit.upper


def _after(checks: Sequence[Any], inputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Return inputs that are read only when the checks have passed."""
    with tf.control_dependencies(checks):
        return {name: tf.identity(tensor) for name, tensor in inputs.items()}
