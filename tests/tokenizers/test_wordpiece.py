"""BERT's WordPiece: the options that change ids, and those that do not."""

from __future__ import annotations

import pytest

from bert_keras.errors import DataError
from bert_keras.tokenizers import Tokenizer
from bert_keras.tokenizers.added_tokens import AddedToken
from bert_keras.tokenizers.wordpiece import WordPiece, require_word_piece
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


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"content": "a", "lstrip": True}, "has lstrip=True"),
        ({"content": "a", "single_word": True}, "has single_word=True"),
        ({"content": "a\nb"}, "has a line break"),
        ({"content": "\u0301"}, "no characters after"),
        ({"content": "a "}, "has a space at an end"),
        ({"content": "a 中"}, "beside a Chinese character"),
        ({"content": "a\U0001d16d"}, "has a combining mark"),
        ({"content": "Foo"}, "is 'foo' after normalisation"),
    ],
)
def test_added_tokens_that_no_graph_can_find(options, reason):
    size = len(VOCABULARY)
    added = [AddedToken("foo", size), AddedToken(id=size + 1, **options)]
    tokenizer = Tokenizer(VOCABULARY).add_tokens(["foo", "new york", "中国", "a-b"])
    require_word_piece(tokenizer)
    tokenizer._use(WordPiece(VOCABULARY, added=added))
    with pytest.raises(ValueError, match=f"added token .*{reason}.*make ids in Python"):
        require_word_piece(tokenizer)


def test_a_special_token_is_found_as_it_is_written():
    require_word_piece(Tokenizer(VOCABULARY).add_tokens([" a 中 ", "\u0301"], special=True))
