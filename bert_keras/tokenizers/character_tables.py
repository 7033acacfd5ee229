"""Tables of all code points, made by calls of the `tokenizers` library with every code point.

The library has its own version of Unicode, and another one in its regular expressions. Tables from
the library itself give a graph the same letters, spaces and decompositions.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tokenizers as hf
from tokenizers import normalizers, pre_tokenizers

from bert_keras.tokenizers.basic_tokenizer import NUM_CODE_POINTS

_SURROGATES = range(0xD800, 0xE000)
_SEPARATOR = "\u0e01"  # a letter that no other code point maps to
_BLOCK = 1 << 12
# The property White_Space of Unicode, which has not changed since version 6.3.
WHITE_SPACE = (
    *(*range(0x9, 0xE), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B)),
    *(0x2028, 0x2029, 0x202F, 0x205F, 0x3000),
)
_FIRST_MARK, _LAST_MARK = "\u0334", "\u0345"  # of the lowest and the highest combining class


@functools.cache
def _characters() -> str:
    """Return all code points except surrogates."""
    return "".join(map(chr, (c for c in range(NUM_CODE_POINTS) if c not in _SURROGATES)))


def flags_of(codes: Iterable[int]) -> np.ndarray:
    """Return bool [0x110000] that is True for `codes`."""
    flags = np.zeros(NUM_CODE_POINTS, np.bool_)
    flags[list(codes)] = True
    return flags


def _codes(text: str) -> np.ndarray:
    """Return the code points of a text, int [characters]."""
    return np.frombuffer(text.encode("utf-32-le"), np.uint32).astype(np.int64)


@functools.lru_cache(maxsize=64)
def characters_of(pattern: str) -> np.ndarray:
    """Return bool [0x110000]: the characters that a regular expression of one character matches.

    Raises:
        ValueError: if the library cannot read the expression.
    """
    try:
        remover = normalizers.Replace(hf.Regex(pattern), "")
    except Exception as error:
        raise ValueError(f"{pattern!r}: not a regular expression: {error}") from error
    flags = np.ones(NUM_CODE_POINTS, np.bool_)
    flags[_SURROGATES.start : _SURROGATES.stop] = False
    flags[_codes(remover.normalize_str(_characters()))] = False
    flags.flags.writeable = False
    return flags


def isolated_by(pre_tokenizer: pre_tokenizers.PreTokenizer) -> np.ndarray:
    """Return bool [0x110000]: the characters that a pre-tokenizer makes words of their own."""
    flags = np.zeros(NUM_CODE_POINTS, np.bool_)
    text = "a".join(_characters())
    for word, (start, end) in pre_tokenizer.pre_tokenize_str(text):
        if end - start == 1 and start % 2 == 0:
            flags[ord(word)] = True
    return flags


def changes_of(normalizer: normalizers.Normalizer) -> dict[str, str]:
    """Return character -> normalised text, for the characters that a normaliser changes.

    Args:
        normalizer: a normaliser that reads each character for itself. It may also sort marks.
    """
    outputs: dict[str, str] = {}
    characters = _characters()
    for begin in range(0, len(characters), _BLOCK):
        block = [c for c in characters[begin : begin + _BLOCK] if c != _SEPARATOR]
        text = _SEPARATOR.join(["", *block, ""])
        normalized = normalizer.normalize_str(text)
        if normalized == text:
            continue
        parts = normalized.split(_SEPARATOR)[1:-1]
        if len(parts) != len(block):
            raise RuntimeError(f"the normaliser produced {len(parts)} parts from {len(block)}")
        outputs |= {c: part for c, part in zip(block, parts, strict=True) if c != part}
    return outputs


@functools.cache
def word_characters() -> np.ndarray:
    """Return bool [0x110000]: the characters of words, for added tokens with `single_word`."""
    engine = hf.Tokenizer(hf.models.WordLevel({"?": 0}, "?"))
    engine.add_tokens([hf.AddedToken("\ue000", single_word=True, normalized=False)])  # pyright: ignore[reportUnknownMemberType]
    flags = np.zeros(NUM_CODE_POINTS, np.bool_)
    characters = _characters()
    for begin in range(0, len(characters), _BLOCK):
        block = characters[begin : begin + _BLOCK]
        found = engine.encode("".join(f"{c}\ue000 " for c in block), add_special_tokens=False)
        is_found = np.zeros(3 * len(block), np.bool_)
        places = [
            start for index, (start, _) in zip(found.ids, found.offsets, strict=True) if index
        ]
        is_found[places] = True
        flags[_codes(block)] = ~is_found[1::3]
    flags[0xE000] = False
    return flags


def probed(
    normalizer: normalizers.Normalizer, characters: str, before: str, behind: str, mark: str
) -> tuple[np.ndarray, np.ndarray]:
    """Normalise `before`, a character and `behind`, for each of many characters.

    Args:
        normalizer: a normaliser that reads each line for itself and keeps line breaks.
        characters: the characters, without a line break.
        before: text before the character.
        behind: text behind the character.
        mark: a character.

    Returns:
        Whether the normalised text has `mark`, bool [0x110000], and its length, int64 [0x110000].
        Both are 0 for other characters.
    """
    text = "".join(f"{before}{c}{behind}\n" for c in characters)
    output = _codes(normalizer.normalize_str(text))
    line = np.cumsum(output == ord("\n"))
    places, count = _codes(characters), len(characters)
    has_mark, lengths = np.zeros(NUM_CODE_POINTS, np.bool_), np.zeros(NUM_CODE_POINTS, np.int64)
    has_mark[places] = np.bincount(line[output == ord(mark)], minlength=count + 1)[:count] > 0
    lengths[places] = np.bincount(line[output != ord("\n")], minlength=count + 1)[:count]
    return has_mark, lengths


# === Sequences ===


class Sequences(NamedTuple):
    """A sequence of code points for each code point.

    Attributes:
        numbers: int32 [0x110000], number of the sequence of each code point; 0 if it stays.
        values: int32 [values], the code points of all sequences.
        starts: int32 [sequences + 1], index of the first value of each sequence. Sequence 0 is
            empty.
    """

    numbers: np.ndarray
    values: np.ndarray
    starts: np.ndarray

    @classmethod
    def of(cls, outputs: Mapping[str, str], more: Sequence[str] = ()) -> Sequences:
        """Make the table of characters and their outputs.

        Args:
            outputs: character -> text.
            more: texts that get the last numbers.
        """
        numbers = np.zeros(NUM_CODE_POINTS, np.int32)
        numbers[[ord(c) for c in outputs]] = np.arange(1, len(outputs) + 1)
        texts = ["", *outputs.values(), *more]
        starts = np.cumsum([0, *map(len, texts)])
        return cls(numbers, _codes("".join(texts)).astype(np.int32), starts.astype(np.int32))


# === Canonical ordering and composition (Unicode, chapter 3.11) ===


@functools.cache
def mark_ranks() -> np.ndarray:
    """Return uint8 [0x110000], the sort keys of canonical ordering; 0 for a character that stays.

    They are in the order of the combining classes of the library's version of Unicode.
    """
    nfd = normalizers.NFD()
    decomposed = decompositions("NFD")
    moved: list[str] = []
    skipped = {_SEPARATOR, *decomposed}
    characters = _characters()
    for begin in range(0, len(characters), _BLOCK):
        block = [c for c in characters[begin : begin + _BLOCK] if c not in skipped]
        probes = [_LAST_MARK + c + _FIRST_MARK for c in block]
        sorted_ = nfd.normalize_str(_SEPARATOR.join(probes))
        if sorted_ != _SEPARATOR.join(probes):
            parts = sorted_.split(_SEPARATOR)
            moved += [c for c, a, b in zip(block, probes, parts, strict=True) if a != b]
    known: dict[int, str] = {}  # combining class in Python's version of Unicode -> a mark of it
    for c in moved:
        known.setdefault(unicodedata.combining(c), c)
    ordered = [known[key] for key in sorted(known)]
    ranks = np.zeros(NUM_CODE_POINTS, np.uint8)
    for c in moved:
        text = nfd.normalize_str(
            _SEPARATOR.join([r + c for r in ordered] + [c + r for r in ordered])
        )
        parts = text.split(_SEPARATOR)
        count = len(ordered)
        above = sum(part[0] == c for part in parts[:count]) - (c in ordered)
        below = sum(part[0] != c for part in parts[count:])
        # A class between two known ones has an odd rank, a known one an even rank.
        ranks[ord(c)] = 2 * below + 1 + (above + below < count)
    ranks.flags.writeable = False
    return ranks


@functools.cache
def decompositions(form: str) -> dict[str, str]:
    """Return character -> decomposition, for the form "NFD" or "NFKD"."""
    return changes_of(getattr(normalizers, form)())


@functools.cache
def compositions() -> tuple[np.ndarray, np.ndarray]:
    """Return pairs `first << 21 | second`, int64, ascending, and their composites, int64."""
    nfc = normalizers.NFC()
    found: dict[int, int] = {}
    pairs: list[tuple[str, str]] = []
    for composite, parts in decompositions("NFD").items():
        if len(parts) < 2:
            continue
        pairs.append((composite, nfc.normalize_str(parts[:-1]) + parts[-1]))
    composed = nfc.normalize_str(_SEPARATOR.join(pair for _, pair in pairs)).split(_SEPARATOR)
    for (composite, pair), result in zip(pairs, composed, strict=True):
        if result == composite and len(pair) == 2:
            found[ord(pair[0]) << 21 | ord(pair[1])] = ord(composite)
    keys = sorted(found)
    return np.array(keys, np.int64), np.array([found[key] for key in keys], np.int64)


@functools.cache
def _composed() -> dict[str, str]:
    """Return decomposition -> what composition makes of it."""
    nfc = normalizers.NFC()
    texts = [*{**dict.fromkeys(decompositions("NFD").values())}]
    texts = [*dict.fromkeys([*texts, *decompositions("NFKD").values()])]
    parts = nfc.normalize_str(_SEPARATOR.join(texts)).split(_SEPARATOR)
    return dict(zip(texts, parts, strict=True))


def composed(text: str) -> str:
    """Return the composition of the decomposition of a character."""
    return _composed()[text]
