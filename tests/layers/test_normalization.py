"""Root-mean-square normalisation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bert_keras.layers.core import LayerNorm
from bert_keras.layers.normalization import RMSNorm, normalization
from tests import contracts
from tests.contracts import numpy
from tests.gradients import gradients


def test_contract(tmp_path: Path) -> None:
    def arguments(length: int) -> tuple[np.ndarray, ...]:
        return (np.random.default_rng(length).normal(size=(2, length, 4)).astype("float32"),)

    contracts.check_layer(RMSNorm, arguments, num_weights=1, directory=tmp_path)


def test_values_and_gradient_are_those_of_the_formula() -> None:
    x = np.random.default_rng(0).normal(1.0, 2.0, size=(3, 8)).astype("float32")
    layer = contracts.as_built(RMSNorm(epsilon=0.5), x)
    gamma = numpy(layer.gamma)

    def formula(x: np.ndarray) -> np.ndarray:
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + 0.5) * gamma

    np.testing.assert_allclose(numpy(layer(x)), formula(x), rtol=1e-5)
    weights = np.random.default_rng(1).normal(size=x.shape).astype("float32")
    (found,) = gradients(layer, [x], weights)
    step = np.zeros_like(x, "float64")
    step[1, 2] = 1e-5
    wide = x.astype("float64")
    change = ((formula(wide + step) - formula(wide - step)) * weights).sum() / 2e-5
    assert found[1, 2] == pytest.approx(change, rel=1e-3)


@pytest.mark.parametrize(("kind", "bias"), [("layer", True), ("layer", False), ("rms", False)])
def test_a_name_makes_a_normalisation(kind: str, bias: bool) -> None:
    options: dict[str, Any] = {"epsilon": 1e-3, "bias": bias, "dtype": "float32", "name": "norm"}
    layer = normalization(kind, **options, trainable=False)
    layer.build((2, 4))
    assert isinstance(layer, RMSNorm if kind == "rms" else LayerNorm)
    assert [weight.name for weight in layer.weights] == ["gamma", "beta"][: 1 + bias]
    assert (layer.name, layer.epsilon, layer.trainable_weights) == ("norm", 1e-3, [])


def test_layer_norm_without_bias_has_a_bias_of_zero() -> None:
    """The kernels of all backends take a normalisation without bias, in training too."""
    x = np.random.default_rng(0).normal(size=(3, 8)).astype("float32")
    with_bias, without = LayerNorm(), LayerNorm(center=False)
    for training in (False, True):
        np.testing.assert_allclose(
            numpy(without(x, training=training)), numpy(with_bias(x, training=training)), atol=1e-6
        )
