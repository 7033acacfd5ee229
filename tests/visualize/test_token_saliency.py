"""Scores of tokens: against numerical differences, labels, sign and text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bert_keras import Predictor
from bert_keras.layers.embeddings import token_vectors_from
from bert_keras.models import BertEncoder, SequenceClassifier
from bert_keras.visualize import saliency, token_saliency
from bert_keras.visualize.token_saliency import SaliencyPicture
from tests.contracts import FAMILIES, as_trained, numpy
from tests.visualize.pictures import CONFIG, TOKENIZER, classifier, one_backend

TEXT = "a b c ab"
_ONE_BACKEND = [
    pytest.param(family, marks=one_backend)
    for family in ("projected", "sinusoidal", "shared_blocks")
]


def _numerical(task: SequenceClassifier, text: str, pair: str | None, label: int) -> np.ndarray:
    """Return gradient x input of each token by central differences along its own vector.

    The derivative of the logit in the direction of a token's vector is the score of the token.
    """
    pairs = None if pair is None else [pair]
    x = TOKENIZER([text], pairs)
    x = {tensor.name: x[tensor.name] for tensor in task.inputs}
    vectors = numpy(task.encoder.embeddings.token(x["token_ids"]))

    def logit(values: np.ndarray) -> float:
        with token_vectors_from(values.astype(np.float32)):
            outputs: Any = task(x)
        return float(numpy(outputs["label"])[0, label])

    scores, step = [], 0.05
    for place in range(vectors.shape[1]):
        change = np.zeros_like(vectors)
        change[0, place] = vectors[0, place] * step
        scores.append((logit(vectors + change) - logit(vectors - change)) / (2 * step))
    return np.array(scores)


@pytest.mark.parametrize("family", ["bert", *_ONE_BACKEND])
def test_scores_are_those_of_numerical_differences(family: str) -> None:
    config = FAMILIES[family].replace(vocab_size=CONFIG.vocab_size, max_positions=24)
    task = as_trained(SequenceClassifier(BertEncoder(config), 3, tokenizer=TOKENIZER))
    picture = saliency(task, TEXT, "h g", label=1, method="gradient_x_input")
    assert picture.tokens[:5] == ["[CLS]", "a", "b", "c", "a"]
    assert picture.scores.shape == (len(picture.tokens),)
    expected = _numerical(task, TEXT, "h g", 1)
    assert np.abs(expected).max() > 1e-3
    np.testing.assert_allclose(picture.scores, expected, rtol=0.02, atol=2e-3)


@pytest.mark.parametrize("family", ["bert", _ONE_BACKEND[0]])
def test_integrated_gradients_add_up(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sum is the logit of the text minus that of the text of [MASK]."""
    config = FAMILIES[family].replace(vocab_size=CONFIG.vocab_size, max_positions=24)
    task = as_trained(SequenceClassifier(BertEncoder(config), 3, tokenizer=TOKENIZER))
    picture = saliency(task, TEXT, label=1, steps=60)
    masked = TOKENIZER(["[MASK] [MASK] [MASK] [MASK] [MASK]"])
    masked = {tensor.name: masked[tensor.name] for tensor in task.inputs}
    outputs: Any = task(masked)
    difference = picture.logit - float(numpy(outputs["label"])[0, 1])
    assert abs(difference) > 1e-2
    assert picture.scores.sum() == pytest.approx(difference, abs=0.02)
    assert picture.scores[[0, -1]].tolist() == [0.0, 0.0]
    monkeypatch.setattr(token_saliency, "_TOKENS_AT_ONCE", 20)  # in several batches
    again = saliency(task, TEXT, label=1, steps=60)
    np.testing.assert_allclose(again.scores, picture.scores, atol=1e-5)
    one = saliency(task, TEXT, label=1, steps=1)
    assert not np.allclose(one.scores, picture.scores, atol=1e-3)
    assert "integrated gradients from [MASK]" in picture.html


