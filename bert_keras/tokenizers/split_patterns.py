r"""Regular expressions of tokenizers, for a runtime with RE2 and without Unicode's lookahead.

A tokenizer splits texts with expressions such as GPT-2's, which the library Oniguruma matches.
TensorFlow has RE2, with another version of Unicode and without lookahead. So the parts of an
expression that match one character, such as `\p{L}`, are asked of the library for every code
point. Characters with the same answers are a class, and each class has a letter. RE2 then matches
the letters of a text. Both engines prefer the first alternative and the longest repetition.
"""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

import numpy as np

from bert_keras.tokenizers.basic_tokenizer import NUM_CODE_POINTS
from bert_keras.tokenizers.character_tables import characters_of, flags_of

FIRST_LETTER = 0x41  # letters of classes are the code points from here on
_MOST_SETS, _MOST_CLASSES = 60, 120
_LOOKAHEAD = re.compile(r"\(\?!((?:\\[pP]\{\^?\w+\}|\\?[^()\[\]]|\[[^\[\]]*\]))\)")
_QUANTIFIER = re.compile(r"[?*+]|\{\d+(?:,\d*)?\}")
_ATOM = re.compile(
    r"\\[pP]\{\^?\w+\}|\\x\{[0-9a-fA-F]+\}|\\x[0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}"
    r"|\\[sSdDwWnrtfv]|\\[^A-Za-z0-9]"
    r"|\[\^?(?:\\[pP]\{\^?\w+\}|\\x\{[0-9a-fA-F]+\}|\\.|[^\[\]\\&])+\]|\.|[^\\\[\](){}?*+|^$]"
)
# Letters that two characters together may match without regard to case, such as "ss" and "ß".
_FOLDED_PAIRS = ("ff", "fi", "fl", "ss", "st")


class SplitPattern(NamedTuple):
    """An expression over letters of classes.

    Attributes:
        pattern: expression in RE2's syntax.
        classes: uint8 [0x110000], the class of each code point. Its letter is `FIRST_LETTER` more.
        ahead: bool [0x110000]; None without lookahead. The class of a character grows by `num` if
            the next one is True here.
        num: number of classes.
    """

    pattern: str
    classes: np.ndarray
    ahead: np.ndarray | None = None
    num: int = 0


class _Atom(NamedTuple):
    """A part of an expression that matches one character.

    Attributes:
        source: the part, as the library reads it.
        looks_ahead: True if the next character must not be one of the lookahead.
    """

    source: str
    looks_ahead: bool = False


@functools.lru_cache(maxsize=16)
def compiled(expression: str) -> SplitPattern:
    """Return an expression of Oniguruma for RE2.

    Raises:
        ValueError: if it has a construct that is not known here. The message names it.
    """
    reader = _Reader(expression)
    parts = reader.read()
    sources = list(dict.fromkeys(part.source for part in parts if isinstance(part, _Atom)))
    members = {
        source: flags_of([ord(source)])
        if len(source) == 1 and source != "."
        else characters_of(source)
        for source in sources
    }
    return _with_classes(parts, members, reader.ahead)


def literal(text: str) -> SplitPattern:
    """Return the expression that matches a text."""
    atoms = {character: flags_of([ord(character)]) for character in text}
    return _with_classes([_Atom(character) for character in text], atoms, "")


def of_characters(isolated: np.ndarray, *, run: bool = False) -> SplitPattern:
    """Return the expression that matches each character of a set.

    Args:
        isolated: bool [0x110000].
        run: True to match a run of these characters together.
    """
    return _with_classes([_Atom("set"), *(["+"] if run else [])], {"set": isolated}, "")


def _with_classes(
    parts: list[str | _Atom], members: dict[str, np.ndarray], ahead: str
) -> SplitPattern:
    """Return the expression with classes in the place of sets of characters.

    Args:
        parts: syntax, and parts that match one character.
        members: source of such a part -> bool [0x110000], its characters.
        ahead: source of the character that the lookahead forbids; "" for no lookahead.
    """
    table = np.zeros(NUM_CODE_POINTS, np.int64)  # a bit for each set
    for column, flags in enumerate(members.values()):
        table += flags.astype(np.int64) << column
    columns = {source: column for column, source in enumerate(members)}
    rows, classes = np.unique(table, return_inverse=True)
    if len(members) > _MOST_SETS or len(rows) > _MOST_CLASSES:
        raise ValueError("a regular expression with too many sets of characters")

    def letters(atom: _Atom) -> str:
        """Return the classes of a part as a set of RE2."""
        found = np.flatnonzero(rows >> columns[atom.source] & 1).tolist()
        if ahead and not atom.looks_ahead:
            found += [number + len(rows) for number in found]
        if not found:
            return r"[^\x00-\x{10FFFF}]"
        return "[" + "".join(f"\\x{{{FIRST_LETTER + number:X}}}" for number in found) + "]"

    pattern = "".join(letters(part) if isinstance(part, _Atom) else part for part in parts)
    forbidden = characters_of(ahead) if ahead else None
    return SplitPattern(pattern, classes.reshape(-1).astype(np.uint8), forbidden, len(rows))


