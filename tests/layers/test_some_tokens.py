"""Blocks that compute some tokens only. test_encoder_values.py compares whole encoders."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bert_keras.layers import FirstToken, PreNormBlock, RotaryAngles, TokensOf, TransformerBlock
from tests import contracts
from tests.contracts import numpy

_X = np.random.default_rng(0).normal(size=(2, 6, 8)).astype("float32")
_PLACES = np.array([[1, 4], [5, 0]], "int32")
_MASKS = {
    "padding": np.array([[1] * 6, [1] * 4 + [0] * 2], "int32"),
    "pairs": np.tril(np.ones((2, 6, 6), bool)),
}


@pytest.mark.parametrize("mask", _MASKS)
@pytest.mark.parametrize("block_class", [TransformerBlock, PreNormBlock])
def test_outputs_are_those_of_the_block(block_class: Any, mask: str) -> None:
    block = block_class(8, 2, 16, positions="rotary", name="block")
    angles = RotaryAngles(4)(_X[..., 0].astype("int32"))
    contracts.as_built(block, _X)
    padding_mask = _MASKS[mask]
    expected = numpy(block(_X, padding_mask, positions=angles))
    first = numpy(FirstToken(block)(_X, padding_mask, positions=angles))
    np.testing.assert_allclose(first, expected[:, :1], atol=1e-5)
    some = numpy(TokensOf(block)(_X, _PLACES, padding_mask, positions=angles))
    rows = np.stack([expected[row, _PLACES[row]] for row in range(2)])
    np.testing.assert_allclose(some, rows, atol=1e-5)
    tokens, firsts = TokensOf(block, True)(_X, _PLACES, padding_mask, positions=angles)
    np.testing.assert_allclose(numpy(tokens), rows, atol=1e-5)
    np.testing.assert_allclose(numpy(firsts), expected[:, :1], atol=1e-5)
