"""Clients make the same token ids from texts as `Predictor`."""

from __future__ import annotations

import numpy as np
import pytest

from bert_keras import MaskedLM, QuestionAnswerer, SequenceClassifier, TokenClassifier, features
from bert_keras.errors import ArtifactError
from bert_keras.export import clients
from bert_keras.tokenizers import Tokenizer

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh"]
ROWS = {"token_ids": ["batch", "length"], "segment_ids": ["batch", "length"]}
APART = {"token_ids": ["batch", "texts", "length"], "padding_mask": ["batch", "texts", "length"]}


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer(VOCABULARY)


def test_names() -> None:
    assert clients.input_names(QuestionAnswerer) == ("question", "context")
    assert clients.input_names(SequenceClassifier) == ("text",)
    assert clients.input_names(SequenceClassifier, pairs=True) == ("text", "pair")
    assert clients.in_input_order(["pair", "text"]) == ("text", "pair")
    assert clients.in_input_order({"context": 0, "question": 1}) == ("question", "context")
    assert clients.in_input_order(["inputs"]) == ("inputs",)


@pytest.mark.parametrize("names", [("text",), ("text", "pair"), ("prompt", "options")])
def test_made_up_texts_are_the_same_every_time(names, tokenizer: Tokenizer) -> None:
    found = clients.example_texts(names, tokenizer, 40)
    assert found == clients.example_texts(names, tokenizer, 40)
    assert [len(values) for values in found.values()] == [40] * len(names)
    assert "" in next(iter(found.values()))
    masked = clients.example_texts(names[:1], tokenizer, 40, "[MASK]")
    assert all(text.startswith("[MASK] ") for text in masked[names[0]])


def test_ids(tokenizer: Tokenizer) -> None:
    columns = {"question": ["a", "b c"], "context": ["d", "e f g"]}
    found = clients.as_ids(columns, tokenizer, ROWS, max_length=7)
    expected = tokenizer(columns["question"], columns["context"], max_length=7)
    assert found.keys() == ROWS.keys()
    for name, values in found.items():
        np.testing.assert_array_equal(values, expected[name])


def test_ids_apart(tokenizer: Tokenizer) -> None:
    """Pairs and options become one row of token ids for each of their texts."""
    pairs = {"text": ["a", "b"], "pair": ["c d", "e"]}
    found = clients.as_ids(pairs, tokenizer, APART, max_length=8)
    assert found["token_ids"].tolist() == [
        [[2, 5, 3, 0], [2, 7, 8, 3]],
        [[2, 6, 3, 0], [2, 9, 3, 0]],
    ]
    choices = {"prompt": ["a"], "options": [["b", "c d"]]}
    found = clients.as_ids(choices, tokenizer, APART, max_length=8)
    assert found["token_ids"].tolist() == [[[2, 5, 3, 6, 3, 0], [2, 5, 3, 7, 8, 3]]]
    choices = {"prompt": ["", "a"], "options": [["b", "c"], ["d", "e"]]}
    found = clients.as_ids(choices, tokenizer, APART, max_length=8)
    assert found["token_ids"][0].tolist() == [[2, 6, 3, 0, 0], [2, 7, 3, 0, 0]]  # a row by itself
    nothing = clients.as_ids({"text": [], "pair": []}, tokenizer, APART, max_length=8)
    assert nothing["token_ids"].shape == (0, 2, 1)


def test_masks(tokenizer: Tokenizer) -> None:
    axes = ROWS | {"mask_positions": ["batch", "predictions"]}
    columns = {"text": ["[MASK] a [MASK]", "b"]}
    found = clients.as_ids(columns, tokenizer, axes, max_length=8)
    assert found["mask_positions"].tolist() == [[1, 3], [0, 0]]


def test_what_is_filled(tokenizer: Tokenizer) -> None:
    """Only a masked language model has a mask token for its example texts."""
    assert clients.mask_token_of(MaskedLM, tokenizer) == "[MASK]"
    assert clients.mask_token_of(TokenClassifier, tokenizer) == ""


def test_parts() -> None:
    assert clients.part_of_columns({"a": [1, 2, 3], "b": "xyz"}, 1, 3) == {"a": [2, 3], "b": "yz"}


def test_a_prompt_before_each_first_text() -> None:
    tokenizer = Tokenizer(VOCABULARY)
    axes = {**ROWS, features.PROMPT_LENGTH: ["batch", 1]}
    options = {"max_length": 9, "prompt": "a b ", "prompt_length": 3}
    for columns in ({"text": ["c", ""]}, {"text": ["c", ""], "pair": ["a", "b"]}):
        found = clients.as_ids(columns, tokenizer, axes, **options)
        assert found.pop(features.PROMPT_LENGTH).tolist() == [[3], [3]]
        first = [f"a b {text}" for text in columns["text"]]
        behind = {**columns, "text": first}
        expected = clients.as_ids(behind, tokenizer, ROWS, max_length=9)
        for name, values in expected.items():
            np.testing.assert_array_equal(found[name], values)


def test_a_class_of_another_version_is_refused() -> None:
    assert clients.model_class_of("MaskedLM") is MaskedLM
    for name in ("Ranker", "checked_length"):
        with pytest.raises(ArtifactError, match=f"The export is of a '{name}'.* Update bert_keras"):
            clients.model_class_of(name)
