"""BERT's basic tokenizer: normalisation of characters and splitting into words.

Everything before WordPiece works code point by code point: cleaning, spaces around CJK, accent
stripping, lower-casing, splitting off punctuation. So one table of all code points describes it in
a form that other runtimes can apply. The table is built by calls of the `tokenizers` library with
every code point. Only one step depends on neighbours: canonical decomposition sorts adjacent
combining marks by their class. Nearly all marks are stripped. The table lists the others (`marks`)
with their order.
"""

# A caller without a type checker may pass anything: arguments are checked when it runs.
# pyright: reportUnnecessaryIsInstance=false

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from tokenizers import normalizers, pre_tokenizers
from tokenizers.normalizers import Normalizer
from tokenizers.pre_tokenizers import PreTokenizer

# Kinds of table entries. Up to SPACE, an entry stands for one output code point.
LETTER, MARK, ISOLATED, SPACE, EXPANSION, BARRIER, DROPPED = range(7)
KIND_BITS, PAGE_BITS = 3, 8
NUM_KINDS, PAGE_SIZE = 1 << KIND_BITS, 1 << PAGE_BITS
MAX_RANK = 256
NUM_CODE_POINTS = 0x110000

# A letter that no other code point maps to, and two marks of combining classes 226 and 9, which
# canonical ordering therefore swaps.
_SEPARATOR = "\u0e01"
_HIGH, _LOW = "\U0001d16d", "\u1b44"


class CodePointTable(NamedTuple):
    """Two-level table: `pages[page_of[c // 256], c % 256]` is the entry of code point `c`.

    An entry is `8 * value + kind`. The kinds are:

    - LETTER, MARK (a letter that canonical ordering may move) and ISOLATED (a word of its own): the
      output is the code point `c + value`;
    - SPACE: separates words;
    - EXPANSION: the output is the sequence number `value` of `expansions`;
    - BARRIER and DROPPED: no output. Canonical ordering moves marks across DROPPED only.

    Attributes:
        page_of: int32 [0x1100], the page of each block of 256 code points.
        pages: int32 [pages, 256], the entries.
        expansions: int32 [symbols], each `8 * code_point + kind`.
        expansion_starts: int32 [num_expansions + 1], offsets into `expansions`.
        marks: int32 [marks], the code points of kind MARK, ascending.
        mark_ranks: int32 [marks], from 1 to 255, the sort keys of canonical ordering.
    """

    page_of: np.ndarray
    pages: np.ndarray
    expansions: np.ndarray
    expansion_starts: np.ndarray
    marks: np.ndarray
    mark_ranks: np.ndarray


@functools.lru_cache(maxsize=8)
def code_point_table(*, lowercase: bool, strip_accents: bool, split_cjk: bool) -> CodePointTable:
    """Build the table of a tokenizer with these switches; takes two seconds and is cached."""
    normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=split_cjk,
        strip_accents=strip_accents,
        lowercase=lowercase,
    )
    outputs: dict[str, str] = {}
    for block in _blocks():
        if not _is_plain(normalizer, block):
            outputs |= zip(block, _normalize_each(normalizer, block, block), strict=True)
    isolated, spaces = _split_off(sorted(set("".join(outputs.values()))))
    marks, ranks, transparent = _canonical_ordering(normalizer, outputs)
    kinds = dict.fromkeys(marks, MARK)
    kinds |= dict.fromkeys(isolated, ISOLATED) | dict.fromkeys(spaces, SPACE)

    # An entry of 0 is a letter that does not change.
    entries = np.zeros(NUM_CODE_POINTS, np.int32)
    expansions: list[int] = []
    starts = [0]
    for source, output in outputs.items():
        code = ord(source)
        if not output:
            entries[code] = DROPPED if source in transparent else BARRIER
        elif len(output) == 1:
            shift = 0 if output in spaces else ord(output) - code
            entries[code] = shift * NUM_KINDS + kinds.get(output, LETTER)
        elif len(output) == 3 and output[0] == output[2] == " ":
            entries[code] = (ord(output[1]) - code) * NUM_KINDS + ISOLATED
        else:
            entries[code] = (len(starts) - 1) * NUM_KINDS + EXPANSION
            expansions += [ord(c) * NUM_KINDS + kinds.get(c, LETTER) for c in output]
            starts.append(len(expansions))
    page_of, pages = paged(entries)
    return CodePointTable(
        page_of=page_of,
        pages=pages,
        expansions=np.asarray(expansions, np.int32),
        expansion_starts=np.asarray(starts, np.int32),
        marks=np.asarray([ord(mark) for mark in marks], np.int32),
        mark_ranks=np.asarray(ranks, np.int32),
    )


