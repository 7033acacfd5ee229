"""Vectors equal the outputs of the model, and similarities equal the cosines of the vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bert_keras import SentenceEncoder, SequenceClassifier, features
from bert_keras.inference.sentence_similarity import SIMILARITIES, cosines
from bert_keras.predictor import Predictor
from bert_keras.retrieval import quantize

TEXTS = ["hello world", "the wanted mask", "un", "", "a b c d e f g h"]


def test_cosines() -> None:
    one = np.array([[3, 4], [1, 0], [0, 0], [2, 0]], np.float32)
    other = np.array([[6, 8], [0, 5], [1, 1], [-1, 0]], np.float32)
    found = cosines(one, other)
    assert found.dtype == np.float32
    assert found.tolist() == [1, 0, 0, -1]


def test_own_vectors(task, tokenizer) -> None:
    """A sentence encoder returns the vectors of its model."""
    found = Predictor(task("vectors"), tokenizer, batch_size=2)(TEXTS)
    for text, vector in zip(TEXTS, found, strict=True):
        expected = task("vectors").predict_on_batch(tokenizer([text]))["sentence_vector"][0]
        np.testing.assert_allclose(vector, expected, atol=1e-5)


def test_means_of_other_models(task, tokenizer) -> None:
    """Models of other tasks return the mean of the token vectors."""
    model = task("labels")
    found = Predictor(model, tokenizer, batch_size=2).encode(TEXTS)
    for text, vector in zip(TEXTS, found, strict=True):
        tokens = model.encoder.predict_on_batch(tokenizer([text]))["sequence_output"][0]
        np.testing.assert_allclose(vector, tokens.mean(axis=0), atol=1e-5)


def test_vectors_of_what_pairs_train(task, tokenizer) -> None:
    """A pair task returns the vectors of its sentence encoder."""
    model = task("pairs")
    found = Predictor(model, tokenizer, batch_size=2).encode(TEXTS)
    expected = Predictor(model.sentence_encoder, tokenizer)(TEXTS)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("kind", ["vectors", "labels", "pairs"])
def test_similarity(task, tokenizer, kind: str) -> None:
    predictor = Predictor(task(kind), tokenizer)
    found = predictor.similarity(TEXTS, TEXTS[::-1])
    np.testing.assert_allclose(found, found[::-1], atol=1e-5)
    assert found[2] == pytest.approx(1, abs=1e-5)  # the similarity of "un" to itself
    assert np.abs(found).max() < 1 + 1e-5
    one, other = predictor.encode(TEXTS[:1]), predictor.encode(TEXTS[-1:])
    expected = (one @ other.T).item() / np.linalg.norm(one) / np.linalg.norm(other)
    assert found[0] == pytest.approx(expected, abs=1e-5)
    assert predictor.similarity([], []).shape == (0,)
    assert predictor.encode([]).shape == (0, 8)
    with pytest.raises(ValueError, match="Every first text needs one second"):
        predictor.similarity(TEXTS, [])
    with pytest.raises(TypeError, match="`firsts` is one text or row"):
        predictor.similarity("a", ["b"])


_PROMPTS = {"query": "the wanted ", "plain": ""}


@pytest.fixture
def prompted(task) -> SentenceEncoder:
    """Return a sentence encoder with a prompt whose tokens are left out of the pooling."""
    options = {"include_prompt": False, "pooling": ["weightedmean", "cls"], "normalize": False}
    return SentenceEncoder(
        task("vectors").encoder, prompts=_PROMPTS, default_prompt_name="query", **options
    )


def test_prompts(prompted, tokenizer) -> None:
    """A prompt is read together with the text, and its tokens are left out of the pooling."""
    predictor = Predictor(prompted, tokenizer, batch_size=2)
    found = predictor.encode(TEXTS)
    x = tokenizer([_PROMPTS["query"] + text for text in TEXTS], max_length=predictor.max_length)
    length = predictor.prompt_length(predictor.prompt)
    assert length == 1 + len(tokenizer.text_ids([_PROMPTS["query"]])[0])
    x[features.PROMPT_LENGTH] = np.full((len(TEXTS), 1), length, np.int32)
    expected = prompted.predict_on_batch(x)[features.SENTENCE_VECTOR]
    np.testing.assert_allclose(found, expected, atol=1e-5)
    np.testing.assert_array_equal(predictor(TEXTS), found)
    np.testing.assert_array_equal(predictor.encode(TEXTS, prompt_name="query"), found)
    plain: dict[str, Any]
    for plain in ({"prompt": ""}, {"prompt_name": "plain"}):
        other = predictor.encode(TEXTS, **plain)
        x = {**tokenizer(TEXTS), features.PROMPT_LENGTH: np.zeros((len(TEXTS), 1), np.int32)}
        expected = prompted.predict_on_batch(x)[features.SENTENCE_VECTOR]
        np.testing.assert_allclose(other, expected, atol=1e-5)
        assert np.abs(other - found).max() > 1e-3
    assert predictor.encode([]).shape == (0, 16)
    with pytest.raises(ValueError, match="`prompt_name` must be one of query, plain"):
        predictor.encode(TEXTS, prompt_name="passage")


def test_a_prompt_is_an_option_of_the_predictor(prompted, tokenizer, tmp_path) -> None:
    expected = Predictor(prompted, tokenizer).encode(TEXTS, prompt_name="plain")
    predictor = Predictor(prompted, tokenizer, options={"prompt_name": "plain"})
    predictor.save_to_preset(tmp_path)
    for each in (predictor, Predictor.from_preset(tmp_path)):
        assert each.prompt == ""
        np.testing.assert_allclose(each(TEXTS), expected, atol=1e-6)
        similar = each(TEXTS, TEXTS[::-1])
        np.testing.assert_allclose(similar, cosines(expected, expected[::-1]), atol=1e-5)
    for options in ({"prompt_name": "passage"}, {"prompt": "a", "prompt_name": "query"}):
        with pytest.raises(ValueError, match="`prompt"):
            Predictor(prompted, tokenizer, options=options)


def test_a_prompt_before_the_tokens_of_other_models(task, tokenizer) -> None:
    predictor = Predictor(task("labels"), tokenizer)
    found = predictor.encode(TEXTS, prompt="the ")
    np.testing.assert_allclose(found, predictor.encode([f"the {t}" for t in TEXTS]), atol=1e-6)


@pytest.mark.parametrize("name", features.SIMILARITIES)
def test_similarities(task, tokenizer, name: str) -> None:
    model = SentenceEncoder(task("vectors").encoder, similarity=name, normalize=False)
    predictor = Predictor(model, tokenizer)
    one, other = predictor.encode(TEXTS), predictor.encode(TEXTS[::-1])
    expected: dict[str, Any] = {
        "cosine": lambda a, b: a @ b / np.linalg.norm(a) / np.linalg.norm(b),
        "dot": lambda a, b: a @ b,
        "euclidean": lambda a, b: -np.sqrt(((a - b) ** 2).sum()),
        "manhattan": lambda a, b: -np.abs(a - b).sum(),
    }
    assert set(expected) == set(SIMILARITIES)
    rows = [expected[name](a, b) for a, b in zip(one, other, strict=True)]
    np.testing.assert_allclose(predictor.similarity(TEXTS, TEXTS[::-1]), rows, atol=1e-5)


def test_an_old_name_is_answered_with_the_new_one(task, tokenizer) -> None:
    predictor = Predictor(task("vectors"), tokenizer)
    with pytest.raises(AttributeError, match=r"`Predictor\.sentence_vectors` is called `encode`"):
        predictor.sentence_vectors(TEXTS)
    with pytest.raises(AttributeError, match="object has no attribute 'vectors'"):
        _ = predictor.vectors


# === Scores of pairs ===


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("activation", [None, "tanh"])
def test_pair_scores(task, tokenizer, count: int, activation: str | None) -> None:
    options = {"activation": activation, "prompts": _PROMPTS, "default_prompt_name": "query"}
    model = SequenceClassifier(task("labels").encoder, count, **options)
    predictor = Predictor(model, tokenizer)
    x = tokenizer([_PROMPTS["query"] + text for text in TEXTS], TEXTS[::-1], max_length=32)
    logits = model.predict_on_batch(x)["label"]
    usual = 1 / (1 + np.exp(-logits)) if count == 1 else logits
    expected = usual if activation is None else np.tanh(logits)
    found = predictor.predict_pair_scores(TEXTS, TEXTS[::-1])
    assert found.shape == ((len(TEXTS),) if count == 1 else (len(TEXTS), 3))
    np.testing.assert_allclose(found.reshape(expected.shape), expected, atol=1e-5)
    scores = predictor.predict_scores(TEXTS, TEXTS[::-1])
    if count == 3:  # three classes give probabilities, and the activation is not used
        shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(scores, shares, atol=1e-5)
    else:
        told = logits if activation is None else expected
        np.testing.assert_allclose(scores, told, atol=1e-5)
    other = predictor.predict_pair_scores(TEXTS, TEXTS[::-1], prompt="")
    assert np.abs(other - found).max() > 1e-4
    assert predictor.predict_pair_scores([], []).shape[0] == 0
    with pytest.raises(ValueError, match=r"needs a TextRanker or a Seq.*Received: a SentenceEnc"):
        Predictor(task("vectors"), tokenizer).predict_pair_scores(TEXTS, TEXTS)
    with pytest.raises(ValueError, match="`activation` must be None or one of linear"):
        SequenceClassifier(task("labels").encoder, 1, activation="exotic")


def test_fewer_dimensions_and_bytes(task, tokenizer) -> None:
    predictor = Predictor(task("vectors"), tokenizer)
    whole = predictor.encode(TEXTS)
    first = predictor.encode(TEXTS, truncate_dim=3)
    expected = whole[:, :3] / np.linalg.norm(whole[:, :3], axis=1, keepdims=True)
    np.testing.assert_allclose(first, expected, atol=1e-6)
    plain = predictor.encode(TEXTS, truncate_dim=3, normalize=False)
    np.testing.assert_allclose(plain, whole[:, :3], atol=1e-6)
    assert predictor.encode(TEXTS[0], precision="ubinary").shape == (1,)
    for precision in ("float16", "int8", "ubinary"):
        found = predictor.encode(TEXTS, precision=precision)
        np.testing.assert_array_equal(found, quantize(whole, precision))
    # The vectors of other models have any length, unless `normalize` is passed.
    other = Predictor(task("labels"), tokenizer)
    lengths = np.linalg.norm(other.encode(TEXTS, truncate_dim=4), axis=1)
    assert np.abs(lengths - 1).min() > 1e-3
    scaled = np.linalg.norm(other.encode(TEXTS, normalize=True), axis=1)
    np.testing.assert_allclose(scaled, 1, atol=1e-6)
    with pytest.raises(ValueError, match="`precision` must be one of"):
        predictor.encode(TEXTS, precision="int4")


def test_prompts_of_queries_and_documents(task, tokenizer) -> None:
    prompts = {"query": "the ", "passage": "wanted "}
    model = SentenceEncoder(task("vectors").encoder, prompts=prompts)
    predictor = Predictor(model, tokenizer)
    for method, prompt in (
        (predictor.encode_queries, "the "),
        (predictor.encode_documents, "wanted "),
    ):
        expected = predictor.encode(TEXTS, prompt=prompt)
        np.testing.assert_allclose(method(TEXTS), expected, atol=1e-6)
        np.testing.assert_allclose(method(TEXTS, prompt=""), predictor.encode(TEXTS), atol=1e-6)
