"""Kernels of the TensorFlow backend, with gradients that keep no graph alive.

`tf.custom_gradient`, and `tf.recompute_grad` which uses it, register a function in a table of the
process at every trace. TensorFlow never removes the function, which holds the traced graph with all
variables. So a model stayed in memory after its training until the process ended.

Here only the gradient tapes that are recording learn of a gradient. Where no tape of the same graph
takes the gradient, it is the automatic one of the forward operations: the same values, in more
passes over memory. So a SavedModel needs no gradient functions of this package.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import keras
import tensorflow as tf

try:
    # Private, because `tf.custom_gradient` is TensorFlow's only public way to inform a tape.
    from tensorflow.python.eager import record as _record
except ImportError:  # a TensorFlow that has moved it: then the public functions are used
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
        output: a tensor that was computed from `inputs` by differentiable operations; or a list.
        inputs: tensors.
        backward: from the gradient of each output, those of the inputs, in their order. A second
            derivative is the derivative of its operations.
    """
    if record is None:
        return _registered(output, inputs, backward)
    output = tf.nest.map_structure(tf.identity, output)
    record.record_operation(
        name,
        tf.nest.flatten(output),
        list(inputs),
        lambda *gradients: list(backward(*map(_dense, gradients))),
    )
    return output


def _registered(output: Any, inputs: Sequence[Any], backward: _Backward) -> Any:
    """Do what `with_gradient` does by TensorFlow's public function, which keeps the graph alive."""
    return tf.custom_gradient(
        lambda *_inputs: (output, lambda *gradients: backward(*map(_dense, gradients)))
    )(*inputs)


def _dense(gradient: Any) -> tf.Tensor:
    """Return a gradient as a tensor; the gradient of a gather is indexed slices."""
    return tf.convert_to_tensor(gradient)


