"""Relative position scores. test_encoder.py compares whole models with NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from bert_keras.layers.relative_positions import RELATIVE, RelativeKey
from tests import contracts
from tests.contracts import numpy


def _heads(length: int) -> tuple[np.ndarray, np.ndarray]:
    """Return random queries and keys, [batch, length, heads, size]."""
    generator = np.random.default_rng(length)
    query, key = generator.normal(size=(2, 3, length, 2, 4)).astype("float32")
    return query, key


@pytest.mark.parametrize("name", RELATIVE)
def test_only_the_distance_counts(name: str) -> None:
    layer = RELATIVE[name](12, 4)
    layer.build(None)
    contracts.as_trained(layer)
    query, key = (np.broadcast_to(x[:, :1], x.shape) for x in _heads(7))  # all tokens are equal
    scores = numpy(layer(query, key))
    assert scores.shape == (3, 2, 7, 7)
    for distance in range(-6, 7):
        diagonal = np.diagonal(scores, distance, axis1=2, axis2=3)
        expected = diagonal[..., :1].repeat(len(diagonal.T), -1)
        np.testing.assert_allclose(diagonal, expected, rtol=1e-5, atol=1e-7)
    # The score of a distance depends on its sign.
    assert np.abs(scores - scores.swapaxes(2, 3)).max() > 0.01


def test_keys_count_in_one_of_them() -> None:
    """Only `relative_key_query` scores depend on the keys."""
    query, key = _heads(5)
    for name, same in (("relative_key", True), ("relative_key_query", False)):
        layer = RELATIVE[name](12, 4)
        layer.build(None)
        contracts.as_trained(layer)
        found = np.array_equal(numpy(layer(query, key)), numpy(layer(query, key[:, ::-1].copy())))
        assert found == same, name


def test_contract() -> None:
    layer = RelativeKey(12, 4)
    layer.build(None)
    assert [weight.path for weight in layer.weights] == [f"{layer.name}/embeddings"]
    assert tuple(layer.embeddings.shape) == (23, 4)
    query, key = _heads(5)
    for policy in contracts.POLICIES:
        scores = RelativeKey(12, 4, dtype=policy)(query, key)
        assert np.isfinite(numpy(scores).astype("float32")).all(), policy
