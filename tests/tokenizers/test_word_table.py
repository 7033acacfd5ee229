"""The fast way from words to ids is the engine's way."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_keras.tokenizers import word_table
from bert_keras.tokenizers.wordpiece import WordPiece
from bert_keras.tokenizers.words import without_surrogates
from tests.tokenizers.samples import SWITCHES, TRICKY, VOCABULARY

KINDS = [WordPiece(VOCABULARY, **switches) for switches in SWITCHES]


def engine_ids(kind, text):
    """What the engine itself says."""
    return kind.plain.encode(without_surrogates(text), add_special_tokens=False).ids


@pytest.fixture(params=[0, 4_096], ids=["by NumPy", "by Python"])
def short(request, monkeypatch):
    """Up to which length a text's words are found by Python."""
    monkeypatch.setattr(word_table, "_SHORT_TEXT", request.param)


@settings(deadline=None, derandomize=True, max_examples=300)
@given(
    st.lists(
        st.lists(st.text(max_size=20) | st.sampled_from([*TRICKY, *VOCABULARY])).map(" ".join),
        max_size=5,
    )
)
def test_any_texts_have_the_ids_of_the_engine(texts):
    for kind in KINDS:
        expected = [engine_ids(kind, text) for text in texts]
        for size in (0, 4_096):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(word_table, "_SHORT_TEXT", size)
                assert kind.text_ids(texts) == expected


def test_words_of_every_length_are_told_apart(short):
    """Those that share their first bytes, and those that are longer than a key."""
    kind = WordPiece([*VOCABULARY, *(f"##{'x' * n}" for n in range(2, 25))])
    words = ["x" * n + end for n in range(1, 40) for end in ("", "a", "b", "\u00e9\u4e16", ".")]
    expected = [engine_ids(kind, word) for word in words]
    for _ in range(2):  # new, and remembered
        assert kind.text_ids(words) == expected
    assert kind.text_ids([" ".join(words)]) == [[*chain.from_iterable(expected)]]


def test_words_in_one_slot_are_told_apart(monkeypatch):
    """As if all had one hash."""
    monkeypatch.setattr(word_table, "_SHORT_TEXT", 0)
    monkeypatch.setattr(
        word_table, "_first_slots", lambda keys: np.full(keys.shape[1], 2**word_table._BITS - 2)
    )
    kind = WordPiece(VOCABULARY)
    texts = ["the world hello un unaffable", "hello , the . world ##un", "hello world"]
    for _ in range(2):
        assert kind.text_ids(texts) == [engine_ids(kind, text) for text in texts]


def test_a_table_without_room_still_answers(monkeypatch):
    monkeypatch.setattr(word_table, "_SHORT_TEXT", 0)
    monkeypatch.setattr(word_table, "_BITS", 3)  # room for six words
    kind = WordPiece(VOCABULARY)
    texts = [" ".join(f"un{n} the{n}" for n in range(40)), "the un3 the7 hello"]
    for _ in range(2):
        assert kind.text_ids(texts) == [engine_ids(kind, text) for text in texts]


def test_words_are_remembered_within_bounds(monkeypatch, short):
    monkeypatch.setattr(word_table, "_MAX_WORDS", 3)
    kind = WordPiece(VOCABULARY)
    texts = ["the world hello un unaffable", "a" * 101, "the the"]
    engine = [engine_ids(kind, text) for text in texts]
    assert kind.text_ids(texts) == kind.text_ids(texts) == engine
    assert len(kind._table) == 6  # five words, and what ends a text
    assert kind.text_ids(["a"] * 3) == [engine_ids(kind, "a")] * 3
    assert len(kind._table) == 2


def test_texts_may_be_empty_or_hold_what_ends_a_text(short):
    kind = WordPiece(VOCABULARY)
    texts = ["", "the\0world\0", "\0", "\ud800", " ", "\u00ff", "the"]
    assert kind.text_ids(texts) == [engine_ids(kind, text) for text in texts]
    assert kind.text_ids([""]) == [[]]
    assert kind.text_ids([]) == []
    ids, lengths = kind.ragged_ids([])
    assert ids.shape == lengths.shape == (0,)


def test_threads_may_share_one_table(monkeypatch, short):
    monkeypatch.setattr(word_table, "_MAX_WORDS", 50)
    kind = WordPiece(VOCABULARY)
    texts = [
        [f"the{chr(97 + number + i % 17)} world{i} un" for i in range(40)] for number in range(8)
    ]
    expected = [[engine_ids(kind, text) for text in batch] for batch in texts]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(20):
            assert [*pool.map(kind.text_ids, texts)] == expected
