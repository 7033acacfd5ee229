"""`fit`, `evaluate` and `predict` with text use the batches of the data functions.

`fit` compiles.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pyarrow as pa
import pytest

from bert_keras import BertEncoder, SequenceClassifier, Tokenizer, models, optimizer
from bert_keras.data import Texts, dataset, length_multiple, text_examples
from bert_keras.errors import DataError
from bert_keras.models.text_fit import FitsText
from bert_keras.task_names import FINETUNING
from tests.contracts import MAY_CUT, TINY
from tests.models import every_model
from tests.models.test_with_tokenizer import task_over
from tests.tokenizers.samples import VOCABULARY

CONFIG = TINY.replace(
    vocab_size=len(VOCABULARY), num_layers=1, dropout=0.0, attention_dropout=0.0, max_positions=24
)
GOOD, BAD = "hello the world want", "unaffable unwanted mask"
TEXTS = [GOOD, BAD, f"{GOOD} the", f"{BAD} sep mask", "the hello", "mask unwanted sep"] * 3
LABELS = ["good", "bad"] * 9
QUIET: dict[str, Any] = {"verbose": 0}


def classifier(**options: Any) -> SequenceClassifier:
    """Return a small classifier with a tokenizer."""
    keras.utils.set_random_seed(1)
    options = {"num_classes": 2, "labels": ["bad", "good"], "dropout": 0.0, **options}
    return SequenceClassifier(BertEncoder(CONFIG), **options, tokenizer=Tokenizer(VOCABULARY))


def examples(seed: int | None = 0, **options: Any) -> Any:
    """Return the examples that the data functions make of the texts."""
    return text_examples(
        Tokenizer(VOCABULARY),
        Texts(TEXTS, None, LABELS),
        labels=["bad", "good"],
        max_length=16,
        batch_size=4,
        multiple_of=length_multiple(),
        seed=seed,
        **options,
    )


def compiled(task: Any, steps: int = 10) -> Any:
    """Return the task, compiled with its loss and an optimizer as a caller compiles it."""
    task.compile(optimizer(1e-2, total_steps=steps), **task.loss_and_metrics())
    return task


# === The batches are the same ===


def test_text_trains_as_the_dataset_of_its_examples() -> None:
    text, features = compiled(classifier()), compiled(classifier())
    ours = text.fit(TEXTS, LABELS, batch_size=4, epochs=2, max_length=16, **QUIET)
    theirs = features.fit(dataset(examples()), epochs=2, **QUIET)
    np.testing.assert_allclose(ours.history["loss"], theirs.history["loss"], atol=1e-6)
    assert text.evaluate(TEXTS, LABELS, batch_size=4, **QUIET) == pytest.approx(
        features.evaluate(dataset(examples(seed=None)), **QUIET), abs=1e-6
    )


def test_class_weights_are_those_of_the_examples() -> None:
    weights = {"bad": 1.0, "good": 3.0}
    by_name, by_index, features = (compiled(classifier()) for _ in range(3))
    history = [
        by_name.fit(
            TEXTS, LABELS, batch_size=4, max_length=16, class_weight=weights, **QUIET
        ).history["loss"],
        by_index.fit(
            TEXTS, LABELS, batch_size=4, max_length=16, class_weight={1: 3.0}, **QUIET
        ).history["loss"],
        features.fit(dataset(examples(class_weights=weights)), **QUIET).history["loss"],
    ]
    np.testing.assert_allclose(history[0], history[2], atol=1e-6)
    np.testing.assert_allclose(history[1], history[2], atol=1e-6)


def test_a_text_of_weight_0_is_not_learned() -> None:
    weights = [0.0 if label == "good" else 1.0 for label in LABELS]
    task = compiled(classifier(), steps=40)
    task.fit(TEXTS, LABELS, batch_size=6, epochs=12, sample_weight=weights, **QUIET)
    assert {label.label for label in task.predict_labels(TEXTS)} == {"bad"}


CONTAINERS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "NumPy": lambda: (np.array(TEXTS), np.array(LABELS)),
    "objects": lambda: (np.array(TEXTS, object), np.array(LABELS, object)),
    "indices": lambda: (TEXTS, np.array([label == "good" for label in LABELS], np.int64)),
    "Arrow": lambda: (pa.array(TEXTS), pa.array(LABELS)),
    "a dictionary": lambda: ({"text": TEXTS}, {"label": LABELS}),
    "tuples": lambda: (tuple(TEXTS), tuple(LABELS)),
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_every_container_gives_the_same_training(name: str) -> None:
    options: dict[str, Any] = {"batch_size": 4, "validation_split": 0.2, **QUIET}
    expected = compiled(classifier()).fit(TEXTS, LABELS, **options).history
    x, y = CONTAINERS[name]()
    found = compiled(classifier()).fit(x, y, **options).history
    assert found.keys() == expected.keys()
    assert "val_loss" in found
    for key, values in expected.items():
        np.testing.assert_allclose(found[key], values, atol=1e-6)


def test_a_dataset_of_strings_is_text() -> None:
    if keras.backend.backend() != "tensorflow":
        pytest.skip("tf.data is read under the TensorFlow backend")
    import tensorflow as tf

    expected = compiled(classifier()).fit(TEXTS, LABELS, batch_size=4, **QUIET).history
    single = tf.data.Dataset.from_tensor_slices((TEXTS, LABELS))
    for data in (single, single.batch(5)):
        found = compiled(classifier()).fit(data, batch_size=4, **QUIET).history
        np.testing.assert_allclose(found["loss"], expected["loss"], atol=1e-6)
    assert classifier().predict(single.map(lambda text, _: text)).shape == (18, 2)


# === Validation ===


def test_validation_data_of_text_are_measured_in_their_order() -> None:
    task = compiled(classifier())
    history = task.fit(
        TEXTS, LABELS, batch_size=4, validation_data=(TEXTS[:7], LABELS[:7]), **QUIET
    ).history
    measured = task.evaluate(TEXTS[:7], LABELS[:7], batch_size=4, return_dict=True, **QUIET)
    assert history["val_loss"][-1] == pytest.approx(measured["loss"], abs=1e-6)


def test_a_validation_split_leaves_its_rows_out() -> None:
    task = compiled(classifier())
    task.fit(TEXTS, LABELS, batch_size=4, validation_split=0.5, **QUIET)
    assert int(task.optimizer.iterations) == math.ceil(9 / 4)
    with pytest.raises(DataError, match=r"At least two rows .* Received: 1"):
        task.fit(TEXTS[:1], LABELS[:1], validation_split=0.5, **QUIET)


# === Compiling ===


def test_a_task_that_was_not_compiled_learns(capsys: pytest.CaptureFixture[str]) -> None:
    task = classifier()
    first = task.fit(TEXTS, LABELS, batch_size=4, epochs=3, verbose=2)
    printed = capsys.readouterr().out
    assert printed.count("compiled with AdamW") == 1
    assert "over 15 steps" in printed
    assert int(task.optimizer.iterations) == 15
    assert first.history["loss"][-1] < first.history["loss"][0]


def test_every_later_fit_begins_a_new_schedule(tmp_path: Path) -> None:
    task = classifier()
    task.fit(TEXTS, LABELS, batch_size=4, epochs=2, **QUIET)
    # The schedule of the first optimizer has ended.
    assert float(task.optimizer.learning_rate) == 0.0
    task.save(tmp_path / "task.keras")
    for later in (task, keras.models.load_model(tmp_path / "task.keras")):
        before = [keras.ops.convert_to_numpy(each) for each in later.trainable_variables]
        later.fit(TEXTS, LABELS, batch_size=4, epochs=2, **QUIET)
        after = [keras.ops.convert_to_numpy(each) for each in later.trainable_variables]
        moved = max(np.abs(a - b).max() for a, b in zip(before, after, strict=True))
        assert moved > 1e-5


def test_the_compiling_of_the_caller_stays() -> None:
    task = compiled(classifier())
    own = task.optimizer
    task.fit(TEXTS, LABELS, batch_size=4, **QUIET)
    assert task.optimizer is own


@pytest.mark.parametrize(
    "callback",
    [
        lambda: keras.callbacks.LearningRateScheduler(lambda epoch, _: 1e-3 * (epoch + 1)),
        lambda: keras.callbacks.ReduceLROnPlateau("loss", factor=0.5, patience=0, min_delta=10.0),
    ],
    ids=["LearningRateScheduler", "ReduceLROnPlateau"],
)
def test_a_callback_may_set_the_rate(
    callback: Callable[[], Any], capsys: pytest.CaptureFixture[str]
) -> None:
    task, rule = classifier(), callback()
    task.fit(TEXTS, LABELS, batch_size=4, epochs=3, callbacks=[rule], verbose=2)
    assert f"a constant rate of 0.0001 until {type(rule).__name__} sets" in capsys.readouterr().out
    is_scheduler = isinstance(rule, keras.callbacks.LearningRateScheduler)
    expected = 3e-3 if is_scheduler else FINETUNING.learning_rate * 0.25
    assert float(keras.ops.convert_to_numpy(task.optimizer.learning_rate)) == pytest.approx(
        expected, rel=1e-5
    )


def test_keras_callbacks_work(tmp_path: Path) -> None:
    task = classifier()
    best = tmp_path / "best.keras"
    history = task.fit(
        TEXTS,
        LABELS,
        batch_size=4,
        epochs=5,
        validation_split=0.3,
        callbacks=[
            keras.callbacks.EarlyStopping("val_loss", min_delta=10.0, patience=1),
            keras.callbacks.ModelCheckpoint(best, save_best_only=True),
        ],
        **QUIET,
    )
    assert len(history.history["loss"]) == 2
    opened: Any = keras.models.load_model(best)
    assert opened.predict_labels([GOOD])[0].label in ("bad", "good")
    assert opened.max_length == 24


def test_steps_per_epoch_are_kept() -> None:
    task = classifier()
    task.fit(TEXTS, LABELS, batch_size=4, epochs=2, steps_per_epoch=3, **QUIET)
    assert int(task.optimizer.iterations) == 6


def test_features_compile_a_task_too() -> None:
    task = classifier()
    task.fit(dataset(examples()), epochs=2, **QUIET)
    assert int(task.optimizer.iterations) == 10
    with pytest.raises(ValueError, match="`max_length` is for text"):
        task.fit(dataset(examples()), max_length=16, **QUIET)


# === Answers ===


def test_predict_of_text_is_the_logits_in_order() -> None:
    task = classifier()
    encode = task.required_tokenizer()
    logits = task.predict(TEXTS)
    for row, text in enumerate(TEXTS):
        one = task.predict_on_batch(encode([text], max_length=24))["label"]
        np.testing.assert_allclose(logits[row], one[0], atol=1e-5)


@MAY_CUT
def test_the_length_and_the_pairs_of_the_training_are_kept() -> None:
    task = classifier()
    task.fit((TEXTS, TEXTS[::-1]), LABELS, batch_size=8, max_length=16, **QUIET)
    assert (task.max_length, task.predictor_config.pairs) == (16, True)


# === Every task ===

WORDS = [["the", "hello"], ["world"], ["mask", "want", "sep"]] * 2
PAIRED = (TEXTS[:6], TEXTS[6:12])
DATA: dict[str, tuple[Any, Any]] = {
    "SequenceClassifier": (TEXTS[:6], ["bad", "good", "so"] * 2),
    "TokenClassifier": (WORDS, [["O", "B-PER"], ["B-PER"], ["B-PER", "I-PER", "O"]] * 2),
    "QuestionAnswerer": ((["hello", "the"] * 3, ["the hello", "want mask"] * 3), ["hello", ""] * 3),
    "MultipleChoice": ((TEXTS[:6], [["the", "want"]] * 6), [0, 1] * 3),
    "TextRanker": ((TEXTS[:6], [["the", "want"]] * 6), [[0, 1]] * 6),
    "SentencePairs": (PAIRED, None),
    "SentenceEncoder": (TEXTS[:6], np.ones((6, CONFIG.hidden_size), np.float32)),
    "MaskedLM": (TEXTS[:6], None),
}


def text_tasks() -> list[str]:
    """Return the names of the task classes that train on text."""
    classes = every_model.classes_below(models.Task)
    return [name for name, cls in classes.items() if cls.examples_of is not FitsText.examples_of]


@pytest.mark.parametrize("name", text_tasks())
def test_every_task_trains_on_text_and_predicts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    keras.utils.set_random_seed(2)
    cls = every_model.classes_below(models.Task)[name]
    task = task_over(cls, BertEncoder(CONFIG), tokenizer=Tokenizer(VOCABULARY))
    x, y = DATA[name]
    history = task.fit(x, y, batch_size=3, epochs=2, validation_data=(x, y), **QUIET).history
    assert np.isfinite([history["loss"], history["val_loss"]]).all()
    assert np.isfinite(task.evaluate(x, y, return_dict=True, **QUIET)["loss"])
    texts = x[0] if isinstance(x, tuple) else x
    if name == "MaskedLM":
        x = [f"{text} [MASK]" for text in texts]
    expected = task.predict(x)
    assert len(expected) == len(texts)
    sizes: list[int] = []
    run = keras.Model.predict_on_batch

    def counted(self: Any, x: Any) -> Any:
        sizes.append(len(x["token_ids"]))
        return run(self, x)

    monkeypatch.setattr(keras.Model, "predict_on_batch", counted)
    found = task.predict(x, batch_size=2)
    assert sizes[:3] == [2, 2, 2]
    for one, other in zip(keras.tree.flatten(found), keras.tree.flatten(expected), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.parametrize("name", sorted(set(every_model.classes_below(models.Task)) - {*DATA}))
def test_a_task_of_features_alone_says_so(name: str) -> None:
    """A task that takes no text refuses text and says so."""
    cls = every_model.classes_below(models.Task)[name]
    task = task_over(cls, BertEncoder(CONFIG), tokenizer=Tokenizer(VOCABULARY))
    with pytest.raises(ValueError, match="takes features, not text"):
        task.fit(TEXTS, **QUIET)


# === Refused arguments ===


@pytest.mark.parametrize("way", ["fit", "evaluate"])
def test_a_generator_with_targets_beside_it_is_refused(way: str) -> None:
    with pytest.raises(ValueError, match=r"a generator, which must yield .* Pass text as a list"):
        getattr(classifier(), way)((text for text in ["a", "b"]), ["bad", "good"], verbose=0)


def test_bad_rows_are_named() -> None:
    task = classifier()
    with pytest.raises(DataError, match=r"row 1.*None"):
        task.fit([GOOD, None, BAD], ["good", "bad", "bad"], **QUIET)
    with pytest.raises(DataError, match="unknown label 'so'"):
        task.fit(TEXTS, ["so", *LABELS[1:]], **QUIET)
    with pytest.raises(DataError, match=r"index 7|7"):
        task.fit(TEXTS, [7] * 18, **QUIET)
    with pytest.raises(ValueError, match="no labels"):
        task.fit(TEXTS, **QUIET)
    for weight in (None, math.nan, math.inf, -1.0):
        with pytest.raises(DataError, match="sample_weight: the weight of row 2 must be"):
            task.fit(TEXTS, LABELS, sample_weight=[1.0, 1.0, weight, *[1.0] * 15], **QUIET)
    with pytest.raises(DataError, match="not one str"):
        task.predict(GOOD)
    for size in (0, 1.5):
        with pytest.raises(ValueError, match="`batch_size` must be an integer of at least 1"):
            task.predict(TEXTS, batch_size=size)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="are for features, not for text"):
        task.predict(TEXTS, steps=1)
    with pytest.raises(ValueError, match="has no tokenizer"):
        SequenceClassifier(BertEncoder(CONFIG), 2).fit(TEXTS, LABELS, **QUIET)
