"""Words of a text, as corpora of tagged words have them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from itertools import pairwise

# What parts a word wherever it stands: brackets, and marks of Chinese and Japanese;
PARTING = re.compile(r"[()\[\]{}\u3001-\u3003\u3008-\u3011\u3014-\u301f！（）？［］｛｝｟-､]")
# what does but between digits, and what does beside a letter.
# The pattern `PARTED` is of them all.
WIDE, INNER, QUOTES = "，：；", ",;\u2013\u2014", "'\u2019"
PARTED = re.compile(
    rf"{PARTING.pattern}|(?<!\d)[{WIDE}]|[{WIDE}](?!\d)"
    rf"|(?<=[^\W\d])[{INNER}](?=\w)|(?<=\w)[{INNER}](?=[^\W\d])"
)
_POSSESSIVE = re.compile(rf"(?<=\w)[{QUOTES}][sS]\Z")
# Chinese characters, as BERT's tokenizer splits them (google-research/bert, tokenization.py).
CHINESE = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


def words_of(text: str) -> list[tuple[int, int]]:
    """Return the beginnings and ends of the words of a text, as in corpora of tagged words.

    White space parts words; punctuation around a word is a word for each mark; every Chinese
    character is a word. What stands within a word ("U.S.-based", "don't", "1,000") stays, but for a
    possessive 's and for marks that part words ("Rome,Paris"), which are words too. Accents,
    joiners and selectors of a variant belong to the character before them.
    """
    found: list[tuple[int, int]] = []
    run: list[tuple[int, int]] = []
    for start, end in _characters(text):
        if text[start].isspace() or is_chinese(text[start]):
            found += _words(text, run)
            run = []
            found += [] if text[start].isspace() else [(start, end)]
        else:
            run.append((start, end))
    return found + list(_words(text, run))


def _characters(text: str) -> Iterator[tuple[int, int]]:
    """Every character, with what belongs to it."""
    start = 0
    while start < len(text):
        end = start + 1
        if not text[start].isspace():
            while end < len(text) and is_attached(text[end]):
                end += 1
        yield start, end
        start = end


def _words(text: str, run: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Of characters without white space or Chinese ones among them."""
    letters = "".join(text[start] for start, _ in run)
    bounds = {at for part in PARTED.finditer(letters) for at in part.span()}
    for first, last in pairwise(sorted({0, *bounds, len(letters)})):
        begin, stop = first, last
        while begin < stop and is_mark(letters[begin]):
            begin += 1
        while stop > begin and is_mark(letters[stop - 1]):
            stop -= 1
        yield from run[first:begin]
        owner = _POSSESSIVE.search(letters[begin:stop])
        inner = begin + owner.start() if owner else stop
        for a, b in ((begin, inner), (inner, stop)):
            if a < b:
                yield run[a][0], run[b - 1][1]
        yield from run[stop:last]


def is_chinese(character: str) -> bool:
    """Return whether a character is a word by itself."""
    return any(first <= ord(character) <= last for first, last in CHINESE)


def is_attached(character: str) -> bool:
    """Return whether a character belongs to the one before it."""
    return not character.isascii() and unicodedata.category(character) in ("Mn", "Mc", "Me", "Cf")


def is_mark(character: str) -> bool:
    """Return whether a character is no part of a word that it stands before or behind."""
    return unicodedata.category(character)[0] in "PS" or is_attached(character)
