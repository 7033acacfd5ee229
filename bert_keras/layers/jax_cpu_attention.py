"""Attention by XLA on a processor, for which there is no kernel: of few tokens at a time.

XLA computes the scores of all rows, then their softmax, then the products with the values, each a
walk through memory. Here the scores that are in work at once fit the cores' caches. Of long rows
they are computed again for the gradients (Chen et al., 2016), as flash attention does, so that
memory grows with the length and not with its square.
"""

from __future__ import annotations

import os
from typing import Any

import jax
from jax import lax
from jax import numpy as jnp

from bert_keras.layers.masked import MASKED

_SCORES = 1 << 18  # for each core: a mebibyte of float32, about what its own cache holds
_LONG = 8  # times as many scores in one row: its queries come in parts


def attention(query: Any, key: Any, value: Any, bias: Any, mask: Any) -> Any:
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
    """How many XLA computes on: those that this process may use."""
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
