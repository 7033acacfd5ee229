"""Text classification: the predicted labels have the highest logits."""

from __future__ import annotations

import numpy as np
import pytest

from bert_keras.inference.text_classification import labels, probabilities
from bert_keras.predictor import Label, Predictor

TEXTS = ["hello world", "the wanted mask", "un", "", "a b c d e f g h"]
LOGITS = np.array([[2.0, 0.0, -1.0], [-3.0, 0.5, 0.25]], np.float32)
NAMES = ["bad", "good", "so"]


def test_probabilities_of_logits() -> None:
    single = probabilities(LOGITS, "single_label")
    np.testing.assert_allclose(single, np.exp(LOGITS) / np.exp(LOGITS).sum(1, keepdims=True), 1e-6)
    each = probabilities(LOGITS, "multi_label")
    np.testing.assert_allclose(each, 1 / (1 + np.exp(-LOGITS)), rtol=1e-6)
    assert probabilities(LOGITS, "regression") is LOGITS


def test_logits_that_would_overflow() -> None:
    far = np.array([[1000.0, -1000.0]], np.float32)
    assert probabilities(far, "single_label").tolist() == [[1.0, 0.0]]
    assert probabilities(far, "multi_label").tolist() == [[1.0, 0.0]]


def test_the_best_label_or_several() -> None:
    scores = np.array([[0.5, 0.25, 0.75], [0.25, 0.125, 0.0]])
    options = {"top_k": None, "threshold": 0.5}
    best = labels(scores, NAMES, "single_label", **options)
    assert best == [Label("so", 0.75), Label("bad", 0.25)]
    several = labels(scores, NAMES, "multi_label", **options)
    assert several == [[Label("so", 0.75), Label("bad", 0.5)], []]
    for problem in ("single_label", "multi_label"):
        found = labels(scores, NAMES, problem, top_k=2, threshold=0.9)
        assert [[label.label for label in row] for row in found] == [["so", "bad"], ["bad", "good"]]
    assert len(labels(scores, NAMES, "single_label", top_k=9, threshold=0.5)[0]) == 3


def test_a_predictor_scores_as_the_model_does(task, tokenizer) -> None:
    for kind, problem in (
        ("labels", "single_label"),
        ("several", "multi_label"),
        ("numbers", "regression"),
    ):
        found = Predictor(task(kind), tokenizer, batch_size=2).predict_scores(TEXTS, TEXTS[::-1])
        assert found.dtype == np.float32
        logits = task(kind).predict_on_batch(tokenizer(TEXTS, TEXTS[::-1]))["label"]
        np.testing.assert_allclose(found, probabilities(logits, problem), atol=1e-5)
        if problem == "single_label":
            np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-5)


def test_a_predictor_names_its_labels(task, tokenizer) -> None:
    predictor = Predictor(task("labels"), tokenizer)
    assert predictor.label_names == NAMES
    scores, found = predictor.predict_scores(TEXTS), predictor.predict_labels(TEXTS)
    assert [label.label for label in found] == [NAMES[row.argmax()] for row in scores]
    assert [label.score for label in found] == scores.max(axis=1).tolist()
    ranked = predictor.predict_labels(TEXTS, top_k=2)
    assert [row[0] for row in ranked] == found
    several = Predictor(task("several"), tokenizer)
    for threshold in (0.2, 0.5, 0.9):
        rows = several.predict_labels(TEXTS, threshold=threshold)
        expected = [{*row[row >= threshold].tolist()} for row in several.predict_scores(TEXTS)]
        assert [{label.score for label in row} for row in rows] == expected


def test_labels_of_pairs_that_are_read_apart(task, tokenizer) -> None:
    predictor = Predictor(task("pairs"), tokenizer, batch_size=2)
    found = predictor.predict_scores(TEXTS, TEXTS[::-1])
    for row, pair in zip(found, zip(TEXTS, TEXTS[::-1], strict=True), strict=True):
        x = {name: values[None] for name, values in tokenizer(list(pair)).items()}
        x = {name: values for name, values in x.items() if name in task("pairs").input}
        logits = task("pairs").predict_on_batch(x)["label"]
        np.testing.assert_allclose(row, probabilities(logits, "single_label")[0], atol=1e-5)
    assert [label.label for label in predictor(TEXTS, TEXTS[::-1])] == [
        NAMES[row.argmax()] for row in found
    ]
    assert predictor.predict_labels([], []) == []
    with pytest.raises(ValueError, match="5 firsts, 0 seconds"):
        predictor(TEXTS)


def test_no_texts(task, tokenizer) -> None:
    predictor = Predictor(task("labels"), tokenizer)
    assert (
        predictor.predict_labels([])
        == predictor.predict_labels([], [])
        == predictor.predict_labels([], top_k=1)
        == []
    )
    assert predictor.predict_scores([]).shape == (0, 3)


def test_what_cannot_be_labelled(task, tokenizer) -> None:
    with pytest.raises(ValueError, match="of a regression: `predict_scores`"):
        Predictor(task("numbers"), tokenizer).predict_labels(TEXTS)
    predictor = Predictor(task("labels"), tokenizer)
    with pytest.raises(ValueError, match="top_k=0"):
        predictor.predict_labels(TEXTS, top_k=0)
    with pytest.raises(ValueError, match="5 firsts, 1 seconds"):
        predictor.predict_labels(TEXTS, ["a"])
    with pytest.raises(TypeError, match="`pairs` is one text or row, and `texts` is a list"):
        predictor.predict_labels(["hello", "a"], "un")
    with pytest.raises(ValueError, match=r"`predict_scores` needs .*'label'.*TokenClassifier"):
        Predictor(task("tags"), tokenizer).predict_labels(TEXTS)
