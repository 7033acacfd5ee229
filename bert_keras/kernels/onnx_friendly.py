"""A model in the operations that runtimes' optimizers look for.

A runtime fuses what it knows. What Keras has TensorFlow do, `tf.einsum`, `tf.tensordot` and a
normalisation of fewer passes, becomes many small operations of ONNX, which ONNX Runtime leaves as
they are and which count where a text is short.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from keras import ops

from bert_keras.kernels.mask_values import MASKED

_is_asked: ContextVar[bool] = ContextVar("is_written_out", default=False)


@contextmanager
def written_out() -> Iterator[None]:
    """While it lasts, layers have these forms: for tracing a model that another runtime runs."""
    token = _is_asked.set(True)
    try:
        yield
    finally:
        _is_asked.reset(token)


def is_asked() -> bool:
    """Return whether the code runs within `written_out`."""
    return _is_asked.get()


def positions(token_ids: Any) -> Any:
    """0, 1, 2 and so on for each text: [batch, length], counted from the ids themselves.

    A runtime fuses a sum with what follows where it knows that both parts have the same sizes.
    Numbers that were counted from a shape, or made like one, have a size that it does not know.
    """
    ones = ops.clip(token_ids, 1, 1)
    return ops.cumsum(ones, axis=1) - 1


def layer_norm(x: Any, gamma: Any, beta: Any, epsilon: float) -> Any:
    """See `kernels.layer_norm`."""
    wide, gamma, beta = (ops.cast(each, "float32") for each in (x, gamma, beta))
    centred = wide - ops.mean(wide, axis=-1, keepdims=True)
    variance = ops.mean(ops.power(centred, 2.0), axis=-1, keepdims=True)
    return ops.cast(centred / ops.sqrt(variance + epsilon) * gamma + beta, x.dtype)


def attention(query: Any, key: Any, value: Any, bias: Any, mask: Any) -> Any:
    """See `kernels.fused_attention`."""
    query, key, value = (ops.transpose(each, (0, 2, 1, 3)) for each in (query, key, value))
    scores = ops.matmul(query, ops.transpose(key, (0, 1, 3, 2)))
    scores = ops.cast(scores, "float32") * query.shape[-1] ** -0.5
    if bias is not None:
        scores += ops.cast(bias, "float32")
    if mask is not None:
        scores += ops.cast(ops.where(mask, 0.0, MASKED), "float32")  # once for all layers
    found = ops.matmul(ops.cast(ops.softmax(scores), value.dtype), value)
    return ops.transpose(found, (0, 2, 1, 3))
