"""Operations written in the form that the optimizers of other runtimes recognise and fuse.

On TensorFlow Keras uses `tf.einsum`, `tf.tensordot` and a normalisation of fewer passes. In ONNX
these become many small operations, which ONNX Runtime does not fuse and which take most of the time
of a short text.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from keras import ops

from bert_keras.kernels.mask_values import MASKED

_is_active: ContextVar[bool] = ContextVar("uses_onnx_friendly_operations", default=False)


@contextmanager
def onnx_friendly_operations() -> Iterator[None]:
    """Return a context in which kernels use these operations, for a model of another runtime."""
    token = _is_active.set(True)
    try:
        yield
    finally:
        _is_active.reset(token)


def is_active() -> bool:
    """Return whether the code runs within the context of `onnx_friendly_operations`."""
    return _is_active.get()


def positions(token_ids: Any) -> Any:
    """Return the positions 0, 1, 2 and so on of each text, computed from the ids.

    A runtime fuses a sum with the next operation only if it knows that both parts have the same
    sizes. It does not know the sizes of numbers that are counted from a shape.

    Args:
        token_ids: [batch, length].

    Returns:
        [batch, length].
    """
    ones = ops.clip(token_ids, 1, 1)
    return ops.cumsum(ones, axis=1) - 1


def layer_norm(x: Any, gamma: Any, beta: Any, epsilon: float) -> Any:
    """See `kernels.layer_norm`."""
    wide, gamma, beta = (ops.cast(value, "float32") for value in (x, gamma, beta))
    centred = wide - ops.mean(wide, axis=-1, keepdims=True)
    variance = ops.mean(ops.power(centred, 2.0), axis=-1, keepdims=True)
    return ops.cast(centred / ops.sqrt(variance + epsilon) * gamma + beta, x.dtype)


def attention(query: Any, key: Any, value: Any, bias: Any, mask: Any) -> Any:
    """See `kernels.fused_attention`."""
    query, key, value = (ops.transpose(x, (0, 2, 1, 3)) for x in (query, key, value))
    scores = ops.matmul(query, ops.transpose(key, (0, 1, 3, 2)))
    scores = ops.cast(scores, "float32") * query.shape[-1] ** -0.5
    if bias is not None:
        scores += ops.cast(bias, "float32")
    if mask is not None:
        scores += ops.cast(ops.where(mask, 0.0, MASKED), "float32")  # once for all layers
    context = ops.matmul(ops.cast(ops.softmax(scores), value.dtype), value)
    return ops.transpose(context, (0, 2, 1, 3))
