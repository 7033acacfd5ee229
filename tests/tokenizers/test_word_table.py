"""The fast way from words to ids is the engine's way."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import chain

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


@pytest.fixture(params=[0, 10**9], ids=["by NumPy", "by Python"])
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
        for size in (0, 10**9):
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


def test_a_small_table_is_filled_again_and_again(monkeypatch):
    """Also in the middle of a text."""
    for name, value in {
        "_SHORT_TEXT": 0,
        "_BITS": 5,
        "_MAX_WORDS": 16,
        "_WORDS_AT_ONCE": 8,
    }.items():
        monkeypatch.setattr(word_table, name, value)
    kind = WordPiece(VOCABULARY)
    texts = [" ".join(f"un{n} the{n}" for n in range(40)), "the un3 the7 hello", "", "a" * 30]
    for _ in range(2):
        assert kind.text_ids(texts) == [engine_ids(kind, text) for text in texts]
        assert len(kind._table) <= 24


def test_what_was_interrupted_is_forgotten(monkeypatch):
    """Whatever comes between, in the middle of forgetting too."""
    kind = WordPiece(VOCABULARY)
    texts, others = ["the world hello un"], ["able mask sep want running a b c"]

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(word_table, "_SHORT_TEXT", 0)
    kind.text_ids(texts)
    for name in ("_match", "_remember"):
        with monkeypatch.context() as patch:
            patch.setattr(kind._table._known, name, stop)
            patch.setattr(word_table, "Slots", stop)
            for _ in range(2):
                with pytest.raises(KeyboardInterrupt):
                    kind.text_ids(others)
        assert len(kind._table) == 0
        monkeypatch.setattr(word_table, "_SHORT_TEXT", 10**9)
        assert kind.text_ids(others) == [engine_ids(kind, text) for text in others]
        monkeypatch.setattr(word_table, "_SHORT_TEXT", 0)
        assert kind.text_ids(texts) == [engine_ids(kind, text) for text in texts]
        others = [f"{others[0]} abc xyz"]


def test_a_fork_does_not_wait_for_a_thread_of_its_parent():
    """Which holds the lock there and never lets go of it here."""
    kind = WordPiece(VOCABULARY)
    kind.text_ids(["the"])
    with kind._table._lock:
        word_table._after_fork()  # what the system calls in the child
        assert kind.text_ids(["the"]) == [engine_ids(kind, "the")]


def test_words_are_remembered_within_bounds(monkeypatch, short):
    monkeypatch.setattr(word_table, "_MAX_WORDS", 3)
    kind = WordPiece(VOCABULARY)
    texts = ["the world hello un unaffable", "a" * 101, "the the"]
    engine = [engine_ids(kind, text) for text in texts]
    assert kind.text_ids(texts) == engine
    assert len(kind._table) == 7  # five words, what ends a text, what is too long
    assert kind.text_ids(["a"] * 3) == [engine_ids(kind, "a")] * 3
    assert len(kind._table) == 3


def test_texts_may_be_empty_or_hold_what_ends_a_text(short):
    kind = WordPiece(VOCABULARY)
    texts = ["", "the\0world\0", "\0", "\ud800", " ", "\u00ff", "the\udcffworld", "\udcff\u1b44a"]
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
