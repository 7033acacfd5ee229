"""Cosine distance between two hidden states."""

from __future__ import annotations

import keras
import numpy as np

from bert_keras.layers import HiddenDistance


def test_one_minus_the_cosine_of_real_tokens() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(2, 3, 4, 5)).astype("float32")
    mask = np.array([[1, 1, 0, 0], [1, 1, 1, 1], [1, 0, 0, 0]])
    layer = HiddenDistance(0.5)
    x = rng.normal(size=(3, 2)).astype("float32")
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(layer(x, first, second, mask)), x)
    norms = np.linalg.norm(first, axis=-1) * np.linalg.norm(second, axis=-1)
    distances = 1 - (first * second).sum(-1) / norms
    expected = 0.5 * (distances * mask).sum() / mask.sum()
    (loss,) = layer.losses
    np.testing.assert_allclose(float(keras.ops.convert_to_numpy(loss)), expected, rtol=1e-5)
    layer(x, first, second, mask[:, None])  # examples of one text each
    (loss,) = layer.losses
    np.testing.assert_allclose(float(keras.ops.convert_to_numpy(loss)), expected, rtol=1e-5)


def test_config() -> None:
    assert HiddenDistance.from_config(HiddenDistance(0.25).get_config()).weight == 0.25
