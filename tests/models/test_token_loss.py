"""Loss and accuracy of tokens are Keras's, but that weights make the mean."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from bert_keras.models.token_loss import TokenAccuracy, TokenLoss
from tests.contracts import numpy

DRAW = np.random.default_rng(3)
LOGITS = DRAW.normal(size=(4, 5, 11)).astype("float32")
LABELS = DRAW.integers(0, 11, (4, 5)).astype("int32")
WEIGHTS = (DRAW.random((4, 5)) < 0.5).astype("float32")


def test_the_loss_is_the_mean_over_the_weights() -> None:
    theirs = keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction="mean_with_sample_weight"
    )
    for weights in (None, WEIGHTS, 0 * WEIGHTS):
        found, expected = (
            numpy(loss(LABELS, LOGITS, sample_weight=weights)) for loss in (TokenLoss(), theirs)
        )
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_labels_are_whole_numbers_whatever_keras_computes_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(keras.config, "floatx", lambda: "bfloat16")
    monkeypatch.setattr(keras.src.backend, "floatx", lambda: "bfloat16")
    logits = np.zeros((1, 1000), "float32")
    logits[0, 999] = 50.0  # 1,000 in bfloat16
    assert float(numpy(TokenLoss()(np.array([999]), logits))) < 1e-5


def test_the_accuracy_is_kerass() -> None:
    ours, theirs = TokenAccuracy(), keras.metrics.SparseCategoricalAccuracy()
    for weights in (None, WEIGHTS):
        for metric in (ours, theirs):
            metric.update_state(LABELS, LOGITS, sample_weight=weights)
        np.testing.assert_allclose(numpy(ours.result()), numpy(theirs.result()))


def test_both_come_back_from_their_config() -> None:
    loss = keras.losses.deserialize(keras.losses.serialize(TokenLoss()))
    assert isinstance(loss, TokenLoss)
    np.testing.assert_allclose(
        *(numpy(each(LABELS, LOGITS)) for each in (loss, TokenLoss())), atol=1e-6
    )
    metric = keras.metrics.deserialize(keras.metrics.serialize(TokenAccuracy("mlm_accuracy")))
    assert isinstance(metric, TokenAccuracy)
    assert metric.name == "mlm_accuracy"
