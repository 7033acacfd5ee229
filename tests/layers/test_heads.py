"""Pooler, MLM head, pair head and classes."""

from __future__ import annotations

import functools
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras.layers import ClassificationHead, MaskedLMHead, PairHead, Pooler
from tests import contracts
from tests.contracts import numpy


def _hidden(length: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(3, length, 8)).astype("float32")


def _positions() -> np.ndarray:
    return np.array([[0, 3], [4, 4], [1, 0]], "int32")


def _make_head(dtype: Any = None) -> MaskedLMHead:
    token = keras.layers.ReversibleEmbedding(
        50, 8, reverse_dtype="float32", dtype=dtype, name="token"
    )
    token.build()
    return MaskedLMHead(token, dtype=dtype, name="mlm")


def test_pooler_contract(tmp_path):
    make = functools.partial(Pooler, hidden_size=8)
    contracts.check_layer(
        make, lambda length: (_hidden(length),), num_weights=2, directory=tmp_path
    )


def test_pooler_reads_the_first_token_only():
    pooler, x = Pooler(8), _hidden(7)
    expected = numpy(pooler(x))
    x[:, 1:] = 0.0
    contracts.assert_close(numpy(pooler(x)), expected)
    assert np.abs(expected).max() < 1.0


def test_pooler_reads_the_first_token_of_each_example():
    pooler, x = Pooler(8), _hidden(7)
    found = numpy(pooler(x, _positions()))
    for row, positions in enumerate(_positions()):
        for slot, position in enumerate(positions):
            expected = numpy(pooler(x[row : row + 1, position:]))[0]
            contracts.assert_close(found[row, slot], expected, 1e-6)


def test_pair_head_contract(tmp_path):
    # Its input has no length: the batch stands for both free axes.
    contracts.check_layer(
        PairHead, lambda length: (_hidden(length)[:, 0],), num_weights=2, directory=tmp_path
    )


def test_mlm_head_contract():
    """Six weights: the tied table is the embedding's, and there is no second one."""
    contracts.check_layer(_make_head, lambda length: (_hidden(length), _positions()), num_weights=6)


def test_mlm_head_scores_the_positions_that_are_asked_for():
    head, x, positions = _make_head(), _hidden(7), _positions()
    head(x, positions)
    contracts.as_trained(head)
    everywhere = np.tile(np.arange(7, dtype="int32"), (3, 1))
    expected = np.take_along_axis(numpy(head(x, everywhere)), positions[:, :, None], axis=1)
    contracts.assert_close(numpy(head(x, positions)), expected, 1e-5)


def test_logits_are_float32_in_precision_too():
    """Under mixed precision the product with the table is not rounded to sixteen bits."""
    logits = numpy(_make_head(dtype="mixed_bfloat16")(_hidden(7), _positions()))
    rounded = (logits.view("uint32") & 0xFFFF) == 0
    assert rounded.mean() < 0.1


@pytest.mark.parametrize(("activation", "num_weights"), [(None, 2), ("tanh", 4), ("relu", 4)])
def test_classification_head_contract(activation: str | None, num_weights: int, tmp_path):
    make = functools.partial(ClassificationHead, 3, 8, hidden_activation=activation)
    arguments = lambda length: (_hidden(length),)  # noqa: E731
    contracts.check_layer(make, arguments, num_weights=num_weights, directory=tmp_path)


def test_classification_head_drops_in_training_only():
    head, x = ClassificationHead(3, 8, dropout=0.5), _hidden(7)
    expected = numpy(head(x))
    contracts.assert_close(numpy(head(x)), expected)
    assert np.abs(numpy(head(x, training=True)) - expected).max() > 1e-4


def test_dropout_before_the_hidden_layer_can_be_another():
    head = ClassificationHead(3, 8, "relu", dropout=0.5, hidden_dropout=0.0)
    assert (head.hidden_dropout.rate, head.dropout.rate) == (0.0, 0.5)
    assert ClassificationHead(3, 8, "relu", dropout=0.5).hidden_dropout.rate == 0.5


def test_classification_head_equals_numpy():
    head, x = contracts.as_built(ClassificationHead(3, 8, "tanh"), _hidden(7)), _hidden(7)
    w = {path.split("/", 1)[1]: values for path, values in contracts.weights(head).items()}
    inner = np.tanh(x @ w["dense/kernel"] + w["dense/bias"])
    expected = inner @ w["output/kernel"] + w["output/bias"]
    contracts.assert_close(numpy(head(x)), expected, 1e-5)
