"""The code point table does to each code point what the `tokenizers` library does."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import normalizers, pre_tokenizers

from bert_keras.tokenizers import basic_tokenizer as cp
from bert_keras.tokenizers.basic_tokenizer import TEXT_END
from bert_keras.tokenizers.wordpiece import WordPiece
from tests.tokenizers.samples import SWITCHES, TRICKY, VOCABULARY


def words_of(table: cp.CodePointTable, character: str) -> list[str]:
    """Apply the table to one code point between two letters. Return the words."""
    code = ord(character)
    page = table.page_of[code // cp.PAGE_SIZE]
    value, kind = divmod(int(table.pages[page, code % cp.PAGE_SIZE]), cp.NUM_KINDS)
    symbols = [(code + value, kind)]
    if kind == cp.EXPANSION:
        start, end = table.expansion_starts[value : value + 2]
        symbols = [divmod(int(symbol), cp.NUM_KINDS) for symbol in table.expansions[start:end]]
    parts = ["x"]
    for output, kind in symbols:
        if kind in (cp.LETTER, cp.MARK):
            parts.append(chr(output))
        elif kind == cp.ISOLATED:
            parts.append(f" {chr(output)} ")
        elif kind == cp.SPACE:
            parts.append(" ")
    return "".join([*parts, "x"]).split(" ")


@pytest.mark.parametrize(
    "switches",
    [(True, True, True), (False, False, True), (True, False, False), (False, True, False)],
    ids=["uncased", "cased", "accents_kept", "accents_stripped"],
)
def test_every_code_point(switches: tuple[bool, bool, bool]):
    lowercase, strip_accents, split_cjk = switches
    table = cp.code_point_table(
        lowercase=lowercase, strip_accents=strip_accents, split_cjk=split_cjk
    )
    normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=split_cjk,
        strip_accents=strip_accents,
        lowercase=lowercase,
    )
    splitter = pre_tokenizers.BertPreTokenizer()
    codes = [*range(0xD800), *range(0xE000, 0x30000, 3), *range(0x30000, cp.NUM_CODE_POINTS, 1009)]
    for code in codes:
        normalized = normalizer.normalize_str(f"x{chr(code)}x")
        expected = [word for word, _ in splitter.pre_tokenize_str(normalized)]
        assert [word for word in words_of(table, chr(code)) if word] == expected, hex(code)


def test_the_table_is_small():
    table = cp.code_point_table(lowercase=True, strip_accents=True, split_cjk=True)
    assert sum(column.nbytes for column in table) < 400_000
    assert table.page_of.max() < len(table.pages)


def test_marks_that_canonical_ordering_moves():
    table = cp.code_point_table(lowercase=True, strip_accents=True, split_cjk=True)
    ranks = dict(zip(table.marks.tolist(), table.mark_ranks.tolist(), strict=True))
    # Their combining classes are 9, 216, 224 and 226.
    assert ranks[0x1B44] < ranks[0x1D165] < ranks[0x302E] < ranks[0x1D16D]
    assert ranks[0x1D165] == ranks[0x1D166]
    assert 0x0301 not in ranks  # Accent stripping removes this mark.
    assert max(ranks.values()) < cp.MAX_RANK
    assert not len(cp.code_point_table(lowercase=True, strip_accents=False, split_cjk=True).marks)


# === The fast split into words equals that of the `tokenizers` library ===


SPLITTERS = [WordPiece(VOCABULARY, **switches).split for switches in SWITCHES]
# Accent stripping keeps most of these marks, and canonical ordering can swap them.
MARKS = "\U0001d165\U0001d16d\ua953\u302e\u1b44\u0301\u034f\U0001d15e"


@pytest.mark.parametrize("splitter", SPLITTERS)
def test_characters_are_split_as_the_engine_does(splitter):
    # Most scripts in use are tested fully. Above U+2FFF every 50th code point is tested, to save
    # time. All code points were compared once.
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
