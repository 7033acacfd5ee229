"""Layer normalisation has the weights, outputs and dtype policies of Keras's layer."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from bert_keras.layers.core import LayerNorm
from tests.contracts import POLICIES, numpy, weights

X = np.linspace(-3.0, 5.0, 24, dtype="float32").reshape(2, 3, 4) ** 2


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("training", [False, True])
def test_answers_as_kerass_layer(policy: str, training: bool) -> None:
    ours, theirs = (
        layer(epsilon=1e-6, dtype=policy, name="norm")
        for layer in (LayerNorm, keras.layers.LayerNormalization)
    )
    for layer in (ours, theirs):
        layer.build(X.shape)
    assert weights(ours).keys() == weights(theirs).keys()
    for layer in (ours, theirs):
        layer.set_weights([np.arange(4, dtype="float32"), np.ones(4, "float32")])
    found, expected = ours(X, training=training), theirs(X)
    assert found.dtype == expected.dtype
    tolerance = 1e-5 if policy == "float32" else 2e-2
    np.testing.assert_allclose(
        *(numpy(keras.ops.cast(each, "float32")) for each in (found, expected)), atol=tolerance
    )
