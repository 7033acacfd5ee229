"""A loss that expects probabilities is refused on logits, in every form that Keras takes."""

from __future__ import annotations

import functools
from pathlib import Path
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
    "CategoricalGeneralizedCrossEntropy",
    keras.losses.SparseCategoricalCrossentropy(),
    keras.losses.BinaryFocalCrossentropy(),
    keras.losses.KLDivergence(),
    keras.losses.Dice(),
    functools.partial(keras.losses.binary_crossentropy, label_smoothing=0.1),
    keras.losses.categorical_crossentropy,
]


REFUSED = r"'label' is logits.*task\.loss_and_metrics"


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_compile_refuses_every_form(loss: Any) -> None:
    task = task_over(SequenceClassifier, BertEncoder(CONFIG))
    for form in (loss, {"label": loss}, [loss], {"label": [loss]}):
        with pytest.raises(ValueError, match=REFUSED):
            task.compile("adam", form)
        with pytest.raises(ValueError, match=REFUSED):
            task.compile("adam", loss=form)
    assert not task.compiled


def test_compile_of_a_view_refuses_it_too() -> None:
    view = task_over(SequenceClassifier, BertEncoder(CONFIG)).packed()
    with pytest.raises(ValueError, match=REFUSED):
        view.compile("adam", "sparse_categorical_crossentropy")
    view.compile("adam", **view.loss_and_metrics())


def test_a_saved_task_with_such_a_loss_is_opened_and_not_trained(tmp_path: Path) -> None:
    tokenizer = Tokenizer(VOCABULARY)
    task = task_over(SequenceClassifier, BertEncoder(CONFIG), tokenizer=tokenizer)
    x = task.required_tokenizer()(["the hello"], max_length=8)
    y = {"label": np.zeros(1, np.int32)}
    keras.Model.compile(task, "adam", "sparse_categorical_crossentropy")
    task.optimizer.build(task.trainable_variables)
    task.save(tmp_path / "task.keras")
    loaded: Any = keras.saving.load_model(tmp_path / "task.keras")
    assert loaded.predict(x, verbose=0)["label"].shape == (1, 3)
    for train in (loaded.fit, loaded.train_on_batch):
        with pytest.raises(ValueError, match=REFUSED):
            train(x, y)


def test_a_model_around_a_task_keeps_its_losses() -> None:
    task = task_over(SequenceClassifier, BertEncoder(CONFIG))
    outputs = keras.layers.Softmax(name="label")(task(task.input)["label"])
    model = keras.Model(task.input, {"label": outputs})
    model.compile("adam", {"label": "sparse_categorical_crossentropy"})
    assert model.compiled


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
def test_the_loss_of_every_task_is_taken(name: str) -> None:
    task = task_over(every_model.classes_below(models.Task)[name], BertEncoder(CONFIG))
    check_losses(task.loss_and_metrics()["loss"], list(task.output), task.not_logits)
