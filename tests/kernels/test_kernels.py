"""Each backend's own kernels have the outputs and gradients of Keras's operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from bert_keras import kernels
from tests.contracts import numpy
from tests.gradients import gradients

DRAW = np.random.default_rng(5)
X = DRAW.normal(size=(3, 5, 16)).astype("float32")
SEED = np.array([7, 0], "int64")


def _same(
    ours: Callable[..., Any], keras_own: Callable[..., Any], *x: np.ndarray, atol: float = 1e-5
) -> None:
    """Assert that outputs and gradients are equal.

    The gradients are of a sum with random weights.
    """
    found, expected = (
        ours(*map(ops.convert_to_tensor, x)),
        keras_own(*map(ops.convert_to_tensor, x)),
    )
    assert found.shape == expected.shape
    np.testing.assert_allclose(numpy(found), numpy(expected), atol=atol)
    weights = DRAW.normal(size=expected.shape).astype("float32")
    for mine, theirs in zip(
        gradients(ours, x, weights), gradients(keras_own, x, weights), strict=True
    ):
        np.testing.assert_allclose(mine, theirs, atol=atol)


@pytest.mark.parametrize("activation", [kernels.gelu, keras.activations.linear, ops.tanh])
def test_affine(activation: Callable[[Any], Any]) -> None:
    kernel, bias = DRAW.normal(size=(16, 7)).astype("float32"), np.arange(7, dtype="float32")
    _same(
        lambda x, kernel, bias: kernels.affine(x, kernel, bias, activation),
        lambda x, kernel, bias: activation(ops.matmul(x, kernel) + bias),
        *(X, kernel, bias),
    )


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("epsilon", [1e-12, 1e-5])
def test_layer_norm(training: bool, epsilon: float) -> None:
    gamma, beta = DRAW.normal(size=(2, 16)).astype("float32")
    _same(
        lambda x, gamma, beta: kernels.layer_norm(x, gamma, beta, epsilon, training),
        lambda x, gamma, beta: ops.layer_normalization(x, gamma, beta, epsilon=epsilon),
        *(10.0 + X, gamma, beta),
    )


def test_layer_norm_without_scale_or_shift() -> None:
    gamma, beta = DRAW.normal(size=(2, 16)).astype("float32")
    for weights in ((gamma, None), (None, beta), (None, None)):
        found = kernels.layer_norm(ops.convert_to_tensor(X), *weights, 1e-5, training=True)
        expected = ops.layer_normalization(ops.convert_to_tensor(X), *weights, epsilon=1e-5)
        np.testing.assert_allclose(numpy(found), numpy(expected), atol=1e-6)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_layer_norm_of_halves_is_computed_in_float32(dtype: str) -> None:
    gamma, beta = np.ones(16, "float32"), np.zeros(16, "float32")
    x = ops.cast(1000.0 + X, dtype)
    found = kernels.layer_norm(x, gamma, beta, 1e-5, training=True)
    expected = ops.layer_normalization(x, gamma, beta, epsilon=1e-5)
    np.testing.assert_allclose(
        *(numpy(ops.cast(each, "float32")) for each in (found, expected)), atol=0.02
    )


@pytest.mark.skipif(keras.backend.backend() == "jax", reason="this backend has no doubles")
def test_layer_norm_of_doubles_stays_one() -> None:
    """Layer normalisation of float64 returns float64."""
    x = ops.convert_to_tensor(X, dtype="float64")
    found = kernels.layer_norm(x, np.ones(16), np.zeros(16), 1e-12, training=True)
    assert keras.backend.standardize_dtype(found.dtype) == "float64"


def test_gelu_to_train() -> None:
    def composed(x):
        return 0.5 * x * (1.0 + ops.erf(x / 2**0.5))

    far = np.array([-30.0, -5.0, 0.0, 5.0, 30.0], "float32")
    for function in (kernels.gelu, kernels.gelu_to_train):
        for x in (4.0 * X, far):
            _same(function, composed, x)


def test_tied_logits() -> None:
    table, bias = DRAW.normal(size=(9, 16)).astype("float32"), np.arange(9, dtype="float32")
    _same(
        kernels.tied_logits,
        lambda x, table, bias: ops.matmul(x, ops.transpose(table)) + bias,
        *(X, table, bias),
    )


def test_token_losses() -> None:
    labels = DRAW.integers(0, 16, (3, 5)).astype("int32")
    _same(
        lambda logits: kernels.token_losses(ops.convert_to_tensor(labels), logits),
        lambda logits: keras.losses.sparse_categorical_crossentropy(
            labels, logits, from_logits=True
        ),
        5.0 * X,
    )


def test_token_losses_of_certain_and_of_hopeless_logits() -> None:
    logits = np.array([[200.0, 0.0, -200.0]] * 3, "float32")
    found = kernels.token_losses(ops.arange(3, dtype="int32"), ops.convert_to_tensor(logits))
    np.testing.assert_allclose(numpy(found), [0.0, 200.0, 400.0], atol=1e-5)


def test_is_highest() -> None:
    logits = np.array([[0.0, 2.0, 1.9], [-1.0, -3.0, -0.5], [0.0, -0.0, -1.0]], "float32")
    for labels, expected in (([1, 2, 2], [1, 1, 0]), ([0, 0, 1], [0, 0, 0])):
        given = ops.convert_to_tensor(labels, dtype="int32"), ops.convert_to_tensor(logits)
        np.testing.assert_array_equal(numpy(kernels.is_highest(*given)), expected)


@pytest.mark.parametrize("shape", [(7,), (3, 5, 16), (1, 1)])
def test_dropped(shape: Sequence[int]) -> None:
    x = ops.ones(shape)
    first, again = (numpy(kernels.dropped(x, 0.5, _seed(SEED))) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert set(np.unique(first)) <= {0.0, 2.0}


def test_dropped_has_the_rate_and_its_gradient_drops_the_same() -> None:
    x = np.ones((400, 100), "float32")
    dropped = numpy(kernels.dropped(ops.convert_to_tensor(x), 0.1, _seed(SEED)))
    assert abs((dropped == 0).mean() - 0.1) < 0.01
    assert abs(dropped.mean() - 1.0) < 0.01
    (gradient,) = gradients(lambda x: kernels.dropped(x, 0.1, _seed(SEED)), (x,), np.ones_like(x))
    np.testing.assert_array_equal(gradient, dropped)
    other = numpy(kernels.dropped(ops.convert_to_tensor(x), 0.1, _seed(SEED + 1)))
    assert 0.1 < ((other == 0) != (dropped == 0)).mean() < 0.25


def test_dropped_neighbours_are_independent() -> None:
    """Dropout of neighbouring values is independent, although they share one draw of bits."""
    kept = numpy(kernels.dropped(ops.ones((200_000,)), 0.5, _seed(SEED))) > 0
    for distance in (1, 2, 3, 4):
        together = (kept[:-distance] == kept[distance:]).mean()
        assert abs(together - 0.5) < 0.01


@pytest.mark.parametrize("masked", [False, True])
def test_fused_attention(masked: bool) -> None:
    query, key, value = DRAW.normal(size=(3, 2, 6, 2, 8)).astype("float32")
    mask = np.arange(6) < np.array([6, 3])[:, None] if masked else np.ones((2, 6), bool)
    mask_B11S = ops.convert_to_tensor(mask[:, None, None])

    def composed(query, key, value):
        scores = ops.einsum("BTNK,BSNK->BNTS", query, key) / 8**0.5
        scores = ops.where(mask_B11S, scores, -1e9)
        return ops.einsum("BNTS,BSNK->BTNK", ops.softmax(scores), value)

    _same(
        lambda *x: kernels.fused_attention(*x, mask=mask_B11S if masked else None),
        composed,
        *(query, key, value),
    )


def test_fused_attention_that_may_look_nowhere_is_finite() -> None:
    x = ops.convert_to_tensor(X[:1, :, None])
    mask = ops.zeros((1, 1, 1, 5), dtype="bool")
    assert np.isfinite(numpy(kernels.fused_attention(x, x, x, mask=mask))).all()


def test_the_kernel_is_told() -> None:
    word = {"tensorflow": "TensorFlow", "torch": "scaled_dot_product_attention", "jax": "XLA"}
    assert word[keras.backend.backend()] in kernels.attention_kernel("float32")


def test_of_another_backend_it_is_told_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """`attention_kernel` also describes a backend without own kernels."""
    monkeypatch.setattr(kernels, "BACKEND", "openvino")
    assert "openvino's own operations" in kernels.attention_kernel("float32")


def test_a_backend_without_kernels_has_the_operations_of_keras(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, ids = ops.convert_to_tensor(X), ops.convert_to_tensor([[1, 0]], dtype="int32")
    table, bias = ops.convert_to_tensor(X[0]), ops.zeros(5)
    calls: list[Callable[[], Any]] = [
        lambda: kernels.affine(x, ops.transpose(table), bias, kernels.gelu),
        lambda: kernels.rows(table, ids),
        lambda: kernels.gelu_to_train(x),
        lambda: kernels.layer_norm(x, ops.ones(16), ops.zeros(16), 1e-5, training=True),
        lambda: kernels.tied_logits(x, table, bias),
        lambda: kernels.token_losses(ids, ops.convert_to_tensor(X[:1, :2])),
        lambda: kernels.is_highest(ids, ops.convert_to_tensor(X[:1, :2])),
        lambda: kernels.merge_heads(kernels.split_heads(x, 2, 8)),
        lambda: kernels.over_heads(ids),
        lambda: kernels.fused_attention(*[kernels.split_heads(x, 2, 8)] * 3),
        lambda: kernels.recomputed(ops.tanh)(x),
    ]
    expected = [numpy(call()) for call in calls]
    monkeypatch.setattr(kernels, "BACKEND", "openvino")
    for call, values in zip(calls, expected, strict=True):
        np.testing.assert_allclose(numpy(call()), values, atol=1e-5)
    assert kernels.is_ready_tensor(x, "float32")
    with pytest.raises(NotImplementedError, match="openvino"):
        kernels.dropped(x, 0.5, _seed(SEED))


def test_a_rate_next_to_one_drops_nearly_all() -> None:
    x = ops.ones((4096,))
    found = numpy(kernels.dropped(x, 1 - 1e-12, _seed(np.array([1, 2]))))
    assert np.isfinite(found).all()
    assert (found == 0).mean() > 0.99


def _seed(values: np.ndarray) -> Any:
    return ops.convert_to_tensor(values, dtype=keras.random.SeedGenerator(1).state.dtype)
