"""Cutting and padding."""

from __future__ import annotations

import itertools

import pytest

from bert_keras.tokenizers.encoding import kept_lengths, pad


def test_cuts_as_the_engine_does():
    engine = pytest.importorskip("tokenizers")
    words = engine.Tokenizer(engine.models.WordLevel({"a": 0, "b": 1}, unk_token="a"))
    words.pre_tokenizer = engine.pre_tokenizers.Whitespace()
    for first, second, room in itertools.product(range(7), range(7), range(1, 10)):
        words.enable_truncation(room)
        pair = words.encode("a " * first, "b " * second)
        expected = [pair.ids.count(0), pair.ids.count(1)]
        assert kept_lengths([first, second], room + 3, 3) == expected


def test_cuts_one_text_at_the_end():
    assert kept_lengths([5], None, 2) == [5]
    assert kept_lengths([5], 7, 2) == [5]
    assert kept_lengths([5], 6, 2) == [4]
    assert kept_lengths([5], 2, 2) == [0]
    with pytest.raises(ValueError, match=r"special tokens. Received: 1$"):
        kept_lengths([0], 1, 2)


def test_pads_at_the_end():
    rows = [[[2, 7, 3]], [[2, 3], [8, 9, 3]]]
    batch = pad(rows, 1, None, two_segments=True)
    assert batch["token_ids"].tolist() == [[2, 7, 3, 1, 1], [2, 3, 8, 9, 3]]
    assert batch["segment_ids"].tolist() == [[0, 0, 0, 0, 0], [0, 0, 1, 1, 1]]
    assert batch["padding_mask"].tolist() == [[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]
    assert pad([], 0, 4, two_segments=True)["token_ids"].shape == (0, 4)
    assert set(pad(rows, 1, None, two_segments=False)) == {"token_ids", "padding_mask"}
