"""Pooler, MLM head, pair head and classification heads."""

from __future__ import annotations

import functools
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from bert_keras import kernels
from bert_keras.layers import ClassificationHead, MaskedLMHead, PairHead, Pooler
from bert_keras.layers.heads import MaskedVectors, token_losses_in_chunks
from tests import contracts
from tests.contracts import numpy
from tests.gradients import gradients


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
    # The input has no length axis, so only the batch axis is free.
    contracts.check_layer(
        PairHead, lambda length: (_hidden(length)[:, 0],), num_weights=2, directory=tmp_path
    )


def test_mlm_head_contract():
    """The MLM head has six weights, because its output table is the token embedding."""
    contracts.check_layer(_make_head, lambda length: (_hidden(length), _positions()), num_weights=6)


def test_mlm_head_scores_the_positions_that_are_asked_for():
    head, x, positions = _make_head(), _hidden(7), _positions()
    head(x, positions)
    contracts.as_trained(head)
    everywhere = np.tile(np.arange(7, dtype="int32"), (3, 1))
    expected = np.take_along_axis(numpy(head(x, everywhere)), positions[:, :, None], axis=1)
    contracts.assert_close(numpy(head(x, positions)), expected, 1e-5)


def test_logits_are_float32_in_precision_too():
    """In mixed precision, logits are computed in float32 and are not rounded to 16 bits."""
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


# === Losses in chunks of the table equal losses over the whole table ===


DRAW = np.random.default_rng(3)
CLASSES = 23
X = DRAW.normal(size=(3, 5, 8)).astype("float32")
TABLE = DRAW.normal(size=(CLASSES, 8)).astype("float32")
BIAS = DRAW.normal(size=CLASSES).astype("float32")
LABELS = DRAW.integers(0, CLASSES, (3, 5)).astype("int32")


@pytest.mark.parametrize("chunks", [1, 2, 5, CLASSES, 100])
def test_they_are_those_of_the_whole_table(chunks: int) -> None:
    """Losses in chunks equal the losses over the whole table, with their gradients."""
    labels = ops.convert_to_tensor(LABELS)

    def whole(*x: Any) -> Any:
        return kernels.token_losses(labels, kernels.tied_logits(*x))

    def in_parts(*x: Any) -> Any:
        return token_losses_in_chunks(labels, *x, chunks=chunks)[0]

    given = (X, TABLE, BIAS)
    tensors = [ops.convert_to_tensor(each) for each in given]
    np.testing.assert_allclose(numpy(in_parts(*tensors)), numpy(whole(*tensors)), atol=1e-5)
    weights = DRAW.normal(size=LABELS.shape).astype("float32")
    for found, expected in zip(
        gradients(in_parts, given, weights), gradients(whole, given, weights), strict=True
    ):
        np.testing.assert_allclose(found, expected, atol=1e-5)
    is_highest = numpy(kernels.tied_logits(*tensors)).argmax(axis=-1) == LABELS
    found = numpy(token_losses_in_chunks(labels, *tensors, chunks=chunks)[1])
    np.testing.assert_array_equal(found, is_highest)
    assert 0 < is_highest.sum() < is_highest.size


def test_extreme_logits_do_not_overflow() -> None:
    table = 1000.0 * np.array([[1.0], [0.0], [-1.0]], "float32")
    found, is_highest = token_losses_in_chunks(
        ops.arange(3, dtype="int32"), ops.ones((3, 1)), table, np.zeros(3, "float32"), chunks=3
    )
    np.testing.assert_allclose(numpy(found), [0.0, 1000.0, 2000.0], atol=1e-4)
    np.testing.assert_array_equal(numpy(is_highest), [True, False, False])


def test_vectors_are_what_the_logits_are_products_of() -> None:
    table = keras.layers.ReversibleEmbedding(CLASSES, 8)
    table.build(None)
    head = MaskedLMHead(table)
    vectors = MaskedVectors(head)
    found = vectors(X)
    assert found.shape == (*X.shape[:2], 8)
    logits = kernels.tied_logits(found, table.embeddings, head.bias)
    np.testing.assert_allclose(numpy(logits), numpy(head(X)), atol=1e-6)
