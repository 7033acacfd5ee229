"""Limits of ids, lengths and labels, for every class and every method."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from bert_keras import BertEncoder, SequenceClassifier, TokenClassifier, features
from bert_keras.models.value_checks import ValueChecks, label_classes
from tests.contracts import TINY
from tests.models import every_model
from tests.models.every_model import LENGTH

METHODS = ("fit", "evaluate", "predict", "train_on_batch", "test_on_batch", "predict_on_batch")
WITH_LABELS = ("fit", "evaluate", "train_on_batch", "test_on_batch")
# Input -> the first number that is too large, and a part of its error message.
LIMITS = {
    "token_ids": (50, "token table has 50 rows: the largest id is 49.*vocab_size"),
    "segment_ids": (2, "segment table has 2 rows: the largest id is 1"),
    "position_ids": (12, "model has 12 positions: the last is 11"),
    "mask_positions": (LENGTH, "rows are 7 tokens long: the last position is 6"),
    "first_positions": (LENGTH, "rows are 7 tokens long: the last position is 6"),
}
FREE = {"padding_mask", "example_ids", "prompt_length"}  # inputs that are not looked up in a table
# Model -> the number of classes of each output with integer labels.
CLASSES = {
    "classifier": {"label": 3},
    "tagger": {"tags": 3},
    "tagger with crf": {"tags": 3},
    "masked_lm": {"mlm": 50},
    "pretrainer": {"mlm": 50, "nsp": 2},
    "electra": {"mlm": 50},
    "questions": {"start": LENGTH, "end": LENGTH},
    "choices": {"choice": every_model.TEXTS},
    "pair labels": {"label": 3},
    "packed classifier": {"label": 3},
    "packed pretrainer": {"mlm": 50, "nsp": 2},
    "chunked masked_lm": {"mlm": 50},
    "distiller": {"label": 3},
}
# Models whose labels are numbers, vectors, or one number per class, and not integer classes.
OF_NUMBERS = {"several labels": "label", "number": "label", "sentences": "sentence_vector"}
OTHERS = {"detector", "few shot", "in_batch", "ranker"} | {
    *("encoder", "with_outputs", "first_token", "at_positions", "packed", "packed at_positions")
}


def test_every_input_and_model_has_its_limits() -> None:
    assert {*LIMITS, *FREE} == set(features.INPUTS)
    assert {*CLASSES, *OF_NUMBERS, *OTHERS} == set(every_model.MODELS)


@pytest.mark.parametrize("name", every_model.MODELS)
def test_ids_of_no_table(name: str) -> None:
    """An id outside its table is refused, in every dtype."""
    model = every_model.model(name)
    x = every_model.inputs(model)
    ValueChecks(model).check(x)
    for key, values in x.items():
        if key in FREE:
            continue
        upper, message = LIMITS[key]
        for bad, dtype in ((upper, "int32"), (-1, "int64"), (upper, "float32")):
            changed = values.astype(dtype)
            place = (1,) + (0,) * (values.ndim - 2) + (1,)
            changed[place] = bad
            for method in METHODS:
                with pytest.raises(ValueError, match=message) as raised:
                    getattr(model, method)({**x, key: changed})
                start = f"{key} has {changed[place]} at {list(place)}"
                assert str(raised.value).startswith(start), (method, key)


@pytest.mark.parametrize("name", every_model.MODELS)
def test_rows_longer_than_the_positions(name: str) -> None:
    model = every_model.model(name)
    x = every_model.inputs(model, length=13)
    # Packed rows may be longer than the table, because they bring their own positions.
    if "position_ids" in x:
        x["position_ids"] %= 12
        ValueChecks(model).check(x)
        return
    for method in METHODS:
        with pytest.raises(ValueError, match=r"12 positions, .*13 tokens.*max_length=12"):
            getattr(model, method)(x)


def test_packed_rows_of_relative_positions_are_no_longer_than_they() -> None:
    view = BertEncoder(TINY.replace(position_embedding="relative_key")).packed()
    x = every_model.inputs(view, length=13)
    x["position_ids"] %= 12
    with pytest.raises(ValueError, match=r"model has 12 positions, .*13 tokens"):
        view.predict(x, verbose=0)


def test_tokens_with_an_axis_more() -> None:
    """A last axis of one element is accepted, because Keras removes it."""
    model = every_model.model("questions")
    x = {key: values[..., None] for key, values in every_model.inputs(model).items()}
    y = {"start": np.full(3, LENGTH - 1), "end": np.full(3, LENGTH - 1)}
    assert np.isfinite(model.test_on_batch(x, y)).all()


def _labels(model: Any, name: str) -> np.ndarray:
    """Return labels of zeros in the shape that this output expects."""
    x, shape = every_model.inputs(model), model.output[name].shape
    if name in (features.START, features.END, features.CHOICE):
        return np.zeros(3, "int32")
    if name == features.TAGS:
        return np.zeros_like(x["token_ids"])
    if name == features.MLM:
        return np.zeros_like(x["mask_positions"])
    return np.zeros((3, 2) if len(shape) == 3 and "first_positions" in x else 3, "int32")


@pytest.mark.parametrize("name", CLASSES)
def test_labels_of_no_class(name: str) -> None:
    """A label that is not a class is refused."""
    model = every_model.model(name)
    x = every_model.inputs(model)
    y = {output: _labels(model, output) for output in CLASSES[name]}
    checks = ValueChecks(model).with_losses(model.loss)
    checks.check(x, y)
    for output, classes in CLASSES[name].items():
        checks.check(x, {**y, output: y[output] + classes - 1})
        for bad in (classes, -1, -100, np.nan):
            changed = y[output].astype("float32" if np.isnan(bad) else "int64")
            place = (1,) * changed.ndim
            changed[place] = bad
            message = f"labels of output '{output}' have .* the output has {classes} classes"
            for method in WITH_LABELS:
                with pytest.raises(ValueError, match=message) as raised:
                    getattr(model, method)(x, {**y, output: changed})
                assert f"have {changed[place]} at {list(place)}, but" in str(raised.value)
            if len(model.output) == 1:
                with pytest.raises(ValueError, match=message):
                    model.fit(x, changed)
            with pytest.raises(ValueError, match=message):
                model.fit(x, y, validation_data=(x, {**y, output: changed}))


@pytest.mark.parametrize("name", OF_NUMBERS)
def test_labels_that_are_not_a_number(name: str) -> None:
    """A label of NaN is refused."""
    model, output = every_model.model(name), OF_NUMBERS[name]
    x = every_model.inputs(model)
    labels = np.full((3, model.output[output].shape[-1]), 7.0, "float32")
    ValueChecks(model).with_losses(model.loss).check(x, {output: labels})
    labels[2, 0] = np.nan
    for method in WITH_LABELS:
        with pytest.raises(ValueError, match=rf"output '{output}' have nan at \[2, 0\]"):
            getattr(model, method)(x, {output: labels})


def test_a_loss_that_is_the_users_own_takes_any_label() -> None:
    model = SequenceClassifier(BertEncoder(TINY), 3)
    x, y = every_model.inputs(model), np.array([0, 7, -100])

    def own(y_true: Any, y_pred: Any) -> Any:
        return keras.ops.mean(y_pred, axis=-1) + 0 * keras.ops.cast(y_true, "float32")

    for loss in (own, {"label": own}, [own], None, keras.losses.MeanSquaredError()):
        ValueChecks(model).with_losses(loss).check(x, y)
    ignoring = keras.losses.SparseCategoricalCrossentropy(True, ignore_class=-100)
    ValueChecks(model).with_losses(ignoring).check(x, np.array([0, 2, -100]))
    with pytest.raises(ValueError, match="have 7"):
        ValueChecks(model).with_losses(ignoring).check(x, y)


@pytest.mark.parametrize(
    "loss",
    [
        "sparse_categorical_crossentropy",
        keras.losses.sparse_categorical_crossentropy,
        keras.losses.SparseCategoricalCrossentropy(),
        TokenClassifier(BertEncoder(TINY), 4).loss_and_metrics()["loss"]["tags"],
    ],
)
def test_losses_of_classes(loss: Any) -> None:
    """The number of classes is known only for losses with integer labels."""
    assert label_classes(loss, (None, None, 4)) == 4
    assert label_classes(keras.losses.CategoricalCrossentropy(), (None, 4)) is None


def test_numbers_of_every_kind() -> None:
    """Arrays and tensors of every integer and float type are accepted."""
    checks = ValueChecks(every_model.model("encoder"))
    x = every_model.inputs(every_model.model("encoder"))
    for dtype in ("int8", "uint8", "int64", ">i4", "float16", "float64"):
        checks.check({key: values.astype(dtype) for key, values in x.items()})
        checks.check({key: values.astype(dtype)[:, ::2] for key, values in x.items()})
    checks.check({key: keras.ops.convert_to_tensor(values) for key, values in x.items()})
    checks.check({key: values[:0] for key, values in x.items()})
    checks.check({**x, "segment_ids": x["segment_ids"] > 0})
