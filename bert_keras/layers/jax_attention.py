"""Attention on JAX: cuDNN's flash attention where there is one, with padding as it takes it.

That is as lengths. A mask becomes a bias in JAX, one number for each pair of tokens, whose gradient
cuDNN computes too; and one for the keys alone, [batch, 1, 1, key], it refuses.
"""

from __future__ import annotations

from typing import Any, Literal

import jax
from jax import numpy as jnp
from keras import ops

from bert_keras.layers import jax_cpu_attention

_HALF = ("bfloat16", "float16")
_REFUSALS: list[str] = []  # what cuDNN's kernel said where it was asked and did not come
_AMPERE = 8.0  # the compute capability of the first GPUs that have it


def attention(query: Any, key: Any, value: Any, bias: Any, mask: Any) -> Any:
    """See `kernels.fused_attention`."""
    is_padding = mask is None or mask.shape[2] == 1
    if bias is None and is_padding and has_flash(str(query.dtype)):
        try:
            return flash(query, key, value, mask)
        except (NotImplementedError, RuntimeError) as error:  # a head's size; no cuDNN installed
            _REFUSALS[:] = [str(error)]
    is_known = all(isinstance(size, int) for each in (query, key) for size in each.shape)
    if is_known and _is_processor():
        return jax_cpu_attention.attention(query, key, value, bias, mask)
    return ops.dot_product_attention(query, key, value, bias=bias, mask=mask)


def flash(
    query: Any, key: Any, value: Any, mask: Any, implementation: Literal["cudnn", "xla"] = "cudnn"
) -> Any:
    """Attention to the keys that a mask has, wherever they are.

    Who attends does not ask in which order the keys come: so those that are read come first.

    Args:
        query: BTNK.
        key: BSNK.
        value: BSNK.
        mask: B11S bool; None where there is no padding.
        implementation: of `jax.nn.dot_product_attention`.

    Returns:
        BTNK; zeros in a row that may look nowhere.
    """
    lengths = None
    if mask is not None:
        is_read = jnp.broadcast_to(mask[:, 0, 0], key.shape[:2])
        order = jnp.argsort(~is_read, axis=1, stable=True)
        counts = jnp.sum(is_read, axis=1, dtype=jnp.int32)
        # What nobody reads is zero, and so is its gradient, whatever the kernel leaves there.
        is_kept = (jnp.arange(key.shape[1]) < counts[:, None])[..., None, None]
        key, value = (jnp.where(is_kept, _ordered(each, order), 0) for each in (key, value))
        lengths = jnp.where(counts == 0, key.shape[1], counts)
    return jax.nn.dot_product_attention(
        query, key, value, key_value_seq_lengths=lengths, implementation=implementation
    )


@jax.custom_vjp
def _ordered(x: Any, order: Any) -> Any:
    """Rows in another order; their gradient is put back, where JAX would add it to zeros."""
    return jnp.take_along_axis(x, order[..., None, None], axis=1)


def _ordered_forward(x: Any, order: Any) -> tuple[Any, Any]:
    return _ordered(x, order), order


def _ordered_backward(order: Any, gradient: Any) -> tuple[Any, None]:
    return _ordered(gradient, jnp.argsort(order, axis=1)), None


_ordered.defvjp(_ordered_forward, _ordered_backward)


def has_flash(dtype: str) -> bool:
    """Whether cuDNN has the kernel for this GPU, if there is one, and these numbers."""
    return dtype in _HALF and _compute_capability() >= _AMPERE


def attention_kernel(dtype: str, learns_bias: bool) -> str:  # noqa: ARG001
    """See `kernels.attention_kernel`."""
    why = "cuDNN's kernel needs a GPU of compute capability 8.0"
    if has_flash(dtype):
        if not _REFUSALS:
            return (
                "cuDNN's flash attention, padding as lengths; of rows of several examples and of "
                "relative positions with a bias, where it takes one"
            )
        why = f"cuDNN's kernel refused, {_REFUSALS[-1]}"
    elif _compute_capability() >= _AMPERE:
        why = f"cuDNN's kernel needs half precision, this is {dtype}"
    how = "few" if _is_processor() else "all"
    return f"XLA's operations, {how} probabilities in memory at once: {why}"


def _is_processor() -> bool:
    """Whether JAX computes on a processor, and a batch is not shared among several devices."""
    devices = jax.devices()
    return len(devices) == 1 and devices[0].platform == "cpu"


def _compute_capability() -> float:
    """That of the first NVIDIA GPU; 0 where there is none."""
    try:
        return float(getattr(jax.devices()[0], "compute_capability", 0))
    except ValueError:  # AMD's have names
        return 0.0
