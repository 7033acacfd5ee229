"""Tokens drawn in place of masks."""

from __future__ import annotations

import keras
import numpy as np

from bert_keras.layers import TokenReplacement
from tests.contracts import numpy

IDS = np.arange(5, 17).reshape(2, 6)
POSITIONS = np.array([[1, 4, 0], [5, 0, 0]])


def certain(tokens: np.ndarray, vocab_size: int = 20) -> np.ndarray:
    """Logits that leave no doubt."""
    return 100.0 * np.eye(vocab_size, dtype="float32")[tokens]


def test_puts_tokens_where_masks_were():
    seen = numpy(TokenReplacement()(IDS, certain(np.array([[1, 2, 3], [4, 0, 0]])), POSITIONS))
    expected = IDS.copy()
    expected[0, 1], expected[0, 4], expected[1, 5] = 1, 2, 4
    np.testing.assert_array_equal(seen, expected)  # unused slots change nothing


def test_draws_by_the_distribution():
    keras.utils.set_random_seed(0)
    layer = TokenReplacement()
    logits = np.log(np.tile([[0.7, 0.2, 0.1]], (400, 1)))[:, None].astype("float32")
    ids, positions = np.full((400, 2), 9), np.ones((400, 1), int)
    first = numpy(layer(ids, logits, positions, training=True))
    second = numpy(layer(ids, logits, positions, training=True))
    assert (first[:, 0] == 9).all()
    assert (first != second).any()
    shares = np.bincount(np.append(first[:, 1], second[:, 1]), minlength=3) / 800
    np.testing.assert_allclose(shares, [0.7, 0.2, 0.1], atol=0.06)


def test_what_is_measured_is_drawn_alike():
    layer = TokenReplacement()
    before = numpy(layer.seed_generator.state.value)
    logits = np.zeros((2, 3, 20), "float32")
    first, second = (numpy(layer(IDS, logits, POSITIONS)) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(numpy(layer.seed_generator.state.value), before)
    other = TokenReplacement()
    np.testing.assert_array_equal(numpy(other(IDS, logits, POSITIONS)), first)


def test_symbol():
    inputs = [keras.Input((None,), dtype="int32"), keras.Input((None, 20)), keras.Input((None,))]
    symbol = TokenReplacement(dtype="mixed_bfloat16")(*inputs)
    assert (symbol.shape, symbol.dtype) == ((None, None), "int32")
