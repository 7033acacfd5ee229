"""Loaded models: tokens, truncation, attention and vectors of token ids."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from bert_keras import (
    BertEncoder,
    ElectraPretrainer,
    Predictor,
    SentenceEncoder,
    Tokenizer,
)
from bert_keras.errors import UsageError
from bert_keras.inference.base import Answer
from bert_keras.serving.loaded_model import MOST_ATTENTION, PredictorModel
from tests.contracts import as_trained
from tests.serving.running import (
    CONFIG,
    CONTEXTS,
    LABELS,
    LENGTH,
    OTHERS,
    TASKS,
    VOCABULARY,
    predictor,
)


def loaded(name: str) -> PredictorModel:
    return PredictorModel(predictor(name), backend="keras", dtype="float32")


@pytest.mark.parametrize("name", TASKS)
def test_a_model_says_what_it_can(name: str) -> None:
    model = loaded(name)
    assert model.inputs
    assert ("attention" in model.more) == ("attention" not in model.why_not)
    assert (model.mask_token == "[MASK]") == (name in ("masks", "pretrained"))
    has_labels = name in ("labels", "multi", "pair_labels")
    assert model.labels == (LABELS if has_labels else model.labels)
    assert model.has_vectors == (name in ("vectors", "encoder"))
    assert (model.similarity_signature is not None) == (name == "vectors")


def test_tokens_have_ids_and_places_in_their_text() -> None:
    model = loaded("labels")
    text, pair = "A fine\tfilm", "dull?"
    tokens, is_cut = model.tokens(text, pair)
    assert not is_cut
    assert [token.token for token in tokens] == [
        *("[CLS]", "a", "fine", "film", "[SEP]", "dull", "?", "[SEP]")
    ]
    for token in tokens:
        assert VOCABULARY[token.id] == token.token
        assert token.special == (token.start is None)
        if token.start is not None:
            assert [text, pair][token.segment][token.start : token.end].lower() == token.token
    assert [token.segment for token in tokens] == [0] * 5 + [1] * 3


def test_a_text_is_truncated_at_the_length_of_the_model() -> None:
    model = loaded("labels")
    fits, long = " ".join(["a"] * (LENGTH - 2)), " ".join(["a"] * (LENGTH - 1))
    assert model.truncated([fits, long, "a"]) == 1
    assert model.truncated(["a", "a"], ["a", fits]) == 1
    tokens, is_cut = model.tokens(long)
    assert len(tokens) == LENGTH
    assert is_cut
    assert model.count_tokens([fits, long]) == [LENGTH, LENGTH + 1]
    assert model.count_tokens([]) == []
    for name in ("tags", "answers"):  # which read long texts in windows
        assert loaded(name).truncated([long]) == 0


def test_windows_of_long_texts_are_not_truncated() -> None:
    long = " ".join(["a fine film"] * LENGTH)
    for name, output in (("labels", "scores"), ("encoder", "sentence_vector")):
        opened = predictor(name)
        opened.options = {"long_texts": "windows"}
        model = PredictorModel(opened, backend="keras", dtype="float32")
        assert model.truncated([long]) == 0
        found = model.signatures["serving_default"].run({"text": [long]})[output]
        ask = opened.predict_scores if name == "labels" else opened.encode
        np.testing.assert_allclose(np.sort(found), np.sort(ask([long])), atol=1e-6)
        with warnings.catch_warnings():  # a header says it
            warnings.simplefilter("error", UserWarning)
            assert np.abs(ask([long], long_texts="truncate") - ask([long])).max() > 1e-6
            opened.options = {}
            ask([long])


def test_texts_that_are_encoded_separately_are_truncated_separately() -> None:
    fits, long = " ".join(["a"] * (LENGTH - 2)), " ".join(["a"] * (LENGTH - 1))
    for name in ("vectors", "pair_labels"):
        model = loaded(name)
        assert model.truncated([fits], [fits]) == 0
        assert model.truncated([fits, long, long, "a"], [long, "a", long, "a"]) == 3


def test_a_prompt_is_counted() -> None:
    """The model reads the prompt, so a text has less room."""
    prompts = {"query": "a film "}
    task = SentenceEncoder(BertEncoder(CONFIG), prompts=prompts, default_prompt_name="query")
    predictor = Predictor(as_trained(task), Tokenizer(VOCABULARY))
    model = PredictorModel(predictor, backend="keras", dtype="float32")
    fits, long = " ".join(["a"] * (LENGTH - 4)), " ".join(["a"] * (LENGTH - 3))
    assert model.count_tokens([fits, long]) == [LENGTH, LENGTH + 1]
    assert model.truncated([fits, long, "a"]) == 1


def test_attention_is_a_probability_of_each_token() -> None:
    model = loaded("labels")
    shares = model.more["attention"].run({"text": ["a fine film"], "pair": ["dull"]})["attention"]
    tokens, _ = model.tokens("a fine film", "dull", max_length=MOST_ATTENTION)
    assert shares.shape == (CONFIG.num_layers, CONFIG.num_heads, len(tokens), len(tokens))
    sums = shares.astype(int).sum(axis=-1)
    assert np.abs(sums - 255).max() <= len(tokens)  # of rounding


def test_pruned_heads_have_no_attention_and_keep_the_numbers_of_the_others() -> None:
    whole = BertEncoder(CONFIG)
    shares = []
    for encoder in (whole, whole.prune_heads({1: [0]})):
        predictor = Predictor(encoder, Tokenizer(VOCABULARY))
        model = PredictorModel(predictor, backend="keras", dtype="float32")
        shares.append(model.more["attention"].run({"text": ["a fine film"]})["attention"])
    expected = shares[0].copy()
    expected[1, 0] = 0
    assert expected[1, 1].max() > 0
    np.testing.assert_array_equal(shares[1], expected)


@pytest.mark.parametrize("name", ["vectors", "encoder"])
def test_vectors_of_ids_are_those_of_their_text(name: str) -> None:
    model = loaded(name)
    texts = ["a fine film", "dull", "a " * 40]
    ids = Tokenizer(VOCABULARY).text_ids(texts)
    vectors = model.more["vectors_of_ids"].run({"token_ids": ids})["sentence_vector"]
    np.testing.assert_allclose(vectors, model.predictor.encode(texts), atol=1e-5)


def test_ranked_answers_begin_with_the_answer() -> None:
    model = loaded("answers")
    ranked = model.more["ranked_answers"].run({"question": OTHERS, "context": CONTEXTS})["answers"]
    best = model.predictor.predict_answers(OTHERS, CONTEXTS)
    assert [Answer(**row[0]) for row in ranked] == best
    assert [len(row) > 1 for row in ranked] == [True] * 3


def test_a_model_that_answers_no_texts_is_refused() -> None:
    task = ElectraPretrainer(BertEncoder(CONFIG))
    with pytest.raises(UsageError, match="answers no texts"):
        PredictorModel(Predictor(task, Tokenizer(VOCABULARY)), backend="keras", dtype="float32")
