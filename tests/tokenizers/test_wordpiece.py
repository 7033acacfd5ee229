"""BERT's WordPiece: the options that change ids, and those that do not."""

from __future__ import annotations

import pytest

from bert_keras.errors import DataError
from bert_keras.tokenizers.wordpiece import WordPiece
from tests.tokenizers.samples import TRICKY, VOCABULARY


def test_accents_follow_case():
    assert WordPiece(VOCABULARY).switches["strip_accents"]
    assert not WordPiece(VOCABULARY, lowercase=False).switches["strip_accents"]
    explicit = WordPiece(VOCABULARY, lowercase=True, strip_accents=True)
    assert explicit.identity == WordPiece(VOCABULARY).identity
    assert explicit.identity != WordPiece(VOCABULARY, split_cjk=False).identity


def test_text_ids_are_those_of_the_plain_engine():
    kind = WordPiece(VOCABULARY)
    expected = [kind.plain.encode(text, add_special_tokens=False).ids for text in TRICKY]
    assert kind.text_ids(TRICKY) == expected


def test_arguments_make_an_equal_one():
    kind = WordPiece(VOCABULARY, lowercase=False)
    assert WordPiece(**kind.arguments).identity == kind.identity
    assert kind.continues("##ing")
    assert not kind.continues("the")


def test_a_bad_vocabulary_is_refused():
    with pytest.raises(DataError, match="lacks"):
        WordPiece(["a"])