class _Reader:
    """Reads an expression from left to right.

    Attributes:
        ahead: source of the character that a lookahead forbids; "" for no lookahead.
    """

    def __init__(self, expression: str):
        self._text, self._at, self.ahead = expression, 0, ""

    def read(self) -> list[str | _Atom]:
        """Return the parts of the expression.

        Raises:
            ValueError: if it has an unknown construct, or can match an empty text.
        """
        parts, may_be_empty = self._alternatives("")
        if self._at < len(self._text):
            raise self._unknown()
        if may_be_empty:
            raise ValueError(f"an expression that matches an empty text: {self._text!r}")
        return parts

    def _unknown(self) -> ValueError:
        """Return the error of the construct at the present place."""
        return ValueError(
            f"the regular expression {self._text!r}, which has {self._text[self._at :][:12]!r}"
        )

    def _alternatives(self, flags: str) -> tuple[list[str | _Atom], bool]:
        """Read alternatives up to a closing parenthesis; return also if they may match nothing."""
        parts, may_be_empty = self._sequence(flags)
        while self._text.startswith("|", self._at):
            self._at += 1
            more, is_empty = self._sequence(flags)
            parts += ["|", *more]
            may_be_empty |= is_empty
        return parts, may_be_empty

    def _sequence(self, flags: str) -> tuple[list[str | _Atom], bool]:
        """Read one alternative."""
        parts: list[str | _Atom] = []
        is_empty, begin = True, self._at
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            if match := _LOOKAHEAD.match(self._text, self._at):
                self._look_ahead(parts, match)
                continue
            item, item_is_empty = self._item(flags)
            quantifier = _QUANTIFIER.match(self._text, self._at)
            if quantifier:
                self._at = quantifier.end()
                if self._text[self._at : self._at + 1] in ("?", "+", "*") or (
                    self._text[self._at : self._at + 1] == "{"
                ):
                    raise self._unknown()  # lazy or possessive
                item = [*item, quantifier[0]]
                item_is_empty |= quantifier[0] in "?*" or quantifier[0].startswith(("{0,", "{0}"))
            parts += item
            is_empty &= item_is_empty
        if flags and any(pair in self._text[begin : self._at].lower() for pair in _FOLDED_PAIRS):
            self._at = begin
            raise self._unknown()
        return parts, is_empty

    def _item(self, flags: str) -> tuple[list[str | _Atom], bool]:
        """Read a group or a part that matches one character."""
        group = re.compile(r"\((?:\?(i?):)?(?!\?)").match(self._text, self._at)
        if group:
            self._at = group.end()
            parts, is_empty = self._alternatives("i" if group[1] else flags)
            if not self._text.startswith(")", self._at):
                raise self._unknown()
            self._at += 1
            return ["(?:", *parts, ")"], is_empty
        atom = _ATOM.match(self._text, self._at)
        if not atom:
            raise self._unknown()
        self._at = atom.end()
        return [_Atom(f"(?{flags}:{atom[0]})" if flags else atom[0])], False

    def _look_ahead(self, parts: list[str | _Atom], match: re.Match[str]) -> None:
        """Give the last repetition the condition of a lookahead.

        `A+(?!B)` matches the longest run of A whose next character is not B: `A*` and then one A
        with another character behind it.
        """
        is_run = len(parts) > 1 and parts[-1] == "+" and isinstance(parts[-2], _Atom)
        if not is_run or (self.ahead and self.ahead != match[1]):
            raise self._unknown()
        last = parts[-2]
        assert isinstance(last, _Atom)
        self.ahead, self._at = match[1], match.end()
        parts[-1:] = ["*", last._replace(looks_ahead=True)]
