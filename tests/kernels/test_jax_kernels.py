"""Attention on JAX in chunks of rows and queries equals full attention, with its gradients."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import jax
import numpy as np
import pytest
from jax import numpy as jnp
from keras import ops

from bert_keras import kernels
from bert_keras.kernels import jax_kernels

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
# Number of scores per chunk: all rows, two rows with one row left over, one row, and three of the
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
    monkeypatch.setattr(jax_kernels, "_cores", lambda: 1)
    monkeypatch.setattr(jax_kernels, "_SCORES", scores)
    monkeypatch.setattr(jax_kernels, "_LONG", long)
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
        for function in (jax_kernels.cpu_attention, _by_keras)
    )
    np.testing.assert_allclose(found, expected, atol=1e-6)
    for one, other in zip(gradients, expected_gradients, strict=True):
        np.testing.assert_allclose(one, other, atol=2e-6)
    # The chunks are loops in the traced program: one over the rows, and one inside it over the
    # queries.
    anew = jax.make_jaxpr(lambda x, y, z: jax_kernels.cpu_attention(x, y, z, None, None))
    loops = str(anew(QUERY, KEY, VALUE)).count("scan[")
    # JAX 0.6 prints the inner loop a second time, for the rows that are left over.
    assert loops in {"all": [0], "queries": [2, 3]}.get(divided, [1])


def test_who_may_look_nowhere_averages(divided: str) -> None:
    """If all keys are masked, the result is the mean of the values, as in Keras."""
    mask = PADDING.at[1].set(False)
    found = jax_kernels.cpu_attention(QUERY, KEY, VALUE, None, mask)
    mean = jnp.broadcast_to(VALUE[1].mean(axis=0), found[1].shape)
    np.testing.assert_allclose(found[1], mean, atol=1e-6)


@pytest.mark.parametrize("empty", ["rows", "queries", "keys"])
def test_nothing_to_attend_is_no_error(empty: str, divided: str) -> None:
    """Empty rows, queries or keys give zeros of the right shape."""
    query = {"rows": QUERY[:0], "queries": QUERY[:, :0]}.get(empty, QUERY)
    key, value = ({"rows": x[:0], "keys": x[:, :0]}.get(empty, x) for x in (KEY, VALUE))
    found = jax_kernels.cpu_attention(query, key, value, None, None)
    assert found.shape == query.shape
    assert not found.any()


def test_half_precision(divided: str) -> None:
    query, key, value = (each.astype(jnp.bfloat16) for each in (QUERY, KEY, VALUE))
    found = jax_kernels.cpu_attention(query, key, value, None, PADDING)
    assert found.dtype == jnp.bfloat16
    expected = _by_keras(QUERY, KEY, VALUE, None, PADDING)
    np.testing.assert_allclose(found.astype(jnp.float32), expected, atol=3e-2)


def test_no_number_is_the_square_of_a_long_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax_kernels, "_cores", lambda: 1)
    monkeypatch.setattr(jax_kernels, "_SCORES", 1 << 10)
    long = jnp.ones((2, 512, 2, 4))
    gradient = jax.grad(lambda x: jax_kernels.attention(x, x, x, None, None).sum())
    sizes = _sizes(jax.make_jaxpr(gradient)(long).jaxpr)
    assert max(sizes) <= 8 * long.size < 2 * 512 * 512


def _sizes(program: Any) -> list[int]:
    """Return the sizes of all arrays that a program and its inner programs compute."""
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
    exported = jax.export.export(jax.jit(lambda x: jax_kernels.attention(x, x, x, None, None)))(
        shape
    )
    given = KEY[:2]
    expected = _by_keras(given, given, given, None, None)
    np.testing.assert_allclose(exported.call(given), expected, atol=1e-6)


# === JAX's kernels: statistics of dropout, and derivatives in every mode ===


_COUNT = 1 << 19
_RATE = 0.1
# Seeds of successive calls of one layer, of other layers, and near zero.
_SEEDS = [*((7, count) for count in range(1, 6)), (8, 1), (1 << 30, 1), (0, 0), (1, 0), (0, 1)]


@pytest.fixture(scope="module")
def is_dropped() -> np.ndarray:
    ones = jnp.ones((_COUNT,))
    draw = jax.jit(lambda seed: jax_kernels.dropped(ones, _RATE, seed))
    return np.stack([np.asarray(draw(jnp.array(seed, jnp.uint32))) == 0 for seed in _SEEDS])


def _correlation(first: np.ndarray, second: np.ndarray) -> float:
    """Return the correlation in units of the standard deviation for independent values."""
    return float(np.corrcoef(first, second)[0, 1]) * np.sqrt(len(first))


def test_as_many_as_asked(is_dropped: np.ndarray) -> None:
    deviation = np.sqrt(_RATE * (1 - _RATE) / _COUNT)
    assert (np.abs(is_dropped.mean(axis=1) - _RATE) < 4.5 * deviation).all()


def test_rows_and_columns_are_no_pattern(is_dropped: np.ndarray) -> None:
    """The number of dropped values per row and column varies as in a binomial distribution."""
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
    """Two layers do not drop the same pattern at an offset, even if their hashed seeds overlap."""
    distance, count = 5, 3
    moved = (7 + distance * jax_kernels._POSITION_STRIDE) % 2**32
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
    """Dropout keeps a 16-bit dtype."""
    x, seed = jnp.ones((1000,), dtype), jnp.array([3, 4], jnp.uint32)
    found = jax_kernels.dropped(x, 0.1, seed)
    assert found.dtype == dtype
    np.testing.assert_allclose(np.unique(found.astype("float32")), [0, 1 / 0.9], rtol=1e-2)


def test_where_a_logit_is_no_number_no_label_is_right() -> None:
    """If a logit is NaN, no label counts as correct."""
    logits = jnp.array([[0.0, np.nan, 1.0]] * 3)
    assert not jax_kernels.is_highest(jnp.arange(3, dtype="int32"), logits).any()


def test_all_products_of_a_dense_layer_are_of_matrices() -> None:
    """With more axes, XLA would transpose the input for the gradient of the weights."""
    x, weights, bias = jnp.ones((2, 3, 5)), jnp.ones((5, 7)), jnp.ones(7)

    def gradients(x: Any, weights: Any) -> Any:
        outputs, of = jax.vjp(
            lambda x, weights: kernels.affine(x, weights, bias, ops.relu), x, weights
        )
        return of(outputs)

    program = jax.make_jaxpr(gradients)(x, weights)
    found = [
        len(each.aval.shape)
        for equation in program.eqns
        if equation.primitive.name == "dot_general"
        for each in equation.invars
    ]
    assert found == [2] * 6


@pytest.mark.parametrize("kernel", ["gelu", "layer_norm"])
def test_forwards_and_twice(kernel: str) -> None:
    """Forward derivatives and second derivatives equal those of Keras's operations."""
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
