"""Losses of several lengths, and the similarities that losses compare."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from bert_keras import losses
from bert_keras.losses import vector_loss
from tests.losses.references import CASES, NONE, check, of_module, vectors


@pytest.mark.parametrize("name", of_module(vector_loss))
def test_numbers(name: str) -> None:
    check(name)


def test_every_loss_has_a_reference() -> None:
    every = {
        each
        for each in vars(losses).values()
        if isinstance(each, type) and issubclass(each, losses.VectorLoss)
    }
    assert every - {losses.VectorLoss} == {type(loss) for loss, *_ in CASES.values()}


@pytest.mark.parametrize("name", ["manhattan", "euclidean", "cosine"])
def test_equal_texts_have_a_finite_gradient(name: str) -> None:
    x = np.ones((3, 3, 4), np.float32)
    tensor = keras.Variable(x)
    loss = losses.TripletLoss(1.0, similarity=name)
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        with tf.GradientTape() as tape:
            total = loss(np.zeros(3), tensor.value)
        gradient = tape.gradient(total, tensor.value)
    elif backend == "jax":
        import jax

        gradient = jax.grad(lambda value: loss(np.zeros(3), value))(tensor.value)
    else:
        loss(np.zeros(3), tensor.value).backward()
        gradient = tensor.value.grad
    assert np.isfinite(ops.convert_to_numpy(gradient)).all()


BAD: dict[str, Callable[[], Any]] = {
    "`scale`": lambda: losses.InBatchLoss(0.0),
    "`similarity`": lambda: losses.CosentLoss(similarity="near"),
    "`margin`": lambda: losses.TripletLoss(0.0),
    "`mining`": lambda: losses.BatchTripletLoss(mining="easy"),
    "needs a distance": lambda: losses.BatchTripletLoss(similarity="dot"),
    "`temperature`": lambda: losses.KLDivergenceLoss(0.0),
    "`dims`": lambda: losses.MatryoshkaLoss(losses.InBatchLoss(), [8, 8]),
    "`weights`": lambda: losses.MatryoshkaLoss(losses.InBatchLoss(), [8], weights=[1, 2]),
    "`compare`": lambda: losses.GuidedInBatchLoss(compare=["all"]),
    "12 dimensions": lambda: losses.MatryoshkaLoss(losses.InBatchLoss(), [16])(NONE, vectors(2)),
}


@pytest.mark.parametrize("message", BAD)
def test_messages(message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BAD[message]()


def test_similarities_have_one_list() -> None:
    x, y = vectors(1)[:, 0], vectors(1, seed=3)[:, 0]
    for name in ("cosine", "dot", "euclidean", "manhattan"):
        every = ops.convert_to_numpy(vector_loss.all_similarities(x, y, name))
        pairs = ops.convert_to_numpy(vector_loss.similarities(x, y, name))
        np.testing.assert_allclose(np.diagonal(every), pairs, rtol=1e-5, atol=1e-5)
