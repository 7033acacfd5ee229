"""JAX's kernels: dropout as random as its purpose asks, derivatives of every kind."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import keras
import numpy as np
import pytest

if keras.backend.backend() != "jax":
    pytest.skip("kernels of the jax backend", allow_module_level=True)

import jax
from jax import numpy as jnp
from keras import ops

from bert_keras.layers import jax_kernels, kernels

_COUNT = 1 << 19
_RATE = 0.1
# A layer's calls one after the other; other layers; what is next to zero.
_SEEDS = [*((7, count) for count in range(1, 6)), (8, 1), (1 << 30, 1), (0, 0), (1, 0), (0, 1)]


@pytest.fixture(scope="module")
def is_dropped() -> np.ndarray:
    ones = jnp.ones((_COUNT,))
    draw = jax.jit(lambda seed: jax_kernels.dropped(ones, _RATE, seed))
    return np.stack([np.asarray(draw(jnp.array(seed, jnp.uint32))) == 0 for seed in _SEEDS])


def _correlation(first: np.ndarray, second: np.ndarray) -> float:
    """In standard deviations of that of independent ones."""
    return float(np.corrcoef(first, second)[0, 1]) * np.sqrt(len(first))


def test_as_many_as_asked(is_dropped: np.ndarray) -> None:
    deviation = np.sqrt(_RATE * (1 - _RATE) / _COUNT)
    assert (np.abs(is_dropped.mean(axis=1) - _RATE) < 4.5 * deviation).all()


def test_rows_and_columns_are_no_pattern(is_dropped: np.ndarray) -> None:
    """How many are dropped of a row varies as with coins."""
    for axis in (1, 2):
        counts = is_dropped.reshape(len(_SEEDS), -1, 128).sum(axis=axis)
        size = is_dropped.reshape(len(_SEEDS), -1, 128).shape[axis]
        expected = size * _RATE * (1 - _RATE)
        spread = expected * np.sqrt(2 / counts.shape[1])
        assert (np.abs(counts.var(axis=1) - expected) < 5 * spread).all()


def test_places_are_independent(is_dropped: np.ndarray) -> None:
    for mask in is_dropped:
        for distance in (1, 2, 3, 4, 8, 16, 64, 128, 256, 1024, 65_536):
            assert abs(_correlation(mask[:-distance], mask[distance:])) < 5


def test_calls_are_independent(is_dropped: np.ndarray) -> None:
    for first, second in combinations(is_dropped, 2):
        assert abs(_correlation(first, second)) < 5
        for distance in (1, 128):
            assert abs(_correlation(first[:-distance], second[distance:])) < 5


def test_layers_do_not_drop_the_same_moved() -> None:
    """Seeds whose hashes meet, some places further on: as often as layers of a large model have."""
    distance, count = 5, 3
    moved = (7 + distance * jax_kernels._STRIDE) % 2**32
    masks = [
        np.asarray(jax_kernels.dropped(jnp.ones(_COUNT), _RATE, jnp.array(seed, jnp.uint32))) == 0
        for seed in ((7, count), (moved, count))
    ]
    assert abs(_correlation(masks[0][distance:], masks[1][:-distance])) < 5


def test_compiled_or_not_it_drops_the_same() -> None:
    x, seed = jnp.ones((3, 5, 7)), jnp.array([3, 4], jnp.uint32)
    found = jax_kernels.dropped(x, 0.5, seed)
    compiled = jax.jit(jax_kernels.dropped, static_argnums=1)(x, 0.5, seed)
    np.testing.assert_array_equal(found, compiled)
    assert 0 < (found == 0).sum() < found.size


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_halves_stay_halves(dtype: str) -> None:
    x, seed = jnp.ones((1000,), dtype), jnp.array([3, 4], jnp.uint32)
    found = jax_kernels.dropped(x, 0.1, seed)
    assert found.dtype == dtype
    np.testing.assert_allclose(np.unique(found.astype("float32")), [0, 1 / 0.9], rtol=1e-2)


def test_where_a_logit_is_no_number_no_label_is_right() -> None:
    logits = jnp.array([[0.0, np.nan, 1.0]] * 3)
    assert not jax_kernels.is_highest(jnp.arange(3, dtype="int32"), logits).any()


@pytest.mark.parametrize("kernel", ["gelu", "layer_norm"])
def test_forwards_and_twice(kernel: str) -> None:
    """Tangents are those of Keras's operations, and so are gradients of gradients."""
    draw = np.random.default_rng(3)
    x, direction, weights = draw.normal(size=(3, 5, 16)).astype("float32")
    gamma, beta = draw.normal(size=(2, 16)).astype("float32")
    own, composed = {
        "gelu": (jax_kernels.gelu, kernels.gelu),
        "layer_norm": (
            lambda x: jax_kernels.layer_norm(x, gamma, beta, 1e-5),
            lambda x: ops.layer_normalization(x, gamma, beta, epsilon=1e-5),
        ),
    }[kernel]

    def found(function: Any) -> tuple[Any, ...]:
        def gradient(x: Any) -> Any:
            return jax.grad(lambda x: jnp.sum(jnp.sin(function(x)) * weights))(x)

        return (
            *jax.jvp(function, (x,), (direction,)),
            jax.vmap(function)(x),
            jax.jvp(gradient, (x,), (direction,))[1],
            jax.grad(lambda x: jnp.sum(gradient(x) ** 2))(x),
        )

    for mine, theirs in zip(found(own), found(composed), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-4)
