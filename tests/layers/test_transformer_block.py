"""Feed-forward layers and all activations."""

from __future__ import annotations

import functools
import math

import keras
import numpy as np
import pytest

from bert_keras.config_checks import ACTIVATIONS as CONFIG_ACTIVATIONS
from bert_keras.layers import FeedForward
from bert_keras.layers.transformer_block import ACTIVATIONS
from tests import contracts
from tests.contracts import numpy

_X = np.linspace(-6.0, 6.0, 101)
_FORMULAS = {
    "gelu": 0.5 * _X * (1.0 + np.vectorize(math.erf)(_X / math.sqrt(2.0))),
    "gelu_tanh": 0.5 * _X * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (_X + 0.044715 * _X**3))),
    "relu": np.maximum(_X, 0.0),
    "silu": _X / (1.0 + np.exp(-_X)),
    "tanh": np.tanh(_X),
}

_make = functools.partial(FeedForward, intermediate_size=16, hidden_size=8)


def _arguments(length: int) -> tuple[np.ndarray, ...]:
    return (np.random.default_rng(0).normal(size=(3, length, 8)).astype("float32"),)


def test_contract(tmp_path):
    contracts.check_layer(_make, _arguments, num_weights=4, directory=tmp_path)


def test_names_are_those_of_the_config():
    assert tuple(ACTIVATIONS) == CONFIG_ACTIVATIONS == tuple(_FORMULAS)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_formula(name: str):
    found = numpy(ACTIVATIONS[name](keras.ops.convert_to_tensor(_X, "float32")))
    np.testing.assert_allclose(found, _FORMULAS[name], atol=2e-6)


def test_the_two_gelus_differ():
    assert 1e-4 < np.abs(_FORMULAS["gelu"] - _FORMULAS["gelu_tanh"]).max() < 1e-3


def test_formula():
    layer = _make(activation="relu")
    (x,) = _arguments(7)
    layer(x)
    inner, inner_bias, outer, outer_bias = numpy(contracts.as_trained(layer).weights)
    expected = np.maximum(x @ inner + inner_bias, 0.0) @ outer + outer_bias
    contracts.assert_close(numpy(layer(x)), expected, 1e-5)
