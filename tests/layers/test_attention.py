"""Self-attention: shapes, the formula, padding and dropout."""

from __future__ import annotations

import functools

import keras
import numpy as np
import pytest

from bert_keras.layers import AttentionProbabilities, SelfAttention
from tests import contracts
from tests.contracts import numpy

_make = functools.partial(SelfAttention, num_heads=2, hidden_size=8, name="attention")


def _arguments(length: int) -> tuple[np.ndarray, ...]:
    x = np.random.default_rng(0).normal(size=(3, length, 8)).astype("float32")
    padding_mask = np.arange(length) < np.array([length, length - 2, 1])[:, None]
    return x, padding_mask.astype("int32")


@pytest.fixture
def attention() -> SelfAttention:
    layer = _make()
    layer.build((None, None, 8))
    return contracts.as_trained(layer)


def test_contract(tmp_path):
    contracts.check_layer(_make, _arguments, num_weights=8, directory=tmp_path)


def test_view_contract():
    contracts.check_layer(
        lambda dtype=None: AttentionProbabilities(_make(dtype=dtype)), _arguments, num_weights=8
    )


def test_probabilities_weigh_the_values(attention):
    """The fused kernel equals the formula softmax(QK / sqrt(K)) V with concatenated heads."""
    x, padding_mask = _arguments(7)
    probabilities = numpy(AttentionProbabilities(attention)(x, padding_mask))
    values = numpy(attention.value(x)).reshape(3, 7, 2, 4)
    context = np.einsum("BNTS,BSNK->BTNK", probabilities, values).reshape(3, 7, 8)
    expected = numpy(attention.output_projection(context))
    contracts.assert_close(numpy(attention(x, padding_mask)), expected, 1e-5)


def test_probabilities_sum_to_one_over_real_tokens(attention):
    x, padding_mask = _arguments(7)
    probabilities = numpy(attention.probabilities(x, padding_mask))
    np.testing.assert_allclose(probabilities.sum(-1), 1.0, atol=1e-6)
    assert (probabilities[1, :, :, 5:] == 0).all()
    assert (probabilities[1, :, :, :5] > 0).all()
    np.testing.assert_allclose(probabilities[2, :, :, 0], 1.0, atol=1e-6)


def test_every_token_may_have_a_mask_of_its_own(attention):
    """A mask per query lets two halves of a row attend to themselves, as two separate rows do."""
    x, _ = _arguments(7)
    half = np.arange(7) < 3
    mask = np.tile(half[:, None] == half, (3, 1, 1))
    for given in (mask, mask.astype("int32")):
        found = numpy(attention(x, given))
        probabilities = numpy(attention.probabilities(x, given))
        for part in (slice(0, 3), slice(3, 7)):
            contracts.assert_close(found[:, part], numpy(attention(x[:, part])), 1e-5)
            expected = numpy(attention.probabilities(x[:, part]))
            contracts.assert_close(probabilities[:, :, part, part], expected, 1e-6)


def test_no_mask_is_a_mask_of_ones(attention):
    x, _ = _arguments(7)
    ones = np.ones((3, 7), "int32")
    contracts.assert_close(numpy(attention(x)), numpy(attention(x, ones)), 1e-6)


def test_training_without_dropout_is_inference(attention):
    x, padding_mask = _arguments(7)
    trained = numpy(attention(x, padding_mask, training=True))
    contracts.assert_close(trained, numpy(attention(x, padding_mask)), 1e-6)


def test_dropout_drops_probabilities_in_training_only():
    keras.utils.set_random_seed(0)
    layer = _make(dropout=0.5)
    layer.build((None, None, 8))
    contracts.as_trained(layer)
    x, padding_mask = _arguments(7)
    inferred = numpy(layer(x, padding_mask))
    contracts.assert_close(numpy(layer(x, padding_mask)), inferred)
    assert np.abs(numpy(layer(x, padding_mask, training=True)) - inferred).max() > 1e-3
    mean = np.mean([numpy(layer(x, padding_mask, training=True)) for _ in range(100)], axis=0)
    np.testing.assert_allclose(mean, inferred, atol=0.5)  # dropout does not change the mean


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("policy", contracts.POLICIES)
def test_a_row_of_padding_gives_finite_numbers(policy, training):
    layer = _make(dropout=0.1, dtype=policy)
    x, _ = _arguments(7)
    outputs = numpy(layer(x, np.zeros((3, 7), "int32"), training=training))
    assert np.isfinite(outputs.astype("float32")).all()


def test_weights_are_dense_layers_in_order(attention):
    names = ("query", "key", "value", "output")
    expected = [f"{name}/{leaf}" for name in names for leaf in ("kernel", "bias")]
    assert [weight.path.removeprefix("attention/") for weight in attention.weights] == expected
    assert isinstance(attention.query, keras.layers.Dense)
