"""Attention of few tokens at a time is attention: outputs and gradients, however it is divided."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

if keras.backend.backend() != "jax":
    pytest.skip("attention of the jax backend", allow_module_level=True)

import jax
from jax import numpy as jnp
from keras import ops

from bert_keras.layers import jax_attention, jax_cpu_attention

BATCH, QUERIES, KEYS, HEADS, SIZE = 5, 7, 9, 2, 8
DRAW = np.random.default_rng(3)
QUERY = jnp.asarray(DRAW.normal(size=(BATCH, QUERIES, HEADS, SIZE)), jnp.float32)
KEY, VALUE = (
    jnp.asarray(DRAW.normal(size=(BATCH, KEYS, HEADS, SIZE)), jnp.float32) for _ in range(2)
)
PADDING = jnp.asarray(np.arange(KEYS) < np.array([[9], [1], [4], [8], [9]]))[:, None, None]
PAIRS = jnp.asarray(DRAW.random((BATCH, 1, QUERIES, KEYS)) < 0.6).at[..., 0].set(True)
BIAS = jnp.asarray(DRAW.normal(size=(BATCH, HEADS, QUERIES, KEYS)), jnp.float32)
GIVEN: dict[str, dict[str, Any]] = {
    "nothing": {"bias": None, "mask": None},
    "padding": {"bias": None, "mask": PADDING},
    "pairs": {"bias": None, "mask": PAIRS},
    "one mask for all": {"bias": None, "mask": PAIRS[:1]},
    "bias": {"bias": BIAS, "mask": None},
}
# Scores that are in work at once: of all rows; of two, which leaves a row; of one; of three of the
# seven queries of a row.
DIVIDED = {
    "all": (10**6, 8),
    "two rows": (2 * QUERIES * KEYS * HEADS, 8),
    "one row": (QUERIES * KEYS * HEADS, 8),
    "queries": (3 * KEYS * HEADS, 1),
}


def _by_keras(query: Any, key: Any, value: Any, bias: Any, mask: Any) -> Any:
    return ops.dot_product_attention(query, key, value, bias=bias, mask=mask)


@pytest.fixture(params=DIVIDED)
def divided(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    scores, long = DIVIDED[request.param]
    monkeypatch.setattr(jax_cpu_attention, "_cores", lambda: 1)
    monkeypatch.setattr(jax_cpu_attention, "_SCORES", scores)
    monkeypatch.setattr(jax_cpu_attention, "_LONG", long)
    return request.param


@pytest.mark.parametrize("given", GIVEN)
def test_outputs_and_gradients(given: str, divided: str) -> None:
    weights = jnp.cos(jnp.arange(QUERY.size, dtype=jnp.float32)).reshape(QUERY.shape)

    def loss(function: Any, query: Any, key: Any, value: Any, bias: Any) -> Any:
        found = function(query, key, value, bias, GIVEN[given]["mask"])
        return jnp.sum(found * weights), found

    bias = GIVEN[given]["bias"]
    wanted = (1, 2, 3) if bias is None else (1, 2, 3, 4)
    ((_, found), gradients), ((_, expected), expected_gradients) = (
        jax.value_and_grad(loss, wanted, has_aux=True)(function, QUERY, KEY, VALUE, bias)
        for function in (jax_cpu_attention.attention, _by_keras)
    )
    np.testing.assert_allclose(found, expected, atol=1e-6)
    for one, other in zip(gradients, expected_gradients, strict=True):
        np.testing.assert_allclose(one, other, atol=2e-6)
    # Divided as it should be: a loop for the rows, one within it for the queries.
    anew = jax.make_jaxpr(lambda x, y, z: jax_cpu_attention.attention(x, y, z, None, None))
    assert str(anew(QUERY, KEY, VALUE)).count("scan[") == {"all": 0, "queries": 2}.get(divided, 1)


def test_who_may_look_nowhere_averages(divided: str) -> None:
    mask = PADDING.at[1].set(False)
    found = jax_cpu_attention.attention(QUERY, KEY, VALUE, None, mask)
    mean = jnp.broadcast_to(VALUE[1].mean(axis=0), found[1].shape)
    np.testing.assert_allclose(found[1], mean, atol=1e-6)


@pytest.mark.parametrize("empty", ["rows", "queries", "keys"])
def test_nothing_to_attend_is_no_error(empty: str, divided: str) -> None:
    query = {"rows": QUERY[:0], "queries": QUERY[:, :0]}.get(empty, QUERY)
    key, value = ({"rows": x[:0], "keys": x[:, :0]}.get(empty, x) for x in (KEY, VALUE))
    found = jax_cpu_attention.attention(query, key, value, None, None)
    assert found.shape == query.shape
    assert not found.any()


def test_half_precision(divided: str) -> None:
    query, key, value = (each.astype(jnp.bfloat16) for each in (QUERY, KEY, VALUE))
    found = jax_cpu_attention.attention(query, key, value, None, PADDING)
    assert found.dtype == jnp.bfloat16
    expected = _by_keras(QUERY, KEY, VALUE, None, PADDING)
    np.testing.assert_allclose(found.astype(jnp.float32), expected, atol=3e-2)


def test_no_number_is_the_square_of_a_long_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax_cpu_attention, "_cores", lambda: 1)
    monkeypatch.setattr(jax_cpu_attention, "_SCORES", 1 << 10)
    long = jnp.ones((2, 512, 2, 4))
    gradient = jax.grad(lambda x: jax_attention.attention(x, x, x, None, None).sum())
    sizes = _sizes(jax.make_jaxpr(gradient)(long).jaxpr)
    assert max(sizes) <= 8 * long.size < 2 * 512 * 512


def _sizes(program: Any) -> list[int]:
    """Of all that a program computes, and the programs within it."""
    found = []
    for step in program.eqns:
        found += [int(np.prod(each.aval.shape)) for each in step.outvars]
        for value in step.params.values():
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                found += _sizes(inner)
    return found


def test_sizes_that_are_not_known_are_left_to_keras() -> None:
    length = jax.export.symbolic_shape("length")[0]
    shape = jax.ShapeDtypeStruct((2, length, HEADS, SIZE), jnp.float32)
    exported = jax.export.export(jax.jit(lambda x: jax_attention.attention(x, x, x, None, None)))(
        shape
    )
    given = KEY[:2]
    expected = _by_keras(given, given, given, None, None)
    np.testing.assert_allclose(exported.call(given), expected, atol=1e-6)
