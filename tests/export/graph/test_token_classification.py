"""Viterbi decoding in a graph equals the decoding in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from bert_keras.export.graph.token_classification import best_tags
from bert_keras.inference import token_classification
from tests.paths import potentials

tf = pytest.importorskip("tensorflow")

LENGTHS = np.array([5, 1, 3, 0])


@pytest.mark.parametrize("seed", range(5))
def test_tags_and_their_chances(seed: int) -> None:
    values = potentials(4, 5, 3, seed)
    counted = np.arange(5) < LENGTHS[:, None]
    tags, shares = (found.numpy() for found in best_tags(tf.constant(values), tf.constant(LENGTHS)))
    expected = token_classification.decode(values, counted)
    np.testing.assert_array_equal(tags[counted], expected[counted])
    chances = np.take_along_axis(
        token_classification.marginals(values, counted), np.maximum(expected, 0)[..., None], -1
    )[..., 0]
    np.testing.assert_allclose(shares[counted], chances[counted], atol=1e-6)


def test_no_rows() -> None:
    tags, shares = best_tags(tf.zeros([0, 2, 4, 4]), tf.zeros([0], tf.int32))
    assert tags.shape == shares.shape == (0, 2)


def test_tags_that_a_field_forbids() -> None:
    values = potentials(1, 5, 3)
    values[:, :, [0, 2, 3], 0] = -np.inf
    tags, shares = (found.numpy()[0] for found in best_tags(tf.constant(values), tf.constant([5])))
    assert not any(b == 0 and a != 1 for a, b in zip([3, *tags], tags, strict=False))
    assert np.isfinite(shares).all()
