"""Many words at once find their place in a table."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_keras.tokenizers import slots
from bert_keras.tokenizers.slots import KEY_BYTES, Slots, Window, cut

WORDS = st.binary(min_size=1, max_size=KEY_BYTES).filter(lambda word: 0 not in word)


def keys_of(words):
    """The keys of words that stand in one text, one after another."""
    lengths = np.array([len(word) for word in words], np.int64)
    return Window(b"".join(words)).keys(np.cumsum(lengths) - lengths, lengths)


def bytes_of(keys):
    """The words of keys."""
    return [key.tobytes().rstrip(b"\0") for key in keys.astype("<u8").T]


@settings(deadline=None, derandomize=True)
@given(st.lists(WORDS, min_size=1))
def test_a_key_is_the_bytes_of_a_word_wherever_it_stands(words):
    keys = keys_of(words)
    assert bytes_of(keys) == words
    for size in range(1, KEY_BYTES + 1):
        assert bytes_of(np.stack(cut(keys, size))) == [word[:size] for word in words]


def test_a_longer_word_is_cut():
    keys = Window(b"abcdefghijklmnopqrstuvwxyz").keys(np.array([3]), np.array([20]))
    assert bytes_of(keys) == [b"defghijklmnopqrs"]


@pytest.fixture(params=[False, True], ids=["", "all want one slot"])
def mixers(request, monkeypatch):
    """Slots that are spread, or one for all."""
    if request.param:
        monkeypatch.setattr(slots, "_MIXERS", np.zeros(2, np.uint64))


@pytest.mark.usefixtures("mixers")
@pytest.mark.parametrize("word", [b"%d", b"abcdefgh%d"])
def test_every_word_has_a_slot_of_its_own(word):
    """Also those that share their first bytes, where nearly all slots are taken."""
    generator = np.random.default_rng(0)
    table, numbers = Slots(8), {}
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
    claimed, new = Slots(3).claim(np.zeros((2, 0), np.uint64))
    assert len(claimed) == len(new) == 0
