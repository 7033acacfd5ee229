"""Expressions for RE2 match as those of the library, or are refused by name."""

from __future__ import annotations

import re

import numpy as np
import pytest

from bert_keras.tokenizers import split_patterns as sp


def _letters(pattern: sp.SplitPattern, text: str) -> str:
    """Return the letters of a text."""
    codes = [ord(c) for c in text]
    letters = pattern.classes[codes].astype(int) + sp.FIRST_LETTER
    if pattern.ahead is not None:
        letters[:-1] += pattern.num * pattern.ahead[codes[1:]]
    return "".join(map(chr, letters))


def _python(pattern: sp.SplitPattern) -> re.Pattern[str]:
    """Return the expression for Python, which has RE2's syntax but for code points."""
    spelled = pattern.pattern.replace(r"[^\x00-\x{10FFFF}]", "(?!)")
    return re.compile(re.sub(r"\\x\{(\w+)\}", lambda m: re.escape(chr(int(m[1], 16))), spelled))


@pytest.mark.parametrize(
    ("expression", "text", "parts"),
    [
        (r" ?\p{L}+|\s+(?!\S)|\s+", "a  bc   ", ["a", " ", " bc", "   "]),
        (r"\s+(?!\S)|\s+|[^\s]", "\n x", ["\n", " ", "x"]),
        (r"(?i:'s|'t)|\p{N}{1,3}|.", "1234'S'x", ["123", "4", "'S", "'", "x"]),
        (r"[^\r\n\p{L}]?\p{L}+|\S", "-a\n-", ["-a", "-"]),
        (r"(?:ab)+|c*d|\x{63}", "ababccdc", ["abab", "ccd", "c"]),
    ],
)
def test_matches(expression: str, text: str, parts: list[str]) -> None:
    pattern = sp.compiled(expression)
    spans = [match.span() for match in _python(pattern).finditer(_letters(pattern, text))]
    assert [text[a:b] for a, b in spans] == parts


def test_sets_and_texts() -> None:
    vowels = np.zeros(0x110000, np.bool_)
    vowels[[*map(ord, "ae")]] = True
    for run, parts in ((False, ["a", "e", "a"]), (True, ["ae", "a"])):
        pattern = sp.of_characters(vowels, run=run)
        spans = [match.span() for match in _python(pattern).finditer(_letters(pattern, "aexa"))]
        assert ["aexa"[a:b] for a, b in spans] == parts
    pattern = sp.literal("``")
    assert len(_python(pattern).findall(_letters(pattern, "`````"))) == 2


@pytest.mark.parametrize(
    ("expression", "part"),
    [
        ("a(?=b)", r"\(\?=b\)"),
        ("(?<!a)b", r"\(\?<!a\)b"),
        ("a++", r"'\+'"),
        ("a+?", r"'\?'"),
        ("^a", r"\^a"),
        (r"\bx", "bx"),
        ("a(?!b)", r"\(\?!b\)"),
        ("(?i:ss)", "ss"),
        ("[[:alpha:]]", "alpha"),
        ("(a", "''"),
        ("a)", r"\)"),
    ],
)
def test_unknown_constructs_are_named(expression: str, part: str) -> None:
    with pytest.raises(ValueError, match=rf"the regular expression .* which has .*{part}"):
        sp.compiled(expression)


@pytest.mark.parametrize("expression", ["a*", "a|b?", "(?:a?)+", "a{0,3}"])
def test_an_empty_match_is_refused(expression: str) -> None:
    with pytest.raises(ValueError, match="matches an empty text"):
        sp.compiled(expression)


def test_other_errors() -> None:
    with pytest.raises(ValueError, match="not a regular expression"):
        sp.compiled(r"\p{Nothing}")
    with pytest.raises(ValueError, match="too many sets"):
        sp.compiled("|".join(map(chr, range(0x4E00, 0x4E50))))
