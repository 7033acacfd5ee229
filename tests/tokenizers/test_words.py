"""The fast way from text to words is the engine's way."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_keras.tokenizers.wordpiece import WordPiece
from bert_keras.tokenizers.words import TEXT_END
from tests.tokenizers.samples import SWITCHES, TRICKY, VOCABULARY

SPLITTERS = [WordPiece(VOCABULARY, **switches).split for switches in SWITCHES]
# Marks that outlive accent stripping and change places with their neighbours.
MARKS = "\U0001d165\U0001d16d\ua953\u302e\u1b44\u0301\u034f\U0001d15e"


@pytest.mark.parametrize("splitter", SPLITTERS)
def test_characters_are_split_as_the_engine_does(splitter):
    # All of the scripts in use, and every 50th of the rest; all of them were compared once.
    start = 10 * SPLITTERS.index(splitter)
    for code in [*range(0x3000), *range(0x3000 + start, sys.maxunicode + 1, 50)]:
        text = f"a{chr(code)}B"
        assert splitter(text) == splitter.by_engine(text), hex(code)


@settings(deadline=None, derandomize=True, max_examples=500)
@given(st.lists(st.text(max_size=6) | st.sampled_from([*TRICKY, *MARKS]), max_size=8).map("".join))
def test_any_text_is_split_as_the_engine_does(text):
    for splitter in SPLITTERS:
        assert splitter(text) == splitter.by_engine(text)


def test_many_texts_are_cleaned_as_each_is():
    texts = ["", "The\0 world!", "caf\u00e9, \u4e16\u754c", "\ud800", "a\udcffb", "\ua953\u0301"]
    for splitter in SPLITTERS:
        parts = splitter.cleaned(texts).split(TEXT_END)
        assert [splitter.words(part) for part in parts] == [
            [word.encode() for word in splitter.by_engine(text)] for text in texts
        ]
