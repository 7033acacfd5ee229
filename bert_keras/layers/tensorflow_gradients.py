"""Gradients of our own on TensorFlow that keep no graph alive.

`tf.custom_gradient`, and `tf.recompute_grad` on top of it, register a function in a table of the
process at every trace. TensorFlow never removes it, and it holds the traced graph with all
variables: a model that was fitted stayed in memory for the life of the process.

Here a gradient is told to the tapes that record, and to nothing else. A gradient that is not taken
by a tape within the same graph is the automatic one of the forward operations: the same values, in
more passes over memory. This is so for a SavedModel, which needs no gradient functions of ours.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

try:
    # Private: TensorFlow's public way of telling a tape is `tf.custom_gradient` alone.
    from tensorflow.python.eager import record as _record
except ImportError:  # a TensorFlow that has moved it: Keras's and TensorFlow's own ways
    _record = None
    warnings.warn(
        f"TensorFlow {tf.__version__} has no `tensorflow.python.eager.record`. Training computes "
        "the same, but every model that was fitted stays in memory until the process ends.",
        stacklevel=2,
    )
record: Any = _record

_Backward = Callable[[Any], Sequence[Any]]
_AS_ZEROS = tf.UnconnectedGradients.ZERO


def with_gradient(name: str, output: Any, inputs: Sequence[Any], backward: _Backward) -> Any:
    """Return `output` as a tensor that tapes differentiate by `backward`.

    Args:
        name: of the operation, for error messages.
        output: a tensor that was computed from `inputs` by differentiable operations.
        inputs: tensors.
        backward: from the gradient of the output, those of the inputs, in their order. A second
            derivative is the derivative of its operations.
    """
    if record is None:
        return _registered(output, inputs, backward)
    output = tf.identity(output)
    record.record_operation(name, [output], list(inputs), lambda dy: list(backward(_dense(dy))))
    return output


def _registered(output: Any, inputs: Sequence[Any], backward: _Backward) -> Any:
    """The same by TensorFlow's public function, which keeps the graph alive."""
    return tf.custom_gradient(lambda *_inputs: (output, lambda dy: backward(_dense(dy))))(*inputs)


def _dense(gradient: Any) -> tf.Tensor:
    """Return a tensor, also where the gradient of a gather is a table's rows."""
    return tf.convert_to_tensor(gradient)


def recomputed(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that keeps its inputs alone, and is computed again for its gradient.

    It is `keras.remat`, which is `tf.recompute_grad` on TensorFlow, but for a tape alone.

    Args:
        function: from tensors to one tensor. It may read variables, but not write them. Other
            tensors that it uses have no gradient.
    """
    if record is None:
        return keras.remat(function)

    def call(*inputs: Any) -> Any:
        inputs = tuple(tf.convert_to_tensor(x) for x in inputs)
        with record.VariableWatcher() as watcher, record.stop_recording():
            output = function(*inputs)
        variables = watcher.watched_variables()

        def backward(gradient: Any) -> Sequence[Any]:
            with tf.GradientTape() as tape:
                again = [_after(gradient, tf.identity(x)) for x in inputs]
                tape.watch([*again, *variables])
                output_again = function(*again)
            return tape.gradient(output_again, [*again, *variables], gradient, _AS_ZEROS)

        values = [tf.convert_to_tensor(variable) for variable in variables]
        return with_gradient("recomputed", output, [*inputs, *values], backward)

    return call


def _after(gradient: Any, x: Any) -> Any:
    """Return `x` as a value that needs `gradient`.

    Otherwise a compiler sees that what is computed again was computed before, and keeps it. XLA
    does not heed control dependencies, so it is a sum with zero.
    """
    if tf.executing_eagerly():
        return x
    first = tf.reshape(tf.reshape(gradient, [-1])[:1], [-1])
    is_any = tf.cast(tf.reduce_sum(first), tf.bool)
    return x + tf.cast(tf.where(tf.equal(is_any, is_any), 0.0, float("nan")), x.dtype)
