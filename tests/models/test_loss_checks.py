"""A loss that expects probabilities is refused on logits, in every form that Keras takes."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from bert_keras import BertEncoder, SequenceClassifier, Tokenizer, models
from bert_keras.models.loss_checks import _OF_PROBABILITIES, check_losses
from tests.models import every_model
from tests.models.test_with_tokenizer import CONFIG, task_over
from tests.tokenizers.samples import VOCABULARY

LOSSES: list[Any] = [
    *sorted(_OF_PROBABILITIES),
    *("BinaryCrossentropy", "SparseCategoricalCrossentropy", "KLDivergence"),
    keras.losses.SparseCategoricalCrossentropy(),
    keras.losses.BinaryFocalCrossentropy(),
    keras.losses.KLDivergence(),
    keras.losses.categorical_crossentropy,
]


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_every_form_is_refused(loss: Any) -> None:
    tokenizer = Tokenizer(VOCABULARY)
    task = task_over(SequenceClassifier, BertEncoder(CONFIG), tokenizer=tokenizer)
    x = task.required_tokenizer()(["the hello"], max_length=8)
    for form in (loss, {"label": loss}):
        task.compile("adam", loss=form)
        with pytest.raises(ValueError, match=r"'label' is logits.*task\.objective"):
            task.fit(x, {"label": np.zeros(1, np.int32)}, verbose=0)
        with pytest.raises(ValueError, match=r"'label' is logits.*task\.objective"):
            task.train_on_batch(x, {"label": np.zeros(1, np.int32)})
    with pytest.raises(ValueError, match=r"'label' is logits.*task\.objective"):
        check_losses([loss], ["label"])


@pytest.mark.parametrize("name", sorted(_OF_PROBABILITIES))
def test_every_name_is_one_of_keras(name: str) -> None:
    assert keras.losses.get(name) is not None


@pytest.mark.parametrize(
    "loss",
    [
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        keras.losses.BinaryCrossentropy(from_logits=True),
        "mean_squared_error",
        "categorical_hinge",
        lambda y_true, y_pred: keras.ops.mean(y_pred - y_true),
        None,
    ],
    ids=str,
)
def test_other_losses_are_taken(loss: Any) -> None:
    check_losses(loss, ["label"])
    check_losses({"label": loss}, ["label"])


def test_numbers_are_no_logits() -> None:
    number = SequenceClassifier(BertEncoder(CONFIG), 1)
    check_losses("binary_crossentropy", ["label"], number.not_logits)


@pytest.mark.parametrize("name", every_model.classes_below(models.Task))
def test_the_objective_of_every_task_is_taken(name: str) -> None:
    task = task_over(every_model.classes_below(models.Task)[name], BertEncoder(CONFIG))
    check_losses(task.objective()["loss"], list(task.output), task.not_logits)
