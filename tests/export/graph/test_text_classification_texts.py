"""Labels, choices, vectors and other answers from a graph equal those of the predictor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bert_keras import features
from bert_keras.export.graph.text_classification import (
    GraphTexts,
    flat,
)
from bert_keras.models import (
    MaskedLM,
    MultipleChoice,
    Pretrainer,
    SentenceEncoder,
    SentencePairs,
    SequenceClassifier,
)
from bert_keras.predictor import Predictor
from bert_keras.tokenizers.tf_tokenizer import InGraphTokenizer
from tests.contracts import MAY_CUT, as_trained

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")

LENGTH = 20


def both(task: Any, tokenizer) -> tuple[Predictor, GraphTexts]:
    """Return a predictor and a graph with the same model."""
    task = as_trained(task)
    graph = GraphTexts(task, InGraphTokenizer(tokenizer), max_length=LENGTH)
    return Predictor(task, tokenizer, max_length=LENGTH), graph


def strings(texts: list[str]) -> Any:
    return tf.constant(texts, tf.string)


@pytest.mark.parametrize("is_paired", [False, True])
@pytest.mark.parametrize("problem", ["single_label", "multi_label"])
@MAY_CUT
def test_labels(problem: str, is_paired: bool, encoder, tokenizer, texts) -> None:
    task = SequenceClassifier(encoder(), 3, labels=["a", "b", "c"], problem=problem)
    predictor, graph = both(task, tokenizer)
    columns = [texts, texts[::-1]] if is_paired else [texts]
    expected = predictor.predict_labels(*columns, top_k=3)
    found = graph.labels(*map(strings, columns))
    for row, best in enumerate(expected):
        assert [name.decode() for name in found["labels"][row].numpy()] == [b.label for b in best]
        np.testing.assert_allclose(found["scores"][row], [b.score for b in best], atol=1e-5)
    if problem == "single_label":
        np.testing.assert_array_equal(found["label"], found["labels"][:, 0])
        np.testing.assert_array_equal(found["score"], found["scores"][:, 0])
    else:
        counts = [len(some) for some in predictor.predict_labels(*columns, threshold=0.4)]
        assert (
            graph.labels(*map(strings, columns), threshold=0.4)["count"].numpy().tolist() == counts
        )
    assert graph.labels(*map(strings, columns), top_k=2)["labels"].shape == (len(texts), 2)
    assert graph.labels(*[strings([])] * len(columns))["scores"].shape == (0, 3)


@MAY_CUT
def test_numbers(encoder, tokenizer, texts) -> None:
    predictor, graph = both(SequenceClassifier(encoder(), 2, problem="regression"), tokenizer)
    found = graph.numbers(strings(texts))["scores"]
    np.testing.assert_allclose(found, predictor.predict_scores(texts), atol=1e-5)


@MAY_CUT
def test_labels_of_texts_read_apart(encoder, tokenizer, texts) -> None:
    """Classification of pairs whose texts are encoded separately equals the predictor's."""
    task = SentencePairs(encoder(), loss="classification", num_classes=2)
    predictor, graph = both(task, tokenizer)
    expected = predictor.predict_labels(texts, texts[::-1])
    found = graph.labels(strings(texts), strings(texts[::-1]))
    assert [name.decode() for name in found["label"].numpy()] == [best.label for best in expected]
    np.testing.assert_allclose(found["score"], [best.score for best in expected], atol=1e-5)


@MAY_CUT
def test_choices(encoder, tokenizer, texts) -> None:
    predictor, graph = both(MultipleChoice(encoder()), tokenizer)
    options = [[text, "the cat", "a" * 30, text[::-1] or "b"] for text in texts]
    prompts = ["" if number % 3 == 0 else text for number, text in enumerate(texts[::-1])]
    expected = predictor.predict_choices(prompts, options)
    found = graph.choices(strings(prompts), tf.constant(options))
    found = {name: value.numpy() for name, value in found.items()}
    for row, choice in enumerate(expected):
        assert found["score"][row] == pytest.approx(choice.score, abs=1e-5)
        assert found["index"][row] == choice.index
        assert found["choice"][row].decode() == choice.text
    np.testing.assert_allclose(tf.reduce_sum(found["scores"], axis=1), 1.0, atol=1e-5)
    nothing = graph.choices(strings([]), tf.zeros([0, 2], tf.string))
    assert nothing["index"].shape == (0,)


@MAY_CUT
def test_vectors_and_how_alike_they_are(encoder, tokenizer, texts) -> None:
    predictor, graph = both(SentenceEncoder(encoder(), normalize=False), tokenizer)
    found = graph.vectors(strings(texts))[features.SENTENCE_VECTOR]
    np.testing.assert_allclose(found, predictor.encode(texts), atol=1e-5)
    alike = graph.similarity(strings(texts), strings(texts[::-1]))["similarity"]
    np.testing.assert_allclose(alike, predictor.similarity(texts, texts[::-1]), atol=1e-5)


@MAY_CUT
def test_what_an_encoder_gives(encoder, tokenizer, texts) -> None:
    predictor, graph = both(encoder(), tokenizer)
    found = graph.outputs(strings(texts))
    expected = predictor.encode(texts)
    np.testing.assert_allclose(found[features.SENTENCE_VECTOR], expected, atol=1e-5)
    assert found[features.TOKEN_IDS].shape == found[features.PADDING_MASK].shape


def test_fills(encoder, tokenizer, texts) -> None:
    predictor, graph = both(MaskedLM(encoder()), tokenizer)
    masked = [f"[MASK] {text[:10]} [MASK]" for text in texts]
    expected = predictor.fill_mask(masked, top_k=2)
    found = graph.fills(strings(masked), top_k=2)
    for row, fills in enumerate(expected):
        assert found["mask_count"][row] == len(fills)
        scores = [[fill.score for fill in each] for each in fills]
        np.testing.assert_allclose(found["scores"][row, : len(fills)], scores, atol=1e-5)


@MAY_CUT
def test_sentences_that_follow(encoder, tokenizer, texts) -> None:
    """Next sentence probabilities equal the predictor's."""
    predictor, graph = both(Pretrainer(encoder()), tokenizer)
    found = graph.follows(strings(texts), strings(texts[::-1]))["score"]
    np.testing.assert_allclose(found, predictor.next_sentence(texts, texts[::-1]), atol=1e-5)


def test_outputs_of_several_layers_have_numbers() -> None:
    found = flat({"states": (tf.zeros([1]), tf.ones([1], tf.float16)), "x": tf.zeros([2])})
    assert list(found) == ["states_0", "states_1", "x"]
    assert {value.dtype for value in found.values()} == {tf.float32}
