"""Results that are computed once stay so, and those computed again need no memory in between."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from jax import numpy as jnp

from bert_keras import kernels
from bert_keras.kernels import jax_kernels

DRAW = np.random.default_rng(3)
X, Y = DRAW.normal(size=(2, 3, 4, 8)).astype("float32")
KERNEL = DRAW.normal(size=(8, 5)).astype("float32")


def _plain(x: Any, y: Any) -> Any:
    """Return the product of a gated activation with a kernel."""
    return jnp.tanh(x) * y @ KERNEL


def _recomputed(x: Any, y: Any) -> Any:
    """Return the same, all of it computed again."""
    return kernels.recomputed(_plain)(x, y)


def _partly_recomputed(x: Any, y: Any) -> Any:
    """Return the same, without the product."""
    return kernels.after_recomputed(lambda x, y: jnp.tanh(x) * y, lambda z: z @ KERNEL, x, y)


def _residual_sum(factors: Any, x: Any) -> Any:
    """Return a sum of numbers whose parts read the sum of all parts before them."""
    for factor in factors:
        x = kernels.computed_once(x + jnp.tanh(x - jnp.mean(x, axis=-1, keepdims=True)) * factor)
    return jnp.sum(x * x)


def test_sums_of_many_parts_are_computed_once() -> None:
    """The memory that the gradient reads grows with the parts, and not with their square."""
    x = jnp.asarray(DRAW.normal(size=(64, 32)), jnp.float32)
    bytes_read = []
    for count in (8, 24):
        step = jax.jit(jax.grad(_residual_sum)).lower(jnp.ones(count), x).compile()
        costs: Any = step.cost_analysis()
        bytes_read.append(costs["bytes accessed"])
    assert bytes_read[1] < 4 * bytes_read[0], bytes_read


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_what_is_computed_once_keeps_its_value_and_gradient(dtype: str) -> None:
    x = jnp.asarray([[0.1, -3.0, 1e-6], [jnp.inf, jnp.nan, 7.5]], dtype)
    outputs, gradient = jax.jvp(kernels.computed_once, (x,), (x,))
    assert outputs.dtype == dtype
    for found in (outputs, gradient):
        np.testing.assert_array_equal(found.astype("float32"), x.astype("float32"))
    assert kernels.computed_once(jnp.zeros((0, 3))).shape == (0, 3)


@pytest.mark.parametrize("function", [_recomputed, _partly_recomputed])
def test_derivatives_of_derivatives_and_of_each_example(function: Callable[..., Any]) -> None:
    def gradient(function: Callable[..., Any], x: Any) -> Any:
        """Return the gradient of a loss that is no linear function of the outputs."""
        return jax.grad(lambda x: jnp.sum(jnp.sin(function(x, Y[0]))))(x)

    expected = jax.vmap(lambda x: gradient(_plain, x))(X)
    np.testing.assert_allclose(jax.vmap(lambda x: gradient(function, x))(X), expected, atol=1e-5)
    found, expected = (
        jax.grad(lambda x, each=each: jnp.sum(gradient(each, x) ** 2))(X[0])
        for each in (function, _plain)
    )
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_integers_and_rows_that_are_not_numbers() -> None:
    """An argument of integers has no gradient, and NaN in one row changes no other row."""
    rows, x = jnp.asarray([0, 2]), jnp.asarray(X[0]).at[0, 0].set(jnp.nan)
    function = kernels.recomputed(lambda x, rows: jnp.tanh(x)[rows])
    found = jax.grad(lambda x: jnp.sum(function(x, rows) ** 2))(x)
    expected = jax.grad(lambda x: jnp.sum(jnp.tanh(x)[rows] ** 2))(x)
    assert np.isnan(found).sum() == 1
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("part", ["recomputed", "attention"])
def test_many_layers_need_the_memory_of_one(part: str) -> None:
    """XLA neither keeps nor prepares what another layer computes in between."""
    x = jnp.ones((64, 128, 1, 8))
    wide = jnp.ones((8, 256))

    def layer(x: Any) -> Any:
        """Return a sum of `x` and of what a wide array, or many scores, give."""
        if part == "attention":
            return x + jax_kernels.cpu_attention(x, x, x, None, None)
        return x + kernels.recomputed(lambda x: jnp.tanh(x @ wide) @ wide.T)(x)

    def loss(x: Any, layers: int) -> Any:
        """Return a number that has gone through some layers."""
        for _ in range(layers):
            x = layer(x)
        return jnp.sum(x * x)

    few, many = (
        jax.jit(jax.grad(loss), static_argnums=1).lower(x, layers).compile() for layers in (2, 10)
    )
    # Each layer keeps its input, and what attention returns.
    analyses: list[Any] = [each.memory_analysis() for each in (few, many)]
    sizes = [each.temp_size_in_bytes for each in analyses]
    assert sizes[1] - sizes[0] < 8 * 3 * x.nbytes


def test_no_cache_of_jax_keeps_the_model() -> None:
    """A model that a recomputed function reads is freed."""

    class Scale:
        """Stand for a model."""

        value = 2.0

    def gradient_of_a_model() -> weakref.ref[Scale]:
        """Return a weak reference to the model, after a gradient."""
        model = Scale()
        step = jax.grad(lambda x: jnp.sum(kernels.recomputed(lambda y: y * model.value)(x)))
        np.testing.assert_array_equal(jax.jit(step)(X), 2.0)
        return weakref.ref(model)

    model = gradient_of_a_model()
    gc.collect()
    assert model() is None