def test_the_same_vectors_give_the_same_logits_and_leave_no_trace() -> None:
    task = classifier()
    x = TOKENIZER([TEXT])
    before = numpy(task(x))["label"]
    vectors = numpy(task.encoder.embeddings.token(x["token_ids"]))
    with token_vectors_from(vectors):
        np.testing.assert_allclose(numpy(task(x))["label"], before, atol=1e-6)
    with token_vectors_from(0 * vectors):
        assert np.abs(numpy(task(x))["label"] - before).max() > 1e-3
    np.testing.assert_array_equal(numpy(task(x))["label"], before)


@one_backend
def test_labels_and_probabilities() -> None:
    task = classifier()
    best = task.predict_labels([TEXT])[0]
    picture = saliency(task, TEXT)
    assert picture.label == best.label
    assert picture.probability == pytest.approx(best.score, abs=1e-5)
    assert picture.headline == f"{best.label}: {best.score:.1%}"
    by_name, by_number = saliency(task, TEXT, label="odd"), saliency(task, TEXT, label=2)
    np.testing.assert_array_equal(by_name.scores, by_number.scores)
    assert not np.allclose(by_name.scores, saliency(task, TEXT, label="bad").scores)
    for label in ("good ", 3, -1, True):
        with pytest.raises(ValueError, match="`label` must be one of good, bad, odd"):
            saliency(task, TEXT, label=label)


@one_backend
def test_other_problems() -> None:
    number = saliency(classifier(labels=None, num_classes=1), TEXT)
    assert number.probability is None
    assert number.headline == f"LABEL_0: {number.logit:.3f}"
    several = saliency(classifier(problem="multi_label"), TEXT, label="bad")
    assert several.probability == pytest.approx(1 / (1 + np.exp(-several.logit)), abs=1e-5)


@one_backend
def test_a_prompt_and_the_length_of_a_predictor() -> None:
    task = classifier(prompts={"q": "c d "}, default_prompt_name="q")
    assert saliency(task, "a").tokens == ["[CLS]", "c", "d", "a", "[SEP]"]
    picture = saliency(Predictor(task, max_length=4), "a b c d")
    assert picture.tokens == ["[CLS]", "c", "d", "[SEP]"]
    assert picture.note == "The text has 8 tokens; the picture shows 4 of them."
    assert picture.note in picture.html
    assert len(saliency(task, "a b", max_length=5).tokens) == 5


@one_backend
def test_a_half_precision_model() -> None:
    encoder = BertEncoder(CONFIG, dtype="mixed_bfloat16")
    task = as_trained(SequenceClassifier(encoder, 2, tokenizer=TOKENIZER))
    picture = saliency(task, TEXT)
    assert picture.scores.dtype == np.float32
    assert np.abs(picture.scores).max() > 0


def test_colours_have_signs_too() -> None:
    scores = np.array([0.5, -0.25, 0.0], np.float32)
    picture = SaliencyPicture(["a", "b", "c"], ["a", "b", "c"], scores, "good", 1.0, 0.7, "x < y")
    np.testing.assert_allclose(picture.shares, [1.0, -0.5, 0.0])
    page = picture.html
    assert "x &lt; y; a stronger" in page
    assert '<li class="for" style="--strength: 100%"><span>a</span><small>+0.500</small>' in page
    assert '<li class="against" style="--strength: 50%"><span>b</span><small>−0.250</small>' in page
    assert '<li class="none" style="--strength: 0%"><span>c</span><small>0.000</small>' in page


def test_what_is_no_classifier() -> None:
    with pytest.raises(TypeError, match=r"needs a SequenceClassifier.*Received: BertEncoder"):
        saliency(BertEncoder(CONFIG), TEXT)
    wrong: Any = "gradients"
    with pytest.raises(ValueError, match="`method` must be one of integrated_gradients"):
        saliency(classifier(), TEXT, method=wrong)
    for wrong in (0, 1.5, True):
        with pytest.raises(ValueError, match="`steps` must be an integer"):
            saliency(classifier(), TEXT, steps=wrong)
    wrong = None
    with pytest.raises(TypeError, match="`text` must be one string"):
        saliency(classifier(), wrong)
    task = classifier()
    task.tokenizer = None
    with pytest.raises(ValueError, match="has no tokenizer"):
        saliency(task, TEXT)
    assert saliency(task, TEXT, tokenizer=TOKENIZER).tokens[0] == "[CLS]"
