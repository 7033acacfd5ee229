"""Attention of long rows for a block of queries at a time, where a backend has no fused kernel.

The scores of all pairs of tokens in a row of 8,192 tokens are 256 MiB for each head. Here those of
one block of queries are in memory. For the gradient they are computed again (Chen et al., 2016).
Outputs and gradients are those of all queries at once, within rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

BACKEND = keras.backend.backend()

LONG = 2048  # tokens; a row with no more pairs of queries and keys than this squared is not long
_QUERIES = 256  # in a block
REMARK = f"rows of more than {LONG:,} tokens in blocks of {_QUERIES} queries"


def is_long(query: Any, key: Any) -> bool:
    """Return whether attention has so many scores that blocks save much memory.

    Args:
        query: BTNK.
        key: BSNK. Only known lengths can be long, and no symbols of a traced program.
    """
    sizes = query.shape[1], key.shape[1]
    return all(isinstance(size, int) for size in sizes) and math.prod(sizes) > LONG**2


def has_fused_attention(dtype: str) -> bool:
    """Return whether `kernels.fused_attention` takes this dtype; JAX has no float16 on CPUs."""
    if dtype != "float16" or BACKEND != "jax":
        return True
    return not all(device.startswith("cpu") for device in keras.distribution.list_devices())


def composed_attention(query: Any, key: Any, value: Any, bias: Any, mask: Any) -> Any:
    """Attend by Keras's operations, in long rows by blocks; see `kernels.fused_attention`."""
    return attention(_by_keras, query, key, value, bias, mask)


def _by_keras(query: Any, key: Any, value: Any, bias: Any, mask: Any) -> Any:
    """Attend with all queries at once."""
    return ops.dot_product_attention(query, key, value, bias=bias, mask=mask)


def attention(
    attend: Callable[..., Any], query: Any, key: Any, value: Any, bias: Any = None, mask: Any = None
) -> Any:
    """Return attention, computed for a block of queries at a time if a row is long.

    Args:
        attend: attention of some queries, `attend(query, key, value, bias, mask)`, as
            `kernels.fused_attention`.
        query: BTNK.
        key: BSNK.
        value: BSNK.
        bias: BNTS or 1NTS, added to the scaled scores; None.
        mask: B1TS or B11S bool, True where a token attends to a key; None.

    Returns:
        BTNK.
    """
    if not is_long(query, key):
        return attend(query, key, value, bias, mask)
    length = query.shape[1]
    count = -(-length // _QUERIES)
    is_by_query = mask is not None and mask.shape[2] != 1
    varying = [_blocks(query, 1, count)]
    if bias is not None:
        varying.append(_blocks(bias, 2, count))
    masks = [_blocks(mask, 2, count)] if is_by_query else []

    def attend_block(query: Any, *others: Any) -> Any:
        """Attend with one block of queries: BTNK."""
        *biases, key, value = others[: len(others) - len(masks)]
        block_mask = others[-1] if is_by_query else mask
        return attend(query, key, value, biases[0] if biases else None, block_mask)

    context = _mapped(attend_block, varying, [key, value], masks)
    batch, heads, width = ops.shape(context)[1], *context.shape[3:]
    context = ops.reshape(ops.transpose(context, (1, 0, 2, 3, 4)), (batch, -1, heads, width))
    return context[:, :length]


def _blocks(x: Any, axis: int, count: int) -> Any:
    """Return blocks of equal size along an axis, padded with zeros: [count, ..., size, ...].

    Args:
        x: a tensor with a known size of the axis.
        axis: the axis of the queries.
        count: number of blocks.
    """
    length, sizes = x.shape[axis], list(ops.shape(x))
    size = -(-length // count)
    padding = [[0, 0] for _ in sizes]
    padding[axis][1] = count * size - length
    x = ops.pad(x, padding)
    x = ops.reshape(x, (*sizes[:axis], count, size, *sizes[axis + 1 :]))
    return ops.moveaxis(x, axis, 0)


def _mapped(
    function: Callable[..., Any],
    blocks: Sequence[Any],
    common: Sequence[Any],
    constants: Sequence[Any],
) -> Any:
    """Return the outputs of a function for all blocks, one after the other: [count, ...].

    Args:
        function: from a block of each tensor in `blocks`, all tensors in `common` and a block of
            each in `constants`, to one tensor.
        blocks: floats [count, ...].
        common: floats.
        constants: [count, ...], without a gradient.
    """
    if BACKEND == "tensorflow":
        from bert_keras.kernels import tensorflow_kernels

        return tensorflow_kernels.mapped(function, blocks, common, constants)

    def call(parts: Any) -> Any:
        """Return the output for one block."""
        of_blocks, of_constants = parts
        return function(*of_blocks, *common, *of_constants)

    return ops.map(keras.remat(call), (tuple(blocks), tuple(constants)))
