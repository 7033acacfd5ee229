"""Functions of a batch that are computed for a part of its rows at a time, for less memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

import keras
from keras import ops

BACKEND = keras.backend.backend()
is_recomputed = ContextVar("is_recomputed", default=False)


def marked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function during which `is_recomputed` is true.

    What is computed again anyway is not computed twice again.
    """

    def call(*inputs: Any) -> Any:
        """Return the output of `function`."""
        token = is_recomputed.set(True)
        try:
            return function(*inputs)
        finally:
            is_recomputed.reset(token)

    return call


def computed_in_parts(
    function: Callable[..., Sequence[Any]], arrays: Sequence[Any], size: int
) -> list[Any]:
    """Return the outputs of a function for all rows, computed for some rows at a time.

    Nothing of a part but its outputs stays in memory. Its gradient computes the part again (Gao et
    al., 2021, §3.2). Outputs and gradients are those of all rows at once, within rounding.

    Args:
        function: from the number of a part, an integer scalar, and `size` rows of each array, to a
            list of tensors [size, ...]. Variables that it reads have gradients. It may not write
            variables, so seeds are drawn before.
        arrays: integers or other tensors without a gradient, [rows, ...] each.
        size: number of rows at a time.
    """
    arrays = [ops.convert_to_tensor(x) for x in arrays]
    rows = ops.shape(arrays[0])[0]
    is_symbolic = BACKEND == "jax" and not isinstance(rows, int)  # Keras looks for shapes only
    if is_symbolic or (isinstance(rows, int) and rows <= size):
        return list(function(0, *arrays))
    function = marked(function)
    count = -(-rows // size)
    # The last part repeats the last row, because rows of padding alone would have no mean.
    places = ops.minimum(ops.arange(count * size), rows - 1)
    parts = [_divided(ops.take(x, places, axis=0), count, size) for x in arrays]
    return [
        ops.reshape(x, (count * size, *ops.shape(x)[2:]))[:rows]
        for x in _by_parts(function, parts, count)
    ]


def _divided(x: Any, count: Any, size: int) -> Any:
    """Return rows [count * size, ...] as parts [count, size, ...]."""
    return ops.reshape(x, (count, size, *ops.shape(x)[1:]))


def _by_parts(function: Callable[..., Any], arrays: Sequence[Any], count: Any) -> list[Any]:
    """Return the outputs of a function for parts [count, size, ...] of each array."""
    if BACKEND == "jax":
        from bert_keras.kernels import jax_recomputation

        return jax_recomputation.by_parts(function, arrays)
    if BACKEND == "tensorflow":
        from bert_keras.kernels import tensorflow_kernels

        return tensorflow_kernels.by_parts(function, arrays)
    from bert_keras.kernels import torch_kernels

    def part(number: int, *arrays: Any) -> Sequence[Any]:
        """Return the outputs of one part, after the memory of the part before is free."""
        torch_kernels.release_memory(arrays[0].device)
        return function(number, *arrays)

    again = keras.remat(part)
    outputs = [again(number, *(x[number] for x in arrays)) for number in range(count)]
    return [ops.stack(parts) for parts in zip(*outputs, strict=True)]
