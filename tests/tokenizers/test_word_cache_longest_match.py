"""Longest match on many words at once gives the pieces of the `tokenizers` library."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers.models import WordPiece

from bert_keras.tokenizers.word_cache import ByteWindow, LongestMatch

UNKNOWN = 1
# Pieces of one byte and more, of nine and more, as long as a key, and longer. "##" is one too.
PIECES = [
    "a",
    "b",
    "ab",
    "##a",
    "##b",
    "##ab",
    "##abb",
    "é",
    "##é",
    "中",
    "中国",
    "##国",
    "abababab",
    "ababababa",
    "##bababababa",
    "##aé",
    "abababababababab",
    "ababababababababab",
    "##",
    "##中",
]
VOCABULARY = ["[PAD]", "[UNK]", "with\0zero", *PIECES]


def matched(words, vocabulary=VOCABULARY):
    """Return the ids of each word."""
    encoded = [word.encode() for word in words]
    lengths = np.array([len(word) for word in encoded], np.int64)
    starts = np.cumsum(lengths) - lengths
    ids, counts = LongestMatch(vocabulary, UNKNOWN)(ByteWindow(b"".join(encoded)), starts, lengths)
    ends = np.cumsum(counts)
    return [ids[end - count : end].tolist() for end, count in zip(ends, counts, strict=True)]


def model_ids(words, vocabulary=VOCABULARY):
    """Return the ids of each word by the `tokenizers` library."""
    ids = {piece: number for number, piece in enumerate(vocabulary)}
    model = WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=100)
    return [[piece.id for piece in model.tokenize(word)] for word in words]


@settings(deadline=None, derandomize=True, max_examples=300)
@given(
    st.lists(
        st.text("abé中国#x", min_size=1, max_size=16).filter(lambda word: len(word.encode()) <= 16),
        min_size=1,
    )
)
def test_words_are_the_pieces_of_the_model(words):
    assert matched(words) == model_ids(words)


@settings(deadline=None, derandomize=True, max_examples=300)
@given(
    st.lists(st.text("abé中", min_size=1, max_size=9), min_size=1, max_size=30, unique=True),
    st.lists(st.lists(st.integers(0, 29), min_size=1, max_size=4), min_size=1),
)
def test_any_vocabulary(pieces, choices):
    """Any vocabulary gives the same ids, with many pieces of each length."""
    vocabulary = ["[PAD]", "[UNK]", *pieces, *(f"##{piece}" for piece in pieces)]
    words = ["".join(pieces[index % len(pieces)] for index in chosen) for chosen in choices]
    words = [word for word in words if len(word.encode()) <= 16] or ["a"]
    assert matched(words, vocabulary) == model_ids(words, vocabulary)


def test_a_word_of_unknown_end_is_unknown_as_a_whole():
    """A word whose end matches no piece becomes one [UNK]."""
    words = ["abx", "ab", "x", "abababababababab", "aaaaaaaaaaaaaaaa", "中国", "中x"]
    found = matched(words)
    assert found == model_ids(words)
    assert found[0] == found[2] == [UNKNOWN] != found[1]


def test_a_vocabulary_without_continuations():
    vocabulary = ["[PAD]", "[UNK]", "a", "ab"]
    words = ["a", "ab", "aa", "b"]
    assert matched(words, vocabulary) == model_ids(words, vocabulary) == [[2], [3], [1], [1]]


def test_no_words():
    ids, counts = LongestMatch(VOCABULARY, UNKNOWN)(ByteWindow(b""), *np.zeros((2, 0), np.int64))
    assert len(ids) == len(counts) == 0
