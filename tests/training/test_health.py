"""The examination of a trained model. The whole report is made in test_pretrain.py."""

from __future__ import annotations

import re
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras.config import BertConfig
from bert_keras.data import Corpus
from bert_keras.models import BertEncoder, MaskedLM
from bert_keras.tokenizers import Tokenizer
from bert_keras.training.health import fill_held_out, versions

WORDS = ["the", "old", "house", "stands", "near", "a", "river", "where", "people", "fish"]
WORDS += ["in", "early", "morning"]
PIECES = ["##s", "##ing", ".", "7", "un", "##fish"]
TOKENIZER = Tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *PIECES])


@pytest.fixture(scope="module")
def task() -> MaskedLM:
    config = BertConfig(
        vocab_size=TOKENIZER.vocab_size,
        hidden_size=8,
        num_layers=1,
        num_heads=2,
        intermediate_size=16,
        max_positions=64,
    )
    return MaskedLM(BertEncoder(config))


LENGTH = 64


def _corpus(*texts: str) -> Corpus:
    return Corpus.from_ids([TOKENIZER.text_ids(list(texts))])


def test_ten_texts_with_one_mask_each(task: MaskedLM) -> None:
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS, 12)) + " ." for _ in range(30)]
    filled = fill_held_out(task, TOKENIZER, _corpus(*texts), LENGTH)
    assert len(filled) == 10
    for mask in filled:
        assert mask.text.count("[MASK]") == 1
        assert mask.answer in WORDS
        original = mask.text.replace("[MASK]", mask.answer)
        assert re.sub(r"\s", "", original) in {re.sub(r"\s", "", text) for text in texts}
        assert len(mask.guesses) == 5
        scores = [score for _, score in mask.guesses]
        assert scores == sorted(scores, reverse=True)
    assert fill_held_out(task, TOKENIZER, _corpus(*texts), LENGTH) == filled


def test_only_whole_words_are_asked_for(task: MaskedLM) -> None:
    """Neither the beginning nor the rest of a split word, nor numbers, nor punctuation."""
    text = "houses rivers unfish morning 7 7 unfish fishing ."
    tokens = TOKENIZER.encode(text).tokens
    assert {"##s", "##ing", "un", "##fish"} < set(tokens)
    (filled,) = fill_held_out(task, TOKENIZER, _corpus(text), LENGTH)
    assert filled.answer == "morning"


@pytest.mark.parametrize(
    "text",
    ["the old house", "7 7 7 7 7 7 7 7 7 .", "the old house stands near a strange river .", ""],
)
def test_no_text_to_ask(task: Any, text: str) -> None:
    """Too short, without a word, with an unknown one, nothing at all."""
    assert fill_held_out(task, TOKENIZER, _corpus(text), LENGTH) == []


def test_texts_fit_the_length_that_was_trained(task: MaskedLM) -> None:
    short = "people fish in the river where people fish"
    filled = fill_held_out(task, TOKENIZER, _corpus(short, f"{short} in the early morning"), 10)
    assert [mask.text.replace("[MASK]", mask.answer) for mask in filled] == [short]


def test_versions() -> None:
    found = versions()
    assert found["keras"] == keras.__version__
    assert set(found) >= {"numpy", "tokenizers"}
