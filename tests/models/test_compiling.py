"""A loss that expects probabilities is refused for logits, in every form that Keras accepts."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras import BertEncoder, SequenceClassifier, TokenClassifier, Tokenizer, models
from bert_keras.data import dataset
from bert_keras.models.compiling import _OF_PROBABILITIES, check_losses
from tests.case_names import case_name
from tests.models import every_model
from tests.models.test_compiling_optimizer import warned
from tests.models.test_text_fit import QUIET, TEXTS, classifier, compiled, examples
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


@pytest.mark.parametrize("loss", LOSSES, ids=case_name)
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
    ids=case_name,
)
def test_other_losses_are_taken(loss: Any) -> None:
    check_losses(loss, ["label"])
    check_losses({"label": loss}, ["label"])


def test_numbers_are_no_logits() -> None:
    """A regression task accepts losses that expect probabilities."""
    number = SequenceClassifier(BertEncoder(CONFIG), 1)
    check_losses("binary_crossentropy", ["label"], number.not_logits)


@pytest.mark.parametrize("name", every_model.classes_below(models.Task))
def test_the_loss_of_every_task_is_taken(name: str) -> None:
    task = task_over(every_model.classes_below(models.Task)[name], BertEncoder(CONFIG))
    check_losses(task.loss_and_metrics()["loss"], list(task.output), task.not_logits)


# === `class_weight` with features equals the weights of `text_examples`, in every form of data ===


WEIGHTS = {"bad": 1.0, "good": 3.0}


def _losses(x: Any, *more: Any, **options: Any) -> list[float]:
    task = compiled(classifier())
    found: list[float] = []
    warned(  # Keras warns when a generator ends
        lambda: found.extend(
            task.fit(x, *more, epochs=1, shuffle=False, **options, **QUIET).history["loss"]
        )
    )
    return found


def _batches() -> Any:
    """Yield the batches in one width, which Keras requires from a generator on TensorFlow."""
    made = examples(seed=None)
    for position in range(made.num_batches(0)):
        x, *rest = made.batch(0, position)
        yield (
            {name: np.pad(ids, ((0, 0), (0, 16 - ids.shape[1]))) for name, ids in x.items()},
            *rest,
        )


def test_every_form_of_data_gives_the_losses_of_weighed_examples() -> None:
    expected = _losses(dataset(examples(seed=None, class_weights=WEIGHTS)))
    sources = {"dataset": lambda: dataset(examples(seed=None)), "generator": _batches}
    for name, source in sources.items():
        for weights in (WEIGHTS, {0: 1.0, 1: 3.0}, {1: 3.0}):
            found = _losses(source(), class_weight=weights)
            np.testing.assert_allclose(found, expected, atol=1e-6, err_msg=name)


def test_arrays_have_labels_in_both_forms() -> None:
    made = examples(seed=None)
    x, y, _ = made.batch_of(0, np.arange(len(TEXTS)))
    weights = np.where(y["label"] == 1, 3.0, 1.0).astype(np.float32)
    expected = _losses(x, y, sample_weight={"label": weights}, batch_size=4)
    column = y["label"][:, None]
    for labels in (y, y["label"], y["label"].astype(np.int64), {"label": column}, column):
        found = _losses(x, labels, class_weight=WEIGHTS, batch_size=4)
        np.testing.assert_allclose(found, expected, atol=1e-6)
    halved = {"label": np.full(len(TEXTS), 0.5, np.float32)}
    found = _losses(x, y, sample_weight=halved, class_weight={"bad": 2.0, 1: 6.0}, batch_size=4)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_loader_of_pytorch_is_weighed() -> None:
    torch = pytest.importorskip("torch")
    made = examples(seed=None)
    x, y, _ = made.batch_of(0, np.arange(len(TEXTS)))

    def rows(weight: float | None) -> list[Any]:
        """Return one example per text: (x, y), or (x, y, sample weight)."""
        more = () if weight is None else ({"label": np.float32(weight)},)
        return [
            ({name: ids[row] for name, ids in x.items()}, {"label": y["label"][row]}, *more)
            for row in range(len(TEXTS))
        ]

    expected = _losses(x, y, class_weight=WEIGHTS, batch_size=4)
    for weight, classes in ((None, WEIGHTS), (0.5, {"bad": 2.0, "good": 6.0})):
        loader = torch.utils.data.DataLoader(rows(weight), batch_size=4)
        np.testing.assert_allclose(_losses(loader, class_weight=classes), expected, atol=1e-6)


def test_equal_weights_change_nothing() -> None:
    expected = _losses(dataset(examples(seed=None)))
    assert _losses(dataset(examples(seed=None)), class_weight={0: 1.0, 1: 1.0}) == expected


def test_what_has_no_class_is_refused() -> None:
    """`class_weight` is refused for unknown labels and for tasks without classes."""
    task = compiled(classifier())
    with pytest.raises(ValueError, match="names or indices of the labels bad, good"):
        task.fit(dataset(examples()), class_weight={2: 1.0}, **QUIET)
    x, y, _ = examples().batch(0, 0)
    with pytest.raises(ValueError, match="class indices"):
        task.fit(x, {"label": np.zeros((4, 2), np.float32)}, class_weight=WEIGHTS, **QUIET)

    kinds: list[dict[str, Any]] = [
        {"num_classes": 1},
        {"labels": ["a", "b"], "problem": "multi_label"},
    ]
    for options in kinds:
        task = SequenceClassifier(BertEncoder(CONFIG), **options)
        with pytest.raises(ValueError, match=r"one label of a text.*with problem="):
            task.fit(x, y, class_weight={0: 2.0}, **QUIET)
    tagger = task_over(TokenClassifier, BertEncoder(CONFIG))
    with pytest.raises(ValueError, match="whose output is the one label of a text"):
        tagger.fit(x, y, class_weight=WEIGHTS, **QUIET)
