"""Losses over a table in parts are those over the whole."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from bert_keras.layers import MaskedLMHead, kernels
from bert_keras.layers.chunked_head import MaskedVectors, token_losses_in_chunks
from tests.contracts import numpy
from tests.gradients import gradients

DRAW = np.random.default_rng(3)
CLASSES = 23
X = DRAW.normal(size=(3, 5, 8)).astype("float32")
TABLE = DRAW.normal(size=(CLASSES, 8)).astype("float32")
BIAS = DRAW.normal(size=CLASSES).astype("float32")
LABELS = DRAW.integers(0, CLASSES, (3, 5)).astype("int32")


@pytest.mark.parametrize("chunks", [1, 2, 5, CLASSES, 100])
def test_they_are_those_of_the_whole_table(chunks: int) -> None:
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