def recomputed(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that keeps only its inputs, and is computed again for its gradient.

    It does what `keras.remat` does (on TensorFlow `tf.recompute_grad`), but informs only tapes.

    Args:
        function: from tensors to one tensor, or to a list. It may read variables, but not write
            them. Other tensors that it uses have no gradient.
    """
    if record is None:
        return keras.remat(function)

    def call(*inputs: Any) -> Any:
        """Return what `function` returns, without its intermediate results."""
        inputs = tuple(tf.convert_to_tensor(x) for x in inputs)
        with record.VariableWatcher() as watcher, record.stop_recording():
            output = function(*inputs)
        variables = watcher.watched_variables()

        def backward(*gradients: Any) -> Sequence[Any]:
            """Return the gradients of inputs and variables, by computing the output again."""
            with tf.GradientTape() as tape:
                again = [_after(gradients[0], tf.identity(x)) for x in inputs]
                tape.watch([*again, *variables])
                outputs = tf.nest.flatten(function(*again))
            found = tape.gradient(outputs, [*again, *variables], list(gradients), _AS_ZEROS)
            # An optimizer may change a variable only when all of this has been computed. TensorFlow
            # loses the order of the second read and the change (decision 180).
            with tf.control_dependencies(tf.nest.flatten(found, expand_composites=True)):
                return tf.nest.map_structure(tf.identity, found, expand_composites=True)

        values = [tf.convert_to_tensor(variable) for variable in variables]
        return with_gradient("recomputed", output, [*inputs, *values], backward)

    return call


def mapped(
    function: Callable[..., Any],
    blocks: Sequence[Any],
    common: Sequence[Any],
    constants: Sequence[Any],
) -> Any:
    """Return the outputs of a function for blocks, one after the other; see `query_blocks`.

    Each block is computed again for its gradient, also one after the other.
    """
    blocks, common = (tuple(map(tf.convert_to_tensor, each)) for each in (blocks, common))
    constants, count = tuple(map(tf.convert_to_tensor, constants)), blocks[0].shape[0]

    def part(tensors: Sequence[Any], number: Any) -> list[Any]:
        """Return one block of each tensor."""
        return [tf.gather(x, number) for x in tensors]

    def loop(step: Callable[..., Any], *values: Any) -> Any:
        """Return the values after a step for each block."""
        start = (tf.constant(0), *values)
        return tf.while_loop(
            lambda number, *_: number < count,
            lambda number, *values: (number + 1, *step(number, *values)),
            start,
            parallel_iterations=1,
            maximum_iterations=count,
        )[1:]

    def forward(number: Any, outputs: Any) -> list[Any]:
        """Write the output of one block."""
        block = function(*part(blocks, number), *common, *part(constants, number))
        return [outputs.write(number, block)]

    def backward(gradient: Any) -> list[Any]:
        """Return the gradients of `blocks` and `common`."""

        def step(number: Any, *values: Any) -> list[Any]:
            """Write the gradients of one block, and add those of `common`, in float32."""
            arrays, sums = values[: len(blocks)], values[len(blocks) :]
            inputs = [*part(blocks, number), *common]
            with tf.GradientTape() as tape:
                tape.watch(inputs)
                output = function(*inputs, *part(constants, number))
            found: Any = tape.gradient(output, inputs, tf.gather(gradient, number), _AS_ZEROS)
            written = [
                array.write(number, each) for array, each in zip(arrays, found, strict=False)
            ]
            of_common = found[len(blocks) :]
            return written + [
                total + tf.cast(each, total.dtype)
                for total, each in zip(sums, of_common, strict=True)
            ]

        sums = [tf.zeros_like(x, tf.float32) for x in common]
        values = loop(step, *map(_array_like, blocks), *sums)
        stacked = [array.stack() for array in values[: len(blocks)]]
        sums = values[len(blocks) :]
        return stacked + [tf.cast(each, x.dtype) for each, x in zip(sums, common, strict=True)]

    with nullcontext() if record is None else record.stop_recording():
        (outputs,) = loop(forward, _array_like(blocks[0]))
        output = outputs.stack()
    return with_gradient("mapped", output, [*blocks, *common], backward)


def by_parts(function: Callable[..., Any], arrays: Sequence[Any]) -> list[Any]:
    """See `row_parts._by_parts`. One loop of the graph computes the parts, of any number."""
    arrays = tuple(map(tf.convert_to_tensor, arrays))
    count = tf.shape(arrays[0])[0]

    def part(number: Any) -> list[Any]:
        """Return the number of a part and its part of each array."""
        return [number, *(tf.gather(x, number) for x in arrays)]

    def loop(step: Callable[..., Any], *values: Any) -> Any:
        """Return the values after a step for each part."""
        return tf.while_loop(
            lambda number, *_: number < count,
            lambda number, *values: (number + 1, *step(number, *values)),
            (tf.constant(0), *values),
            parallel_iterations=1,
        )[1:]

    def write(number: Any, *outputs: Any) -> list[Any]:
        """Write the outputs of one part."""
        found = function(*part(number))
        return [array.write(number, x) for array, x in zip(outputs, found, strict=True)]

    def forward() -> list[Any]:
        """Return the outputs of all parts."""
        first = function(*part(0))  # for dtypes and shapes; a graph leaves it out
        empty = [tf.TensorArray(x.dtype, count, element_shape=x.shape) for x in first]
        return [array.stack() for array in loop(write, *empty)]

    if record is None:
        return forward()  # keeps what the gradient needs
    with record.VariableWatcher() as watcher, record.stop_recording():
        outputs = forward()
    variables = [variable for variable in watcher.watched_variables() if variable.trainable]

    def backward(*gradients: Any) -> Sequence[Any]:
        """Return the gradients of the variables, by computing each part again."""

        def add(number: Any, *sums: Any) -> list[Any]:
            """Add the gradients of one part, in float32."""
            with tf.GradientTape() as tape:
                tape.watch(variables)
                found = function(*part(number))
            of_part = [tf.gather(gradient, number) for gradient in gradients]
            of_variables = tape.gradient(found, variables, of_part, _AS_ZEROS)
            return [
                total + tf.cast(tf.convert_to_tensor(x), total.dtype)
                for total, x in zip(sums, of_variables, strict=True)
            ]

        sums = loop(add, *(tf.zeros(x.shape, tf.float32) for x in variables))
        with tf.control_dependencies(sums):  # an optimizer waits for all; see `recomputed`
            return [tf.cast(x, y.dtype) for x, y in zip(sums, variables, strict=True)]

    values = [tf.convert_to_tensor(variable) for variable in variables]
    return with_gradient("by_parts", outputs, values, backward)


def _array_like(blocks: tf.Tensor) -> tf.TensorArray:
    """Return an empty array for tensors of the dtype and shape of each of the blocks."""
    return tf.TensorArray(blocks.dtype, blocks.shape[0], element_shape=blocks.shape[1:])


def _after(gradient: Any, x: Any) -> Any:
    """Return `x` as a value that depends on `gradient`.

    Otherwise a compiler would find that the second computation equals the first, and keep the
    results of the first. XLA ignores control dependencies, so a zero is added that depends on it.
    """
    if tf.executing_eagerly():
        return x
    first = tf.reshape(tf.reshape(gradient, [-1])[:1], [-1])
    is_any = tf.cast(tf.reduce_sum(first), tf.bool)
    return x + tf.cast(tf.where(tf.equal(is_any, is_any), 0.0, float("nan")), x.dtype)


# === Operations ===
# XLA would compute these faster, but on CPUs a compiled function within a step sometimes never
# returned (decision 64).


_DRAWS = 2**16
_ANY: Any = None  # no bounds: all integers of the dtype
_ROOT_HALF, _LOG_DENSITY = math.sqrt(0.5), -0.5 * math.log(2.0 * math.pi)


def dropped(x: Any, rate: float, seed: Any) -> Any:
    """Draw 16 random bits for each number; see `kernels.dropped`."""
    threshold = min(round(rate * _DRAWS), _DRAWS - 1)  # so that a rate near 1 keeps some numbers
    scale = _DRAWS / (_DRAWS - threshold)
    size = tf.size(x)
    # The generator gives 32 bits at a time.
    bits = tf.random.stateless_uniform([(size + 1) // 2], seed, _ANY, _ANY, tf.uint32)
    draws = tf.reshape(tf.reshape(tf.bitcast(bits, tf.uint16), [-1])[:size], tf.shape(x))
    is_kept = draws >= tf.constant(threshold, draws.dtype)
    is_kept.set_shape(x.shape)

    def kept(x: Any) -> Any:
        """Scale the kept numbers and set the others to zero, in the dtype of `x`."""
        return tf.where(is_kept, x * scale, tf.zeros((), x.dtype))

    x = tf.convert_to_tensor(x)
    return with_gradient("dropped", kept(x), [x], lambda gradient: [kept(gradient)])


def layer_norm(x: Any, gamma: Any, beta: Any, epsilon: float) -> Any:
    """Normalise in float32; see `kernels.layer_norm`."""
    rows = list(range(len(x.shape) - 1))
    wide, gamma, beta = (
        tf.cast(tf.convert_to_tensor(value), tf.float32) for value in (x, gamma, beta)
    )
    centred = wide - tf.reduce_mean(wide, axis=-1, keepdims=True)
    variance = tf.reduce_mean(tf.square(centred), axis=-1, keepdims=True)
    scale = tf.math.rsqrt(variance + epsilon)
    normalized = centred * scale

    def gradients(gradient: Any) -> tuple[Any, Any, Any]:
        """Return the gradients of x, [..., features], gamma and beta, [features]: float32."""
        of_normalized, of_gamma = gradient * gamma, gradient * normalized
        projection = tf.reduce_mean(of_normalized * normalized, axis=-1, keepdims=True)
        mean = tf.reduce_mean(of_normalized, axis=-1, keepdims=True)
        of_centred = of_normalized - (mean + normalized * projection)
        return of_centred * scale, tf.reduce_sum(of_gamma, rows), tf.reduce_sum(gradient, rows)

    outputs = with_gradient("layer_norm", normalized * gamma + beta, [wide, gamma, beta], gradients)
    return tf.cast(outputs, x.dtype)


def gelu(x: Any) -> Any:
    """Return x Phi(x), with the normal distribution function; the gradient keeps its slope only."""
    x = tf.convert_to_tensor(x)
    share = 0.5 + 0.5 * tf.math.erf(x * _ROOT_HALF)
    slope = share + x * tf.exp(-0.5 * tf.square(x) + _LOG_DENSITY)
    return with_gradient("gelu", x * share, [x], lambda gradient: [gradient * slope])


def tied_logits(x: Any, table: Any, bias: Any) -> Any:
    """Compute logits without transposing the table or its gradient; see `kernels.tied_logits`."""
    rows = tf.matmul(tf.reshape(x, [-1, x.shape[-1]]), table, transpose_b=True)
    logits = tf.nn.bias_add(rows, bias)
    return tf.reshape(logits, tf.concat([tf.shape(x)[:-1], [table.shape[0]]], axis=0))


def token_losses(labels: Any, logits: Any) -> Any:
    """Compute losses from the softmax, for which TensorFlow has a fast kernel.

    See `kernels.token_losses`.
    """
    classes = logits.shape[-1]
    flat_labels = tf.reshape(tf.cast(labels, tf.int32), [-1])

    rows = tf.reshape(logits, [-1, classes])
    shares = tf.nn.softmax(rows)
    # The highest share is at least 1/classes, so its logarithm is precise.
    log_sums = tf.reduce_max(rows, axis=-1) - tf.math.log(tf.reduce_max(shares, axis=-1))
    losses = log_sums - tf.gather(rows, flat_labels, batch_dims=1)

    def gradient_of_rows(gradient: Any) -> list[Any]:
        """Return the gradient of `rows`, [rows, classes], from that of the losses, [rows]."""
        places = tf.stack([tf.range(tf.size(flat_labels)), flat_labels], axis=1)
        return [tf.tensor_scatter_nd_sub(shares * gradient[:, None], places, gradient)]

    losses = with_gradient("token_losses", losses, [rows], gradient_of_rows)
    return tf.reshape(losses, tf.shape(logits)[:-1])


def is_highest(labels: Any, logits: Any) -> Any:
    """See `kernels.is_highest`; Keras's argmax takes more passes, to distinguish -0.0 from 0.0."""
    return labels == tf.math.argmax(logits, axis=-1, output_type=labels.dtype)


def product(x: Any, kernel: Any) -> Any:
    """Return x @ kernel by one operation; Keras reshapes `x` to a matrix before and back after."""
    return tf.linalg.matmul(x, kernel)


def rows(table: Any, ids: Any) -> Any:
    """Return rows of a table by one operation; Keras adds others for negative ids."""
    return tf.gather(table, ids)


def gathered(scores: Any, rows: Any, axis: int) -> Any:
    """Gather by one index of all scores; see `kernels.gathered`. For ONNX.

    For a single query, tf2onnx writes a wrong shape of the transposed rows of `take_along_axis`.
    """
    batch, heads, third, last = (tf.cast(size, tf.int64) for size in tf.unstack(tf.shape(scores)))
    index = tf.reshape(tf.range(batch * heads), [batch, heads, 1, 1]) * third
    rows = tf.cast(rows, tf.int64)
    if axis == 3:
        index = (index + tf.range(third)[:, tf.newaxis]) * last + rows
    else:
        index = (index + rows) * last + tf.range(last)
    return tf.gather(tf.reshape(scores, [-1]), index)
