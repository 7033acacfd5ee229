"""Tables of code points equal the answers of the `tokenizers` library."""

from __future__ import annotations

import random

import numpy as np
import pytest
from tokenizers import normalizers, pre_tokenizers

from bert_keras.tokenizers import character_tables as tables
from bert_keras.tokenizers.basic_tokenizer import NUM_CODE_POINTS

NFC, NFD = normalizers.NFC(), normalizers.NFD()


def test_flags_and_expressions() -> None:
    assert np.flatnonzero(tables.flags_of([3, 5])).tolist() == [3, 5]
    letters = tables.characters_of(r"\p{L}")
    assert letters.shape == (NUM_CODE_POINTS,)
    assert [bool(letters[ord(c)]) for c in "aé中_1 "] == [True, True, True, False, False, False]
    assert np.flatnonzero(tables.characters_of(r"\s")).tolist() == sorted(tables.WHITE_SPACE)
    with pytest.raises(ValueError, match=r"not a regular expression"):
        tables.characters_of("[")


def test_isolated_characters() -> None:
    punctuation = tables.isolated_by(pre_tokenizers.Punctuation())
    assert [bool(punctuation[ord(c)]) for c in "!—。a $"] == [True, True, True, False, False, True]


def test_changes() -> None:
    changes = tables.changes_of(normalizers.Lowercase())
    assert (changes["A"], changes["İ"]) == ("a", "i\u0307")
    assert "a" not in changes


def test_sequences() -> None:
    sequences = tables.Sequences.of({"b": "xy", "a": ""}, ["z"])
    spans = [*zip(sequences.starts, sequences.starts[1:], strict=False)]
    texts = ["".join(map(chr, sequences.values[a:b])) for a, b in spans]
    assert texts == ["", "xy", "", "z"]
    assert [int(sequences.numbers[ord(c)]) for c in "abc"] == [2, 1, 0]


def test_marks_are_sorted_by_their_ranks() -> None:
    ranks = tables.mark_ranks()
    marks = [chr(code) for code in np.flatnonzero(ranks)]
    generator = random.Random(0)
    for _ in range(3_000):
        pair = generator.choice(marks) + generator.choice(marks)
        swaps = NFD.normalize_str(pair) != pair
        assert swaps == (ranks[ord(pair[0])] > ranks[ord(pair[1])]), ascii(pair)
    assert not ranks[[*map(ord, "a \u034f\u0903")]].any()


def test_compositions() -> None:
    pairs, composites = tables.compositions()
    assert (np.diff(pairs) > 0).all()
    for place in range(0, len(pairs), 97):
        first, second = int(pairs[place]) >> 21, int(pairs[place]) & (1 << 21) - 1
        assert NFC.normalize_str(chr(first) + chr(second)) == chr(composites[place])
    assert tables.composed(NFD.normalize_str("\u0958")) != "\u0958"  # an excluded composite
    assert tables.composed(NFD.normalize_str("é")) == "é"


def test_word_characters() -> None:
    flags = tables.word_characters()
    assert [bool(flags[ord(c)]) for c in "aé_9\u0301\u200d-. "] == [True] * 6 + [False] * 3


def test_probes() -> None:
    marks, lengths = tables.probed(normalizers.Lowercase(), "Ab", "x", "z", "a")
    assert np.flatnonzero(marks).tolist() == [ord("A")]
    assert lengths[[ord("A"), ord("b"), ord("c")]].tolist() == [3, 3, 0]
