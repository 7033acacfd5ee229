"""Transformer block: shapes, residual sums and dropout."""

from __future__ import annotations

import functools

import keras
import numpy as np
import pytest

from bert_keras.layers import FirstToken, TokensOf, TransformerBlock
from tests import contracts
from tests.contracts import numpy

_make = functools.partial(TransformerBlock, hidden_size=8, num_heads=2, intermediate_size=16)


def _arguments(length: int) -> tuple[np.ndarray, ...]:
    x = np.random.default_rng(0).normal(size=(3, length, 8)).astype("float32")
    padding_mask = np.arange(length) < np.array([length, length - 2, 1])[:, None]
    return x, padding_mask.astype("int32")


def test_contract(tmp_path):
    contracts.check_layer(_make, _arguments, num_weights=16, directory=tmp_path)


def test_output_is_normalised_after_the_sums():
    """Layer normalisation follows each residual sum.

    With all projections at zero, the block is its two layer normalisations.
    """
    block = _make()
    x, padding_mask = _arguments(7)
    block(x, padding_mask)
    for weight in block.weights:
        if weight.name in ("kernel", "bias"):
            weight.assign(np.zeros(weight.shape))
    centred = x - x.mean(-1, keepdims=True)
    expected = centred / np.sqrt((centred**2).mean(-1, keepdims=True))
    contracts.assert_close(numpy(block(x, padding_mask)), expected, 1e-5)


@pytest.mark.parametrize("name", ["attention/dropout", "attention_dropout", "feedforward_dropout"])
def test_every_dropout_is_active_in_training_only(name: str):
    block = _make(dropout=0.5, attention_dropout=0.5)
    contracts.as_built(block, *_arguments(7))
    for path, dropout in _dropouts(block).items():
        dropout.rate = 0.5 * (path == name)
    x, padding_mask = _arguments(7)
    inferred = numpy(block(x, padding_mask, training=False))
    contracts.assert_close(numpy(block(x, padding_mask)), inferred)
    first, second = (numpy(block(x, padding_mask, training=True)) for _ in range(2))
    assert np.abs(first - inferred).max() > 1e-3
    assert np.abs(first - second).max() > 1e-3


def test_every_dropout_has_a_seed_of_its_own():
    dropouts = _dropouts(_make()).values()
    assert len({tuple(numpy(each.seed_generator.state)) for each in dropouts}) == len(dropouts) == 3


def _dropouts(block: TransformerBlock) -> dict[str, keras.layers.Dropout]:
    return {
        "attention/dropout": block.attention.dropout,
        "attention_dropout": block.attention_dropout,
        "feedforward_dropout": block.feedforward_dropout,
    }


@pytest.mark.parametrize("relative", [None, "relative_key"])
@pytest.mark.parametrize("each_its_own", [False, True])
def test_a_view_of_some_tokens(relative: str | None, each_its_own: bool) -> None:
    """The block computes some positions with the outputs of the whole block."""
    block = _make(relative_positions=relative, max_positions=7)
    x, mask = _arguments(7)
    if each_its_own:
        mask = np.tril(np.ones((3, 7, 7), "int32"))
    whole = numpy(block(x, mask))
    positions = np.array([[1, 6], [4, 0], [2, 2]], "int32")
    first = np.array([[0], [3], [5]], "int32")
    rows = np.arange(3)[:, None]
    found = numpy(TokensOf(block)(x, positions, mask))
    contracts.assert_close(found, whole[rows, positions], 1e-5)
    found, of_first = TokensOf(block, first=True)(x, positions, mask)
    contracts.assert_close(numpy(found), whole[rows, positions], 1e-5)
    contracts.assert_close(numpy(of_first), whole[:, :1], 1e-5)
    found, of_first = TokensOf(block, first=True)(x, positions, mask, first)
    contracts.assert_close(numpy(found), whole[rows, positions], 1e-5)
    contracts.assert_close(numpy(of_first), whole[rows, first], 1e-5)
    contracts.assert_close(
        numpy(FirstToken(block)(x, mask[..., :1, :] if each_its_own else mask)), whole[:, :1], 1e-5
    )
