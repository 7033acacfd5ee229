"""Learned mixture of the hidden states of all layers."""

from __future__ import annotations

import keras
import numpy as np

from bert_keras.layers import ScalarMix
from tests import contracts
from tests.contracts import numpy

_STATES = list(np.random.default_rng(0).normal(size=(3, 2, 5, 4)).astype("float32"))


def test_equals_numpy():
    layer = ScalarMix()
    # A new layer returns the mean.
    contracts.assert_close(numpy(layer(_STATES)), np.mean(_STATES, axis=0), 1e-6)
    layer.scores.assign([0.5, -1.0, 2.0])
    layer.scale.assign([3.0])
    weights = np.exp([0.5, -1.0, 2.0])
    expected = 3.0 * np.einsum("n,nbth->bth", weights / weights.sum(), _STATES)
    np.testing.assert_allclose(numpy(layer(_STATES)), expected, atol=1e-5)
    assert [weight.path for weight in layer.weights] == [
        f"{layer.name}/scores",
        f"{layer.name}/scale",
    ]


def test_policies_symbols_and_files(tmp_path):
    symbols = [keras.Input((None, 4)) for _ in _STATES]
    for policy in contracts.POLICIES:
        layer = ScalarMix(dtype=policy)
        output = layer(symbols)
        assert (output.shape, output.dtype) == ((None, None, 4), layer.compute_dtype)
        found = numpy(layer(_STATES))
        assert found.shape == (2, 5, 4)
        assert str(found.dtype) == layer.compute_dtype
    model = contracts.as_trained(keras.Model(symbols, ScalarMix()(symbols)))
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    contracts.assert_close(numpy(loaded(_STATES)), numpy(model(_STATES)))
