"""What JAX computes quicker than Keras has it compute; see `kernels`."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import jax
from jax import lax
from jax import numpy as jnp

from bert_keras.layers.jax_attention import attention as attention
from bert_keras.layers.jax_attention import attention_kernel as attention_kernel

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
