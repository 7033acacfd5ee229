"""Texts as inputs of a model, with tokens that people can read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tokenizers

from bert_keras.models import BertEncoder
from bert_keras.tokenizers import Tokenizer
from bert_keras.visualize.encoded_text import encode, tokenizer_of
from tests.contracts import TINY
from tests.visualize.pictures import TOKENIZER, classifier


def test_a_pair_and_its_tokens() -> None:
    task = classifier()
    row = encode(task, TOKENIZER, "ab  [MASK]", "C zz", None, task.inputs)
    assert row.tokens == ["[CLS]", "a", "##b", "[MASK]", "[SEP]", "c", "[UNK]", "[SEP]"]
    assert row.labels == row.tokens
    assert row.is_special == [True, *[False] * 3, True, False, False, True]
    assert (row.cut, row.note) == (0, "")
    expected = TOKENIZER(["ab  [MASK]"], ["C zz"])
    assert row.inputs.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_array_equal(row.inputs[name], values)


def test_what_is_cut_is_said() -> None:
    task = classifier()
    row = encode(task, TOKENIZER, "a b c d e f g", None, 5, task.inputs)
    assert row.tokens == ["[CLS]", "a", "b", "c", "[SEP]"]
    assert row.cut == 4
    assert row.note == "The text has 9 tokens; the picture shows 5 of them."


def byte_level() -> Any:
    """Return a tokenizer of RoBERTa's kind, learned from a few words by `tokenizers`."""
    learned = tokenizers.ByteLevelBPETokenizer(add_prefix_space=False)
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    learned.train_from_iterator(["café au lait"] * 3, vocab_size=270, special_tokens=special)
    return learned


def test_pieces_of_bytes_are_shown_as_text(tmp_path: Any) -> None:
    byte_level().save_model(str(tmp_path))
    tokenizer = Tokenizer.from_preset(tmp_path)
    config = TINY.replace(vocab_size=tokenizer.vocab_size, max_positions=40, num_segments=0)
    encoder = BertEncoder(config)
    row = encode(encoder, tokenizer, "café au", "lait", None, encoder.inputs)
    assert any("Ġ" in token or "Ã" in token for token in row.tokens)
    assert not any("Ġ" in label or "Ã" in label for label in row.labels)
    words = "".join(
        label for label, special in zip(row.labels, row.is_special, strict=True) if not special
    )
    assert words.replace("##", "").replace("é" * 2, "é") in ("caféaulait", "cafaulait")
    assert set(row.inputs) == {"token_ids", "padding_mask"}


def test_an_empty_first_text(tmp_path: Any) -> None:
    """The labels of the second text come from the second text."""
    byte_level().save_model(str(tmp_path))
    tokenizer = Tokenizer.from_preset(tmp_path)
    config = TINY.replace(vocab_size=tokenizer.vocab_size, max_positions=40, num_segments=0)
    encoder = BertEncoder(config)
    row = encode(encoder, tokenizer, "", "au lait", None, encoder.inputs)
    words = [label for label, flag in zip(row.labels, row.is_special, strict=True) if not flag]
    assert "".join(words).replace("##", "") == "aulait"


def test_the_tokenizer_of_a_task_or_of_the_caller() -> None:
    task = classifier()
    assert tokenizer_of(task, None) is TOKENIZER
    other = Tokenizer(TOKENIZER.vocabulary)
    assert tokenizer_of(task, other) is other
    with pytest.raises(ValueError, match=r"BertEncoder has no tokenizer.*Tokenizer\.from_preset"):
        tokenizer_of(task.encoder, None)
    wrong: Any = "a text"
    with pytest.raises(TypeError, match=r"must be a bert_keras\.Tokenizer.*'a text'"):
        tokenizer_of(task, wrong)


def test_what_is_no_text() -> None:
    task = classifier()
    wrong: Any = ["a"]
    with pytest.raises(TypeError, match="`text` must be one string"):
        encode(task, TOKENIZER, wrong, None, None, task.inputs)
    with pytest.raises(TypeError, match="`pair` must be one string"):
        encode(task, TOKENIZER, "a", wrong, None, task.inputs)
    with pytest.raises(ValueError, match="max_length"):
        encode(task, TOKENIZER, "a", None, 999, task.inputs)
