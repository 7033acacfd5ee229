"""Kernels of the JAX backend, and attention: by cuDNN on a GPU, in parts on a CPU.

XLA computes the scores of all rows, then their softmax, then the products with the values, each a
walk through memory. Here the scores that are in work at once fit the cores' caches. Of long rows
they are computed again for the gradients (Chen et al., 2016), as flash attention does, so that
memory grows with the length and not with its square.
"""

from __future__ import annotations

import math
import os
from functools import partial
from typing import Any, Literal

import jax
from jax import lax
from jax import numpy as jnp
from keras import ops

from bert_keras.kernels.mask_values import MASKED

_SCORES = 1 << 18  # for each core: a mebibyte of float32, about what its own cache holds
_LONG = 8  # times as many scores in one row: its queries come in parts


def cpu_attention(query: Any, key: Any, value: Any, bias: Any, mask: Any) -> Any:
    """See `kernels.fused_attention`; all sizes are known."""
    batch, length, heads, head_size = query.shape
    if not query.size or not key.size:
        return jnp.zeros(query.shape, value.dtype)
    at_once = _SCORES * _cores()
    of_a_query = heads * key.shape[1]
    queries = None
    if of_a_query * length > _LONG * at_once:
        queries = max(1, at_once // of_a_query)
    added = bias if mask is None else jnp.where(mask, 0.0, MASKED)
    if added is not None:
        added = jnp.broadcast_to(added, (batch, *added.shape[1:]))
    rows = query * head_size**-0.5, key, value, added

    def row(given: tuple[Any, ...]) -> Any:
        query, key, value, added = given
        query, key, value = (jnp.swapaxes(each, 0, 1) for each in (query, key, value))
        if queries is None:
            found = _attended(query, key, value, added)
        else:
            found = _in_parts(query, key, value, added, queries)
        return jnp.swapaxes(found, 0, 1)

    rows_at_once = max(1, at_once // (of_a_query * length))
    if rows_at_once >= batch:
        return jax.vmap(row)(rows)
    return lax.map(row, rows, batch_size=rows_at_once)


def _cores() -> int:
    """Return the number of CPU cores that this process, and so XLA, may use."""
    allowed = getattr(os, "sched_getaffinity", None)  # Linux
    return len(allowed(0)) if allowed else os.cpu_count() or 1


def _in_parts(query: Any, key: Any, value: Any, added: Any, size: int) -> Any:
    """As `_attended`, of so many queries at a time."""
    of_all, own = added, None
    if added is not None and added.shape[1] > 1:
        of_all, own = None, jnp.swapaxes(added, 0, 1)

    def one(given: tuple[Any, Any]) -> Any:
        query, own = given
        own = of_all if own is None else own[:, None]
        return _attended(query[:, None], key, value, own)[:, 0]

    found = lax.map(jax.checkpoint(one), (jnp.swapaxes(query, 0, 1), own), batch_size=size)
    return jnp.swapaxes(found, 0, 1)


def _attended(query: Any, key: Any, value: Any, added: Any) -> Any:
    """NTK, NSK, NSK and what is added to the scores, N or 1, T or 1, S -> NTK."""
    dtype = jnp.promote_types(query.dtype, jnp.float32)
    scores = jnp.einsum("NTK,NSK->NTS", query, key, preferred_element_type=dtype)
    if added is not None:
        scores = scores + added.astype(dtype)
    parts = jnp.exp(scores - lax.stop_gradient(jnp.max(scores, axis=-1, keepdims=True)))
    sums = jnp.sum(parts, axis=-1, keepdims=True)
    parts = parts.astype(value.dtype)
    # Divided after the product, of which there is less.
    found = jnp.einsum("NTS,NSK->NTK", parts, value, preferred_element_type=dtype)
    return (found / sums).astype(value.dtype)


# === Attention on a GPU ===
# That is as lengths. A mask becomes a bias in JAX, one number for each pair of tokens, whose
# gradient cuDNN computes too; and one for the keys alone, [batch, 1, 1, key], it refuses.


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
        return cpu_attention(query, key, value, bias, mask)
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
    """Return whether there is a GPU for which cuDNN has the kernel, at this dtype and head size."""
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
    """Return whether JAX computes on one CPU device, so that no batch is split between devices."""
    devices = jax.devices()
    return len(devices) == 1 and devices[0].platform == "cpu"


def _compute_capability() -> float:
    """Return the compute capability of the first NVIDIA GPU; 0 without one."""
    try:
        return float(getattr(jax.devices()[0], "compute_capability", 0))
    except ValueError:  # AMD's have names
        return 0.0


# === Operations ===


_DRAWS = 2**32
_STRIDE, _TURN = 0x9E3779B9, 0x85EBCA6B  # odd, so that no two places and no two calls are one


def dropped(x: Any, rate: float, seed: Any) -> Any:
    """By a hash of place and seed, which XLA computes within the operation that drops.

    JAX's own generator, Threefry, is a loop over memory on a processor. Nothing is kept for the
    gradient, which hashes again.
    """
    threshold = jnp.uint32(min(round(rate * _DRAWS), _DRAWS - 1))
    first, second = (seed[number].astype(jnp.uint32) for number in (0, 1))
    places = lax.iota(jnp.uint32, x.size).reshape(x.shape)
    draws = _mixed(places * jnp.uint32(_STRIDE) + first)
    # Both numbers of the seed once more: of the first alone, two layers would drop the same, moved.
    key = _mixed(first + jnp.uint32(_TURN)) ^ (second * jnp.uint32(_TURN) + jnp.uint32(1))
    draws = _mixed(draws ^ key)
    return jnp.where(draws >= threshold, x * (1 / (1 - rate)), jnp.zeros((), x.dtype))


@jax.custom_jvp
def gelu(x: Any) -> Any:
    """X times Phi(x), the normal distribution function; its slope alone is kept."""
    return _gelu_and_slope(x)[0]


@gelu.defjvp
def _gelu_forward(given: Any, tangents: Any) -> tuple[Any, Any]:
    found, slope = _gelu_and_slope(*given)
    return found, tangents[0] * slope


def _gelu_and_slope(x: Any) -> tuple[Any, Any]:
    share = 0.5 + 0.5 * lax.erf(x * math.sqrt(0.5))
    return x * share, share + x * jnp.exp(-0.5 * x * x) * (1 / math.sqrt(2 * math.pi))


def layer_norm(x: Any, gamma: Any, beta: Any, epsilon: float) -> Any:
    """In float32, with a gradient of fewer passes than XLA's own; see `kernels.layer_norm`."""
    wide = (jnp.asarray(each, jnp.float32) for each in (x, gamma, beta))
    return _normalised(epsilon, *wide).astype(x.dtype)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _normalised(epsilon: float, x: Any, gamma: Any, beta: Any) -> Any:
    return _standard(epsilon, x)[0] * gamma + beta


@_normalised.defjvp
def _normalised_forward(epsilon: float, given: Any, tangents: Any) -> tuple[Any, Any]:
    (x, gamma, beta), (of_x, of_gamma, of_beta) = given, tangents
    values, scale = _standard(epsilon, x)
    # The mean of the values is 0: both means are of the same pass.
    of_x = of_x - _mean(of_x) - values * _mean(values * of_x)
    return values * gamma + beta, of_x * scale * gamma + values * of_gamma + of_beta


def _standard(epsilon: float, x: Any) -> tuple[Any, Any]:
    centred = x - _mean(x)
    scale = lax.rsqrt(_mean(centred * centred) + epsilon)
    return centred * scale, scale


def _mean(x: Any) -> Any:
    return jnp.mean(x, axis=-1, keepdims=True)


@jax.custom_vjp
def tied_logits(x: Any, table: Any, bias: Any) -> Any:
    """With a bias whose gradient is a product; see `kernels.tied_logits`.

    XLA on a processor sums rows of tens of thousands of numbers far slower than it multiplies them
    with ones.
    """
    rows = x.reshape(-1, x.shape[-1])
    # Once: without the barrier each of those who read it adds the bias, and keeps the product too.
    logits = lax.optimization_barrier(rows @ table.T + bias)
    return logits.reshape(*x.shape[:-1], table.shape[0])


def _tied_logits_forward(x: Any, table: Any, bias: Any) -> tuple[Any, Any]:
    return tied_logits(x, table, bias), (x, table)


def _tied_logits_backward(kept: Any, gradient: Any) -> tuple[Any, Any, Any]:
    x, table = kept
    rows = gradient.reshape(-1, table.shape[0])
    of_table = rows.T @ x.reshape(-1, x.shape[-1])
    return (rows @ table).reshape(x.shape), of_table, jnp.ones(len(rows), rows.dtype) @ rows


tied_logits.defvjp(_tied_logits_forward, _tied_logits_backward)


@jax.custom_vjp
def token_losses(labels: Any, logits: Any) -> Any:
    """Its gradient is one pass over the logits; see `kernels.token_losses`."""
    return _token_losses_forward(labels, logits)[0]


def _token_losses_forward(labels: Any, logits: Any) -> tuple[Any, Any]:
    log_sums = jax.scipy.special.logsumexp(logits, axis=-1)
    return log_sums - _of_labels(labels, logits), (labels, logits, log_sums)


def _token_losses_backward(kept: Any, gradient: Any) -> tuple[Any, Any]:
    labels, logits, log_sums = kept
    # Compared, not scattered: so it is fused with the softmax.
    is_label = (
        lax.broadcasted_iota(labels.dtype, logits.shape, logits.ndim - 1) == labels[..., None]
    )
    shares = jnp.exp(logits - log_sums[..., None])
    return None, jnp.where(is_label, shares - 1, shares) * gradient[..., None]


token_losses.defvjp(_token_losses_forward, _token_losses_backward)


def is_highest(labels: Any, logits: Any) -> Any:
    """Asks for another that is as high, where XLA's argmax is slow; see `kernels.is_highest`.

    Not by a count, which XLA writes out before it sums.
    """
    classes = lax.broadcasted_iota(labels.dtype, logits.shape, logits.ndim - 1)
    is_as_high = ~(logits < _of_labels(labels, logits)[..., None])  # so is what is no number
    return ~jnp.any(is_as_high & (classes != labels[..., None]), axis=-1)


def _of_labels(labels: Any, logits: Any) -> Any:
    # Clipped: JAX has NaN for a class that does not exist, and would train it into the weights.
    return jnp.take_along_axis(logits, labels[..., None], axis=-1, mode="clip")[..., 0]


def _mixed(x: Any) -> Any:
    """Each bit of a whole number changes each other one half of the time (lowbias32, Wellons 2018).

    A one-to-one function of 32 bits.
    """
    x = (x ^ (x >> 16)) * jnp.uint32(0x7FEB352D)
    x = (x ^ (x >> 15)) * jnp.uint32(0x846CA68B)
    return x ^ (x >> 16)
