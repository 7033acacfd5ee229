"""Kernels of the JAX backend: attention in chunks on a CPU and by cuDNN on a GPU, and others.

XLA computes scores, softmax and products with the values each in a pass over memory. Here the
scores are computed in chunks that fit into the caches of the cores. If there are several chunks,
the gradient computes them again (Chen et al., 2016): memory grows with the length and not with its
square.
"""

from __future__ import annotations

import math
import os
from functools import partial
from typing import Any, Literal

import jax
import keras
from jax import lax
from jax import numpy as jnp

from bert_keras.kernels import query_blocks
from bert_keras.kernels.jax_recomputation import by_rows, is_single_cpu
from bert_keras.kernels.mask_values import MASKED

_SCORES = 1 << 18  # at once on each core: a mebibyte of float32, about the size of its cache
_LONG = 8  # a row with so many times more scores is split into heads, and they into blocks


def cpu_attention(query: Any, key: Any, value: Any, bias: Any, mask: Any) -> Any:
    """Attend in chunks that fit into caches; see `kernels.fused_attention`.

    All sizes must be known.
    """
    batch, length, heads, head_size = query.shape
    if not query.size or not key.size:
        return jnp.zeros(query.shape, value.dtype)
    scores_at_once = _SCORES * _cores()
    scores = heads * length * key.shape[1]
    is_long = scores > _LONG * scores_at_once
    score_bias = bias if mask is None else jnp.where(mask, 0.0, MASKED)
    if score_bias is not None:
        score_bias = jnp.broadcast_to(score_bias, (batch, *score_bias.shape[1:]))
    batch_arrays = query, key, value, score_bias

    def attend_row(arrays: tuple[Any, ...]) -> Any:
        """Attend within one row: TNK, SNK, SNK and the bias NTS of its scores, or None, to TNK."""
        query, key, value, score_bias = arrays
        query = query * head_size**-0.5
        query, key, value = (jnp.swapaxes(x, 0, 1) for x in (query, key, value))
        attend = partial(_attention_by_heads, scores_at_once) if is_long else _softmax_attention
        return jnp.swapaxes(attend(query, key, value, score_bias), 0, 1)

    rows_at_once = max(1, scores_at_once // scores)
    if rows_at_once >= batch:
        return jax.vmap(attend_row)(batch_arrays)
    return by_rows(attend_row, rows_at_once, batch_arrays)


def _cores() -> int:
    """Return the number of CPU cores that this process, and so XLA, may use."""
    allowed = getattr(os, "sched_getaffinity", None)  # Linux
    return len(allowed(0)) if allowed else os.cpu_count() or 1


def _attention_by_heads(at_once: int, query: Any, key: Any, value: Any, score_bias: Any) -> Any:
    """Return `_softmax_attention`, computed for one head and a block of its queries at a time."""
    length, width = query.shape[1:]
    blocks = min(length, -(-length * key.shape[1] // at_once))
    size = -(-length // blocks)

    def in_blocks(x: Any) -> Any:
        """Return the queries of one head, [1, T, ...], in blocks: [blocks, 1, size, ...]."""
        x = jnp.pad(x, ((0, 0), (0, blocks * size - length), (0, 0)))
        return x.reshape(blocks, 1, size, x.shape[-1])

    def attend_head(arrays: tuple[Any, ...]) -> Any:
        """Attend within one head: 1TK, 1SK, 1SK and the bias of its scores, or None, to TK."""
        query, key, value, bias = arrays
        bias = score_bias if bias is None else bias
        attend = jax.checkpoint(lambda query, bias: _softmax_attention(query, key, value, bias))
        bias_by_query = in_blocks(bias) if bias is not None and bias.shape[1] > 1 else None
        context = lax.map(
            lambda block: attend(block[0], bias if block[1] is None else block[1]),
            (in_blocks(query), bias_by_query),
        )
        return context.reshape(-1, width)[:length]

    has_heads = score_bias is not None and score_bias.shape[0] > 1
    arrays = query, key, value, score_bias if has_heads else None
    return lax.map(attend_head, jax.tree.map(lambda x: x[:, None], arrays))


def _softmax_attention(query: Any, key: Any, value: Any, score_bias: Any) -> Any:
    """Attend within one row.

    Args:
        query: NTK, already scaled.
        key: NSK.
        value: NSK.
        score_bias: added to the scores, [N or 1, T or 1, S]; or None.

    Returns:
        NTK.
    """
    dtype = jnp.promote_types(query.dtype, jnp.float32)
    scores = jnp.einsum("NTK,NSK->NTS", query, key, preferred_element_type=dtype)
    if score_bias is not None:
        scores = scores + score_bias.astype(dtype)
    weights = jnp.exp(scores - lax.stop_gradient(jnp.max(scores, axis=-1, keepdims=True)))
    sums = jnp.sum(weights, axis=-1, keepdims=True)
    weights = weights.astype(value.dtype)
    # Divided after the product, which has fewer numbers than the scores.
    context = jnp.einsum("NTS,NSK->NTK", weights, value, preferred_element_type=dtype)
    return (context / sums).astype(value.dtype)


# === Attention on a GPU ===
# cuDNN gets padding as lengths. JAX would turn a mask into a bias with a number for each pair of
# tokens, whose gradient cuDNN computes too. cuDNN refuses a bias for the keys only, B11S.


_HALF = ("bfloat16", "float16")
_REFUSALS: list[str] = []  # the last error of cuDNN's kernel
_AMPERE = 8.0  # the compute capability of the first GPUs for cuDNN's kernel


def attention(query: Any, key: Any, value: Any, bias: Any, mask: Any) -> Any:
    """Attend by cuDNN, in chunks on one CPU, or else by Keras; see `kernels.fused_attention`."""
    is_padding = mask is None or mask.shape[2] == 1
    if bias is None and is_padding and has_flash(str(query.dtype)):
        try:
            return flash(query, key, value, mask)
        except (NotImplementedError, RuntimeError) as error:
            # cuDNN is missing, or does not support this head size: `attention_kernel` says so.
            _REFUSALS[:] = [str(error)]
    has_static_shapes = all(isinstance(size, int) for x in (query, key) for size in x.shape)
    if has_static_shapes and is_single_cpu():
        return cpu_attention(query, key, value, bias, mask)
    return query_blocks.composed_attention(query, key, value, bias, mask)


def flash(
    query: Any, key: Any, value: Any, mask: Any, implementation: Literal["cudnn", "xla"] = "cudnn"
) -> Any:
    """Attend to the unmasked keys by `jax.nn.dot_product_attention`.

    The result does not depend on the order of the keys. So the unmasked keys are moved to the
    front, and their number is passed as the length of the sequence.

    Args:
        query: [batch, queries, heads, head_size].
        key: [batch, keys, heads, head_size].
        value: [batch, keys, heads, head_size].
        mask: bool [batch, 1, 1, keys]; None if there is no padding.
        implementation: argument of `jax.nn.dot_product_attention`.

    Returns:
        [batch, queries, heads, head_size]; zeros in a row that is all padding.
    """
    lengths = None
    if mask is not None:
        is_read = jnp.broadcast_to(mask[:, 0, 0], key.shape[:2])
        order = jnp.argsort(~is_read, axis=1, stable=True)
        counts = jnp.sum(is_read, axis=1, dtype=jnp.int32)
        # Masked keys are set to zero, so that their gradients are zero too.
        is_kept = (jnp.arange(key.shape[1]) < counts[:, None])[..., None, None]
        key, value = (jnp.where(is_kept, _ordered(x, order), 0) for x in (key, value))
        # A row of padding reads all keys, which are zeros now.
        lengths = jnp.where(counts == 0, key.shape[1], counts)
    return jax.nn.dot_product_attention(
        query, key, value, key_value_seq_lengths=lengths, implementation=implementation
    )


@jax.custom_vjp
def _ordered(x: Any, order: Any) -> Any:
    """Return tokens, [batch, length, heads, head_size], in another order, int32 [batch, length].

    The gradient is reordered too, where JAX would add it to zeros.
    """
    return jnp.take_along_axis(x, order[..., None, None], axis=1)


def _ordered_forward(x: Any, order: Any) -> tuple[Any, Any]:
    """Return the tokens in the other order, and the order for the gradient."""
    return _ordered(x, order), order


def _ordered_backward(order: Any, gradient: Any) -> tuple[Any, None]:
    """Return the gradient of the tokens in their first order, and None for the order."""
    return _ordered(gradient, jnp.argsort(order, axis=1)), None


_ordered.defvjp(_ordered_forward, _ordered_backward)


def has_flash(dtype: str) -> bool:
    """Return whether cuDNN has its kernel for the GPU and this dtype, and Keras may use it."""
    is_switched_off = keras.config.is_flash_attention_enabled() is False
    return dtype in _HALF and _compute_capability() >= _AMPERE and not is_switched_off


def attention_kernel(dtype: str, learns_bias: bool) -> str:  # noqa: ARG001
    """See `kernels.attention_kernel`."""
    why = "cuDNN's kernel needs a GPU of compute capability 8.0"
    if has_flash(dtype):
        if not _REFUSALS:
            return (
                "cuDNN's flash attention, padding as lengths; packed rows, local layers and "
                "relative positions use it with a bias, if cuDNN supports this size"
            )
        why = f"cuDNN's kernel refused, {_REFUSALS[-1]}"
    elif _compute_capability() >= _AMPERE:
        why = f"cuDNN's kernel needs half precision, this is {dtype}"
        if dtype in _HALF:
            why = "keras.config.disable_flash_attention() switched cuDNN's kernel off"
    how = "few" if is_single_cpu() else "all"
    return f"XLA's operations, {how} probabilities in memory at once: {why}"


def _compute_capability() -> float:
    """Return the compute capability of the first NVIDIA GPU; 0 without one."""
    try:
        return float(getattr(jax.devices()[0], "compute_capability", 0))
    except ValueError:  # AMD's have names
        return 0.0


# === Operations ===


def product(x: Any, kernel: Any) -> Any:
    """Return [..., inputs] @ [inputs, outputs], as a product of two matrices.

    For the gradient of the kernel with more axes, XLA on a CPU would transpose `x` in memory, and
    compute it again in that order.
    """
    rows = keras.ops.matmul(keras.ops.reshape(x, (-1, x.shape[-1])), kernel)
    return jnp.reshape(rows, (*x.shape[:-1], rows.shape[-1]))


_HASHES = 2**32  # number of different ones
_POSITION_STRIDE, _CALL_STRIDE = 0x9E3779B9, 0x85EBCA6B  # odd, so that no two hashes coincide


def dropped(x: Any, rate: float, seed: Any) -> Any:
    """Apply dropout, with a hash of position and seed as random bits; see `kernels.dropped`.

    XLA computes the hash within the operation that drops. JAX's own generator, Threefry, is a loop
    over memory on a CPU. The mask is not stored for the gradient: XLA computes the hash again.
    """
    threshold = jnp.uint32(min(round(rate * _HASHES), _HASHES - 1))
    first, second = (seed[number].astype(jnp.uint32) for number in (0, 1))
    positions = lax.iota(jnp.uint32, x.size).reshape(x.shape)
    draws = _mixed(positions * jnp.uint32(_POSITION_STRIDE) + first)
    # With the first number of the seed only, two layers would drop the same pattern, shifted.
    key = _mixed(first + jnp.uint32(_CALL_STRIDE))
    key ^= second * jnp.uint32(_CALL_STRIDE) + jnp.uint32(1)
    draws = _mixed(draws ^ key)
    return jnp.where(draws >= threshold, x * (1 / (1 - rate)), jnp.zeros((), x.dtype))


@jax.custom_jvp
def gelu(x: Any) -> Any:
    """Return x Phi(x), with the normal distribution function; the gradient keeps its slope only."""
    return _gelu_and_slope(x)[0]


@gelu.defjvp
def _gelu_forward(inputs: Any, tangents: Any) -> tuple[Any, Any]:
    """Return GELU and its tangent, both of the shape and dtype of `x`."""
    outputs, slope = _gelu_and_slope(*inputs)
    return outputs, tangents[0] * slope


def _gelu_and_slope(x: Any) -> tuple[Any, Any]:
    """Return GELU and its derivative, both of the shape and dtype of `x`."""
    share = 0.5 + 0.5 * lax.erf(x * math.sqrt(0.5))
    return x * share, share + x * jnp.exp(-0.5 * x * x) * (1 / math.sqrt(2 * math.pi))


def layer_norm(x: Any, gamma: Any, beta: Any, epsilon: float) -> Any:
    """Normalise in float32, with a gradient of fewer passes than XLA's.

    See `kernels.layer_norm`.
    """
    wide = (jnp.asarray(value, jnp.float32) for value in (x, gamma, beta))
    return _normalised(epsilon, *wide).astype(x.dtype)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _normalised(epsilon: float, x: Any, gamma: Any, beta: Any) -> Any:
    """Return the layer norm of float32 [..., features]; gamma and beta are [features]."""
    return _standard(epsilon, x)[0] * gamma + beta


@_normalised.defjvp
def _normalised_forward(epsilon: float, inputs: Any, tangents: Any) -> tuple[Any, Any]:
    """Return `_normalised` and its tangent, both float32 [..., features]."""
    (x, gamma, beta), (of_x, of_gamma, of_beta) = inputs, tangents
    values, scale = _standard(epsilon, x)
    # The mean of the values is 0, so one pass computes both means.
    of_x = of_x - _mean(of_x) - values * _mean(values * of_x)
    return values * gamma + beta, of_x * scale * gamma + values * of_gamma + of_beta


def _standard(epsilon: float, x: Any) -> tuple[Any, Any]:
    """Return `x` with mean 0 and variance 1, and 1 / standard deviation, [..., 1]."""
    centred = x - _mean(x)
    scale = lax.rsqrt(_mean(centred * centred) + epsilon)
    return centred * scale, scale


def _mean(x: Any) -> Any:
    """Return the mean over the features, [..., 1]."""
    return jnp.mean(x, axis=-1, keepdims=True)


@jax.custom_vjp
def tied_logits(x: Any, table: Any, bias: Any) -> Any:
    """Compute logits with a bias whose gradient is a product; see `kernels.tied_logits`.

    On a CPU XLA sums rows of tens of thousands of numbers far slower than it multiplies them with
    ones.
    """
    rows = x.reshape(-1, x.shape[-1])
    # Without the barrier every operation that reads the logits would add the bias again.
    logits = lax.optimization_barrier(rows @ table.T + bias)
    return logits.reshape(*x.shape[:-1], table.shape[0])


def _tied_logits_forward(x: Any, table: Any, bias: Any) -> tuple[Any, Any]:
    """Return the logits, [..., vocabulary], and `x` and `table` for the gradient."""
    return tied_logits(x, table, bias), (x, table)


def _tied_logits_backward(kept: Any, gradient: Any) -> tuple[Any, Any, Any]:
    """Return the gradients of `x`, `table` and `bias`, each of the argument's shape."""
    x, table = kept
    rows = gradient.reshape(-1, table.shape[0])
    of_table = rows.T @ x.reshape(-1, x.shape[-1])
    return (rows @ table).reshape(x.shape), of_table, jnp.ones(len(rows), rows.dtype) @ rows


tied_logits.defvjp(_tied_logits_forward, _tied_logits_backward)


@jax.custom_vjp
def token_losses(labels: Any, logits: Any) -> Any:
    """Compute losses whose gradient is one pass over the logits; see `kernels.token_losses`."""
    return _token_losses_forward(labels, logits)[0]


def _token_losses_forward(labels: Any, logits: Any) -> tuple[Any, Any]:
    """Return the losses, [...] in the logits' dtype, and the arrays for the gradient."""
    log_sums = jax.scipy.special.logsumexp(logits, axis=-1)
    return log_sums - _of_labels(labels, logits), (labels, logits, log_sums)


def _token_losses_backward(kept: Any, gradient: Any) -> tuple[Any, Any]:
    """Return None for the labels, and the gradient of the logits, [..., classes]."""
    labels, logits, log_sums = kept
    # A comparison, because XLA fuses it with the softmax, and does not fuse a scatter.
    is_label = (
        lax.broadcasted_iota(labels.dtype, logits.shape, logits.ndim - 1) == labels[..., None]
    )
    shares = jnp.exp(logits - log_sums[..., None])
    return None, jnp.where(is_label, shares - 1, shares) * gradient[..., None]


token_losses.defvjp(_token_losses_forward, _token_losses_backward)


def is_highest(labels: Any, logits: Any) -> Any:
    """Return whether no other logit is as high, because XLA's argmax is slow.

    See `kernels.is_highest`. A count of such logits would be slow too: XLA writes all comparisons
    before it adds them.
    """
    classes = lax.broadcasted_iota(labels.dtype, logits.shape, logits.ndim - 1)
    is_as_high = ~(logits < _of_labels(labels, logits)[..., None])  # also true of NaN
    return ~jnp.any(is_as_high & (classes != labels[..., None]), axis=-1)


def _of_labels(labels: Any, logits: Any) -> Any:
    """Return the logit of each label: int32 [...], [..., classes] -> [...]."""
    # Clipped, because for a class that does not exist JAX has NaN, which would reach the weights.
    return jnp.take_along_axis(logits, labels[..., None], axis=-1, mode="clip")[..., 0]


def _mixed(x: Any) -> Any:
    """Hash integers by lowbias32 (Wellons, 2018), a one-to-one function of 32 bits.

    A change of any input bit changes each output bit with probability one half.
    """
    x = (x ^ (x >> 16)) * jnp.uint32(0x7FEB352D)
    x = (x ^ (x >> 15)) * jnp.uint32(0x846CA68B)
    return x ^ (x >> 16)
