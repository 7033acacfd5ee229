"""In-batch losses have the numbers of sentence-transformers, and leave out copies of answers."""

from __future__ import annotations

import numpy as np
import pytest
from keras import ops

from bert_keras import losses
from bert_keras.losses import in_batch
from bert_keras.losses.in_batch import right_elsewhere
from tests.contracts import numpy
from tests.losses.references import check, of_module


@pytest.mark.parametrize("name", of_module(in_batch))
def test_numbers(name: str) -> None:
    check(name)


# Texts of four examples: the second repeats the first answer, the third the first question, and
# the last has the first answer as its negative.
NUMBERS = np.array([[0, 10, 20], [1, 10, 21], [0, 12, 22], [3, 13, 10]])


def test_which_texts_are_left_out() -> None:
    left_out = numpy(right_elsewhere(ops.convert_to_tensor(NUMBERS)))
    expected = np.zeros((4, 8), bool)
    expected[0, [1, 2, 7]] = True  # the same answer, the answer to the same text, the negative
    expected[1, [0, 7]] = True
    expected[2, 0] = True
    np.testing.assert_array_equal(left_out, expected)
    assert right_elsewhere(ops.convert_to_tensor(np.zeros(4))) is None
    assert not numpy(right_elsewhere(ops.convert_to_tensor(NUMBERS[3:]))).any()


@pytest.mark.parametrize("symmetric", [False, True])
def test_they_do_not_count(symmetric: bool) -> None:
    vectors = np.random.default_rng(0).standard_normal((4, 3, 6)).astype(np.float32)
    unit = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    loss = losses.InBatchLoss(5.0, symmetric=symmetric)
    found = numpy(loss(NUMBERS, vectors))
    left_out = numpy(right_elsewhere(ops.convert_to_tensor(NUMBERS)))
    forward = 5.0 * unit[:, 0] @ np.concatenate([unit[:, 1], unit[:, 2]]).T
    total = np.log(np.where(left_out, 0.0, np.exp(forward)).sum(-1))
    if symmetric:
        back = np.where(left_out[:, :4], 0.0, np.exp(5.0 * unit[:, 1] @ unit[:, 0].T))
        total = (total + np.log(back.sum(-1))) / 2
    np.testing.assert_allclose(found, (total - np.diag(forward)).mean(), rtol=1e-5)
    distinct = np.arange(12).reshape(4, 3)
    assert numpy(loss(distinct, vectors)) > found
    np.testing.assert_allclose(
        numpy(loss(distinct, vectors)), numpy(loss(np.zeros(4), vectors)), rtol=1e-6
    )


def test_accuracy_does_not_count_them_either() -> None:
    vectors = np.zeros((4, 2, 4), np.float32)
    vectors[:, 0] = np.eye(4)
    vectors[:, 1] = np.eye(4)
    vectors[1, 1] = vectors[0, 1]  # the second finds the copy of its answer, too
    vectors[1, 0] = vectors[0, 0]
    found = numpy(losses.in_batch_accuracy(NUMBERS[:, :2], vectors))
    np.testing.assert_array_equal(found, 1.0)