def paged(entries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Split the entries of all code points, int32 [0x110000], into `page_of` and `pages`.

    Equal pages are stored once; see `CodePointTable`.
    """
    numbers: dict[bytes, int] = {}
    page_of = [
        numbers.setdefault(page.tobytes(), len(numbers)) for page in entries.reshape(-1, PAGE_SIZE)
    ]
    pages = np.frombuffer(b"".join(numbers), entries.dtype).reshape(-1, PAGE_SIZE)
    return np.array(page_of, np.int32), pages


def _blocks(size: int = 1 << 12) -> Iterator[list[str]]:
    """Yield all code points except surrogates, in lists of up to `size`."""
    for start in range(0, NUM_CODE_POINTS, size):
        codes = range(start, start + size)
        if block := [chr(code) for code in codes if not 0xD800 <= code < 0xE000]:
            yield block


def _is_plain(normalizer: normalizers.Normalizer, block: list[str]) -> bool:
    """Return whether all characters of a block are letters that normalisation does not change.

    This skips most blocks with one call, because most of Unicode is unassigned.
    """
    text = _SEPARATOR.join(_HIGH + character + _LOW for character in block)
    if normalizer.normalize_str(text) != text:
        return False
    return len(pre_tokenizers.BertPreTokenizer().pre_tokenize_str(text)) == 1


def _normalize_each(
    normalizer: normalizers.Normalizer, sources: list[str], probes: list[str]
) -> list[str]:
    """Normalise each probe on its own, but in a single call of the normaliser.

    Args:
        normalizer: the normaliser.
        sources: character under test in each probe. One of them may be the separator itself.
        probes: texts to normalise.

    Returns:
        The normalised probes.
    """
    joined = normalizer.normalize_str(_SEPARATOR.join(["", *probes, ""]))
    parts = joined.split(_SEPARATOR)[1:-1]
    if _SEPARATOR in sources:
        at = sources.index(_SEPARATOR)
        parts[at : at + 2] = [_SEPARATOR.join(parts[at : at + 2])]
    if len(parts) != len(probes):
        raise RuntimeError(f"the normaliser produced {len(parts)} parts from {len(probes)}")
    return parts


def _split_off(characters: list[str]) -> tuple[set[str], set[str]]:
    """Return the characters that the pre-tokenizer isolates, and those it treats as spaces."""
    text = _SEPARATOR.join(["", *characters, ""])
    covered = np.zeros(len(text), bool)
    alone = np.zeros(len(text), bool)
    for _, (start, end) in pre_tokenizers.BertPreTokenizer().pre_tokenize_str(text):
        covered[start:end] = True
        alone[start] = end - start == 1 and text[start] != _SEPARATOR
    return (
        {text[i] for i in np.flatnonzero(alone)},
        {text[i] for i in np.flatnonzero(~covered)},
    )


def _canonical_ordering(
    normalizer: normalizers.Normalizer, outputs: dict[str, str]
) -> tuple[list[str], list[int], set[str]]:
    """Find out how the normaliser orders combining marks.

    Args:
        normalizer: the normaliser.
        outputs: character -> normalised text, for all characters that change.

    Returns:
        The marks that are not stripped, the rank of each in canonical ordering, and the characters
        across which marks move. All are empty if the normaliser does not order marks.
    """
    if normalizer.normalize_str(_SEPARATOR + _HIGH + _LOW) != _SEPARATOR + _LOW + _HIGH:
        return [], [], set()
    transparent: set[str] = set()
    sources = [source for source, output in outputs.items() if len(output) < 2]
    probes = [_HIGH + source + _LOW for source in sources]
    for source, part in zip(sources, _normalize_each(normalizer, sources, probes), strict=True):
        if part.rindex(_LOW) < part.index(_HIGH):
            transparent.add(source)
    marks = sorted({outputs[source] for source in transparent} - {""})
    pairs = [first + second for first in marks for second in marks]
    sorted_pairs = _normalize_each(normalizer, pairs, pairs)
    swapped = np.array([a != b for a, b in zip(pairs, sorted_pairs, strict=True)])
    ranks = 1 + swapped.reshape(len(marks), len(marks)).sum(axis=1)
    return marks, ranks.tolist(), transparent


# === Words ===
# A corpus repeats its characters and words. So the `tokenizers` library is called once for each
# character (`WordSplitter`) and once for each word (`word_cache.WordTable`), and the results are
# cached. Only canonical decomposition depends on neighbours: it sorts adjacent combining marks.
# A text with a mark that is not stripped is therefore normalised by the library as a whole.


TEXT_END = b"\xff"  # separates texts. UTF-8 never has this byte, and it counts as a word
BLANK, PART, ALONE = range(3)  # kinds of bytes: space, part of a word, word of its own

_SURROGATES = re.compile("[\ud800-\udfff]")
_FOREIGN = re.compile("[^\0-\x7f]+")
_END = "\udcff"  # TEXT_END after "surrogateescape"; a text's own U+DCFF is dropped
_ASK_THE_ENGINE = "\ud800"  # marks characters to normalise in context; dropped from texts
_FIRST_MARK, _LAST_MARK = "\ua953", "\U0001d16d"  # combining classes 9 and 226


def without_surrogates(text: str) -> str:
    """Replace lone surrogates, which the `tokenizers` library refuses, by U+FFFD, which it drops.

    Raises:
        TypeError: if `text` is not a string.
    """
    if not isinstance(text, str):
        raise TypeError(f"a text must be a string. Received: {text!r:.200}")
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


def list_of_texts(texts: Sequence[str]) -> Sequence[str]:
    """Return `texts` unchanged after a check.

    Raises:
        TypeError: if `texts` is one string, or an item is not a string.
    """
    if isinstance(texts, str):
        raise TypeError(
            f"`texts` must be a list of strings. Received: one string, {texts!r:.80}. Put it into "
            "a list."
        )
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"`texts`[{index}]: a text must be a string. Received: {text!r:.200}")
    return texts


class WordSplitter:
    """Splits texts into the normalised words that WordPiece reads: `splitter(text)`.

    Args:
        normalizer: BERT's normaliser.
        pre_tokenizer: BERT's pre-tokenizer.

    Attributes:
        kinds: table for `bytes.translate` from a byte of cleaned text to BLANK, PART or ALONE.
        words: function from cleaned text (bytes) to the list of its words, `TEXT_END` included.
    """

    def __init__(self, normalizer: Normalizer, pre_tokenizer: PreTokenizer):
        self._normalizer = normalizer
        self._pre_tokenizer = pre_tokenizer
        self._characters = _Characters(self)
        # An ASCII character becomes one byte or none: `bytes.translate` is the fastest way.
        ascii_ = {code: self._characters[code] for code in range(128)}
        table, kinds = bytearray(range(256)), bytearray([PART] * 256)
        for code, spaced in ascii_.items():
            table[code] = ord(spaced.strip() or " ")
            if len(spaced) > 1:
                kinds[table[code]] = ALONE
        kinds[ord(" ")], kinds[TEXT_END[0]] = BLANK, ALONE
        self._dropped = bytes(code for code, spaced in ascii_.items() if not spaced)
        self._ascii, self.kinds = bytes(table), bytes(kinds)
        alone = re.escape(bytes(code for code in range(256) if kinds[code] == ALONE))
        self.words = re.compile(b"[%b]|[^ %b]+" % (alone, alone)).findall

    def __call__(self, text: str) -> list[str]:
        """Return the words of one text."""
        return [word.decode() for word in self.words(self.cleaned([text]))]

    def cleaned(self, texts: Sequence[str]) -> bytes:
        """Return normalised texts in UTF-8, joined by `TEXT_END`, with spaces between words.

        There are no spaces around ASCII punctuation: `kinds` says that it is a word of its own.
        """
        parts = [text if text.isascii() else self._without_foreign(text) for text in texts]
        joined = _END.join(parts).encode(errors="surrogateescape")
        return joined.translate(self._ascii, self._dropped)

    def by_engine(self, text: str) -> list[str]:
        """Return the words of one text without the cache of characters, which is slow."""
        normalized = self.normalize(without_surrogates(text))
        return [word for word, _ in self._pre_tokenizer.pre_tokenize_str(normalized)]

    def normalize(self, text: str) -> str:
        """Return the normalised text."""
        return self._normalizer.normalize_str(text)

    def _without_foreign(self, text: str) -> str:
        """Normalise the characters of a text that are not ASCII."""
        spaced = _FOREIGN.sub(lambda match: match[0].translate(self._characters), text)
        return " ".join(self.by_engine(text)) if _ASK_THE_ENGINE in spaced else spaced


class _Characters(dict[int, str]):
    """Cache for `str.translate`: code point -> normalised text with spaces at word boundaries."""

    def __init__(self, splitter: WordSplitter):
        self._splitter = splitter

    def __missing__(self, code: int) -> str:
        character = without_surrogates(chr(code))
        if self._moves(character):
            spaced = _ASK_THE_ENGINE
        else:
            spaced = " ".join(self._splitter.by_engine(f"a{character}b"))[1:-1]
        self[code] = spaced
        return spaced

    def _moves(self, character: str) -> bool:
        """Return whether normalisation swaps this character with a neighbouring mark."""
        normalize = self._splitter.normalize
        alone = normalize(character)
        return (
            normalize(character + _FIRST_MARK) != alone + normalize(_FIRST_MARK)
            or normalize(_LAST_MARK + character) != normalize(_LAST_MARK) + alone
        )
