"""The hash table of words, and the fast path from words to ids."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_keras.tokenizers import word_cache
from bert_keras.tokenizers.basic_tokenizer import without_surrogates
from bert_keras.tokenizers.word_cache import KEY_BYTES, ByteWindow, HashTable, cut_keys
from bert_keras.tokenizers.wordpiece import WordPiece
from tests.tokenizers.samples import SWITCHES, TRICKY, VOCABULARY

WORDS = st.binary(min_size=1, max_size=KEY_BYTES).filter(lambda word: 0 not in word)


def keys_of(words):
    """Return the keys of these words, joined to one text."""
    lengths = np.array([len(word) for word in words], np.int64)
    return ByteWindow(b"".join(words)).keys(np.cumsum(lengths) - lengths, lengths)


def bytes_of(keys):
    """Return the words of these keys."""
    return [key.tobytes().rstrip(b"\0") for key in keys.astype("<u8").T]


@settings(deadline=None, derandomize=True)
@given(st.lists(WORDS, min_size=1))
def test_a_key_is_the_bytes_of_a_word_wherever_it_stands(words):
    keys = keys_of(words)
    assert bytes_of(keys) == words
    for size in range(1, KEY_BYTES + 1):
        assert bytes_of(np.stack(cut_keys(keys, size))) == [word[:size] for word in words]


def test_a_longer_word_is_cut():
    """A key holds only the first 16 bytes of a word."""
    keys = ByteWindow(b"abcdefghijklmnopqrstuvwxyz").keys(np.array([3]), np.array([20]))
    assert bytes_of(keys) == [b"defghijklmnopqrs"]


@pytest.fixture(params=[False, True], ids=["", "all want one slot"])
def mixers(request, monkeypatch):
    """Run a test with a normal hash, and with one that gives all words the same slot."""
    if request.param:
        monkeypatch.setattr(word_cache, "_MIXERS", np.zeros(2, np.uint64))


@pytest.mark.usefixtures("mixers")
@pytest.mark.parametrize("word", [b"%d", b"abcdefgh%d"])
def test_every_word_has_a_slot_of_its_own(word):
    """Each word gets a slot of its own, if words share first bytes and the table is nearly full."""
    generator = np.random.default_rng(0)
    table, numbers = HashTable(8), {}
    for _ in range(30):
        words = [word % number for number in generator.integers(1, 250, 100)]
        claimed, new = table.claim(keys_of(words))
        fresh = sorted({word for word in words if word not in numbers})
        assert sorted(words[index] for index in new) == fresh
        for index in new:
            numbers[words[index]] = len(numbers) + 1
            table.values[claimed[index]] = len(numbers)
        assert table.values[claimed].tolist() == [numbers[word] for word in words]


def test_no_words():
    claimed, new = HashTable(3).claim(np.zeros((2, 0), np.uint64))
    assert len(claimed) == len(new) == 0


# === The fast path from words to ids equals the `tokenizers` library ===


KINDS = [WordPiece(VOCABULARY, **switches) for switches in SWITCHES]


def engine_ids(kind, text):
    """Return the ids of the `tokenizers` library."""
    return kind.plain.encode(without_surrogates(text), add_special_tokens=False).ids


@pytest.fixture(params=[0, 10**9], ids=["by NumPy", "by Python"])
def short(request, monkeypatch):
    """Set the length up to which Python splits a text into words."""
    monkeypatch.setattr(word_cache, "_SHORT_TEXT", request.param)


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
                patch.setattr(word_cache, "_SHORT_TEXT", size)
                assert kind.text_ids(texts) == expected


def test_words_of_every_length_are_told_apart(short):
    """Words are distinguished if they share their first bytes or are longer than a key."""
    kind = WordPiece([*VOCABULARY, *(f"##{'x' * n}" for n in range(2, 25))])
    words = ["x" * n + end for n in range(1, 40) for end in ("", "a", "b", "\u00e9\u4e16", ".")]
    expected = [engine_ids(kind, word) for word in words]
    for _ in range(2):  # The first round adds the words, and the second finds them.
        assert kind.text_ids(words) == expected
    assert kind.text_ids([" ".join(words)]) == [[*chain.from_iterable(expected)]]


def test_a_small_table_is_filled_again_and_again(monkeypatch):
    """A small table is emptied and filled several times, even within a text."""
    for name, value in {
        "_SHORT_TEXT": 0,
        "_BITS": 5,
        "_MAX_WORDS": 16,
        "_WORDS_AT_ONCE": 8,
    }.items():
        monkeypatch.setattr(word_cache, name, value)
    kind = WordPiece(VOCABULARY)
    texts = [" ".join(f"un{n} the{n}" for n in range(40)), "the un3 the7 hello", "", "a" * 30]
    for _ in range(2):
        assert kind.text_ids(texts) == [engine_ids(kind, text) for text in texts]
        assert len(kind._table) <= 24


def test_what_was_interrupted_is_forgotten(monkeypatch):
    """Interrupted work leaves no wrong entries, even if emptying the table is interrupted."""
    kind = WordPiece(VOCABULARY)
    texts, others = ["the world hello un"], ["able mask sep want running a b c"]

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(word_cache, "_SHORT_TEXT", 0)
    kind.text_ids(texts)
    for name in ("_match", "_remember"):
        with monkeypatch.context() as patch:
            patch.setattr(kind._table._known, name, stop)
            patch.setattr(word_cache, "HashTable", stop)
            for _ in range(2):
                with pytest.raises(KeyboardInterrupt):
                    kind.text_ids(others)
        assert len(kind._table) == 0
        monkeypatch.setattr(word_cache, "_SHORT_TEXT", 10**9)
        assert kind.text_ids(others) == [engine_ids(kind, text) for text in others]
        monkeypatch.setattr(word_cache, "_SHORT_TEXT", 0)
        assert kind.text_ids(texts) == [engine_ids(kind, text) for text in texts]
        others = [f"{others[0]} abc xyz"]


def test_a_fork_does_not_wait_for_a_thread_of_its_parent():
    """A forked child does not wait for a lock that a thread of the parent holds.

    That thread does not exist in the child, where nothing would release the lock.
    """
    kind = WordPiece(VOCABULARY)
    kind.text_ids(["the"])
    with kind._table._lock:
        word_cache._after_fork()  # The system calls this in the child.
        assert kind.text_ids(["the"]) == [engine_ids(kind, "the")]


def test_words_are_remembered_within_bounds(monkeypatch, short):
    monkeypatch.setattr(word_cache, "_MAX_WORDS", 3)
    kind = WordPiece(VOCABULARY)
    texts = ["the world hello un unaffable", "a" * 101, "the the"]
    engine = [engine_ids(kind, text) for text in texts]
    assert kind.text_ids(texts) == engine
    # These are five words, the end of a text, and a word that is too long.
    assert len(kind._table) == 7
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
    monkeypatch.setattr(word_cache, "_MAX_WORDS", 50)
    kind = WordPiece(VOCABULARY)
    texts = [
        [f"the{chr(97 + number + i % 17)} world{i} un" for i in range(40)] for number in range(8)
    ]
    expected = [[engine_ids(kind, text) for text in batch] for batch in texts]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(20):
            assert [*pool.map(kind.text_ids, texts)] == expected
