"""Few-shot classification: pairs that train the encoder, and a logistic regression as the head."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras import (
    BertEncoder,
    Predictor,
    SentenceEncoder,
    SequenceClassifier,
    fit_few_shot,
    load_checkpoint,
)
from bert_keras.errors import DataError
from bert_keras.models import FewShot
from bert_keras.models.few_shot import classifier_over
from bert_keras.tokenizers import Tokenizer
from bert_keras.tokenizers.vocabulary import SPECIAL_TOKENS
from tests import contracts

_linear_model = pytest.importorskip("sklearn.linear_model")

TOKENIZER = Tokenizer([*SPECIAL_TOKENS, *"abcdefgh", "query", ":"])
CONFIG = contracts.TINY.replace(vocab_size=TOKENIZER.vocab_size, num_layers=1, dropout=0.1)
TEXTS = ["a b", "b", "a a b", "c d", "d", "c c", "e f g h", "f"]
TWO, THREE = [*"xxxyyyyy"], [*"xxxyyyzz"]
SEVERAL = [("x",), ("x", "y"), ("x",), ("y",), ("y", "z"), ("z",), (), ("z",)]


def _encoder(dropout_seed: int = 0, **options: Any) -> SentenceEncoder:
    keras.utils.set_random_seed(dropout_seed)
    encoder = contracts.as_trained(BertEncoder(CONFIG))
    return SentenceEncoder(encoder, **{"tokenizer": TOKENIZER, **options})


@pytest.mark.parametrize(
    ("options", "labels", "expected"),
    [
        ({}, TWO, {"pooling": "mean", "normalize": True}),
        ({"normalize": False}, THREE, {"pooling": "mean"}),
        ({"pooling": "cls"}, THREE, {"pooling": "first_token", "normalize": True}),
        (
            {"prompts": {"q": "query : "}, "default_prompt_name": "q", "pooling": "cls"},
            TWO,
            {"pooling": "first_token", "normalize": True, "default_prompt_name": "q"},
        ),
    ],
    ids=["two labels", "not normalised", "cls", "prompt"],
)
def test_probabilities_are_those_of_the_regression_on_the_vectors(
    options: dict[str, Any], labels: list[str], expected: dict[str, Any]
) -> None:
    sentences = _encoder(**options)
    task = fit_few_shot(sentences, TEXTS, labels, epochs=0)
    assert task.encoder is sentences.encoder
    assert {name: task.options.get(name) for name in expected} == expected
    regression = _linear_model.LogisticRegression().fit(sentences.encode(TEXTS), labels)
    assert task.options["labels"] == [*regression.classes_]
    new = ["a d", "h", "b b c"]
    probabilities = regression.predict_proba(sentences.encode(new))
    np.testing.assert_allclose(task.predict_scores(new), probabilities, atol=1e-5)


def test_several_labels_are_one_regression_each() -> None:
    sentences = _encoder()
    task = fit_few_shot(sentences, TEXTS, SEVERAL, problem="multi_label", epochs=0)
    flags = np.array([[label in row for label in "xyz"] for row in SEVERAL], int)
    vectors = sentences.encode(TEXTS)
    for number, column in enumerate(flags.T):
        regression = _linear_model.LogisticRegression().fit(vectors, column)
        expected = regression.predict_proba(vectors)[:, 1]
        np.testing.assert_allclose(task.predict_scores(TEXTS)[:, number], expected, atol=1e-5)
    options: dict[str, Any] = {"problem": "multi_label", "epochs": 0}
    same = fit_few_shot(sentences, TEXTS, flags, labels=[*"xyz"], **options)
    np.testing.assert_array_equal(same.predict_scores(TEXTS), task.predict_scores(TEXTS))


def test_training_brings_texts_of_one_label_together() -> None:
    sentences = _encoder()

    def gap() -> float:
        """Return how much nearer texts of one label are than others, by the cosine."""
        vectors = sentences.encode(TEXTS)
        cosines, is_same = vectors @ vectors.T, np.array(THREE)[:, None] == np.array(THREE)
        return float(cosines[is_same].mean() - cosines[~is_same].mean())

    before = gap()
    task = fit_few_shot(sentences, TEXTS, THREE, epochs=4, verbose=0, learning_rate=1e-2)
    assert gap() > before + 0.2
    # The head is of the vectors after the training.
    regression = _linear_model.LogisticRegression().fit(sentences.encode(TEXTS), THREE)
    probabilities = regression.predict_proba(sentences.encode(TEXTS))
    np.testing.assert_allclose(task.predict_scores(TEXTS), probabilities, atol=1e-5)


def test_the_same_seed_gives_the_same_classifier() -> None:
    scores = []
    for global_seed in (0, 1):
        sentences = _encoder(global_seed)  # of the same weights
        keras.utils.set_random_seed(global_seed)
        task = fit_few_shot(sentences, TEXTS, TWO, seed=3, verbose=0, learning_rate=1e-3)
        scores.append(task.predict_scores(TEXTS))
    np.testing.assert_array_equal(*scores)


def test_a_saved_classifier_answers_the_same(tmp_path: Path) -> None:
    task = fit_few_shot(_encoder(), TEXTS, THREE, max_length=6, epochs=0)
    expected = task.predict_scores(TEXTS)
    task.save_to_preset(tmp_path / "folder")
    opened = load_checkpoint(tmp_path / "folder")
    assert isinstance(opened, SequenceClassifier)
    assert opened.options == task.options
    task.save(tmp_path / "task.keras")
    answering: list[Any] = [
        opened,
        Predictor.from_preset(tmp_path / "folder"),
        keras.models.load_model(tmp_path / "task.keras"),
    ]
    for model in answering:
        assert model.max_length == 6
        np.testing.assert_allclose(model.predict_scores(TEXTS), expected, atol=1e-6)


def test_a_view_that_is_saved_and_opened_goes_on(tmp_path: Path) -> None:
    task = classifier_over(_encoder(), [*"xyz"], "multi_label")
    view = FewShot(task, TEXTS, SEVERAL)
    view.save(tmp_path / "view.keras")
    opened: Any = keras.models.load_model(tmp_path / "view.keras")
    expected = view.trained_model().predict_scores(TEXTS)
    np.testing.assert_allclose(opened.trained_model().predict_scores(TEXTS), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        ([*"xxxxxxxx"], {}, "different labels. Received: all 8 texts have the label 'x'"),
        (TWO, {"labels": [*"xyz"]}, "a text of every label. Received: none of 'z'"),
        (TWO, {"labels": [*"xz"]}, "unknown label 'y'"),
        (
            [("x",)] * 4 + [("x", "y")] * 4,
            {"problem": "multi_label"},
            "texts without the label 'x' too. Received: all 8",
        ),
    ],
)
def test_bad_labels(labels: list[Any], options: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        fit_few_shot(_encoder(), TEXTS, labels, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pooling": "max"}, "poolings mean and cls, .*Received: pooling='max'"),
        ({"dense": [{"units": 4}]}, "without further layers. .* dense="),
        ({"truncate_dim": 4}, "without further layers. .*, truncate_dim=4"),
        ({"tokenizer": None}, "has no tokenizer"),
    ],
)
def test_vectors_that_no_classifier_has(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fit_few_shot(_encoder(**options), TEXTS, TWO)


def test_other_arguments() -> None:
    with pytest.raises(TypeError, match=r"starts with a sentence encoder.* Received: BertEncoder"):
        fit_few_shot(BertEncoder(CONFIG), TEXTS, TWO)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=r"Received: problem='regression'"):
        fit_few_shot(_encoder(), TEXTS, [0.5] * 8, labels=["a"], problem="regression")
    flags = np.eye(8, 3, dtype=int)
    with pytest.raises(ValueError, match=r"Pass `labels`.* Received: y of the shape \(8, 3\)"):
        fit_few_shot(_encoder(), TEXTS, flags, problem="multi_label")
    with pytest.raises(ValueError, match="`max_length` must be from 3 to 12"):
        fit_few_shot(_encoder(), TEXTS, TWO, max_length=13)
    task = SequenceClassifier(BertEncoder(CONFIG), labels=[*"xy"], tokenizer=TOKENIZER)
    with pytest.raises(ValueError, match=r"Make the classifier with pooling='mean'.*pooling='cls'"):
        FewShot(task, TEXTS, TWO)


@pytest.mark.parametrize("pooling", ["cls", "late"])
def test_a_pooling_that_is_not_normalised(pooling: str) -> None:
    with pytest.raises(ValueError, match=f"mean and first_token. Received: pooling='{pooling}'"):
        SequenceClassifier(BertEncoder(CONFIG), 2, pooling=pooling, normalize=True)
