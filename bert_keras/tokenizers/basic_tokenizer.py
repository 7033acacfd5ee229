"""Normalisation of characters and splitting into words: BERT's basic tokenizer.

Everything before WordPiece works code point by code point: cleaning, spaces around CJK, accent
stripping, lower-casing, splitting off punctuation. So a table built by asking the engine about
every code point says all of it, in a form that other runtimes can apply. One thing depends on the
neighbours: canonical decomposition sorts adjacent combining marks by their class. Nearly all marks
are stripped; the table lists the few that are not (`marks`), with their order.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from tokenizers import normalizers, pre_tokenizers
from tokenizers.normalizers import Normalizer
from tokenizers.pre_tokenizers import PreTokenizer

if TYPE_CHECKING:
    from bert_keras.tokenizers.tokenizer import Tokenizer

# The kinds of entry. Up to SPACE an entry is one output code point.
LETTER, MARK, ISOLATED, SPACE, EXPANSION, BARRIER, DROPPED = range(7)
KIND_BITS, PAGE_BITS = 3, 8
NUM_KINDS, PAGE_SIZE = 1 << KIND_BITS, 1 << PAGE_BITS
MAX_RANK = 256
NUM_CODE_POINTS = 0x110000

# A letter that no other code point maps to, and two spacing marks of unequal class (226 and 9).
_SEPARATOR = "\u0e01"
_HIGH, _LOW = "\U0001d16d", "\u1b44"


class CodePointTable(NamedTuple):
    """The two-level table: `pages[page_of[c // 256], c % 256]` is the entry of code point `c`.

    An entry is `8 * value + kind`. By kind: LETTER, MARK (a letter that canonical ordering may
    move) and ISOLATED (a word of its own) become the code point `c + value`; SPACE separates words;
    EXPANSION becomes the symbols number `value`; BARRIER and DROPPED vanish, and only a DROPPED one
    lets marks move across it.

    Attributes:
        page_of: int32 [0x1100].
        pages: int32 [pages, 256].
        expansions: int32 [symbols], each `8 * code_point + kind`.
        expansion_starts: int32 [num_expansions + 1], offsets into `expansions`.
        marks: int32 [marks], the code points of kind MARK, ascending.
        mark_ranks: int32 [marks], from 1 to 255; canonical ordering sorts by it.
    """

    page_of: np.ndarray
    pages: np.ndarray
    expansions: np.ndarray
    expansion_starts: np.ndarray
    marks: np.ndarray
    mark_ranks: np.ndarray


@functools.lru_cache(maxsize=8)
def code_point_table(*, lowercase: bool, strip_accents: bool, split_cjk: bool) -> CodePointTable:
    """The table of a tokenizer with these switches. Takes about two seconds, once."""
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

    # 0: a letter that stays as it is.
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
    """Entries of all code points as the number of each page, and the different pages."""
    pages, page_of = np.unique(entries.reshape(-1, PAGE_SIZE), axis=0, return_inverse=True)
    return page_of.reshape(-1).astype(np.int32), pages


def _blocks(size: int = 1 << 12) -> Iterator[list[str]]:
    """All code points but the surrogates, some thousand at a time."""
    for start in range(0, NUM_CODE_POINTS, size):
        codes = range(start, start + size)
        if block := [chr(code) for code in codes if not 0xD800 <= code < 0xE000]:
            yield block


def _is_plain(normalizer: normalizers.Normalizer, block: list[str]) -> bool:
    """Return whether all characters are letters that stay unchanged; most blocks are unassigned."""
    text = _SEPARATOR.join(_HIGH + character + _LOW for character in block)
    if normalizer.normalize_str(text) != text:
        return False
    return len(pre_tokenizers.BertPreTokenizer().pre_tokenize_str(text)) == 1


def _normalize_each(
    normalizer: normalizers.Normalizer, sources: list[str], probes: list[str]
) -> list[str]:
    """Normalises every probe on its own, in one call; `sources` says which holds the separator."""
    joined = normalizer.normalize_str(_SEPARATOR.join(["", *probes, ""]))
    parts = joined.split(_SEPARATOR)[1:-1]
    if _SEPARATOR in sources:
        at = sources.index(_SEPARATOR)
        parts[at : at + 2] = [_SEPARATOR.join(parts[at : at + 2])]
    if len(parts) != len(probes):
        raise RuntimeError(f"the normaliser produced {len(parts)} parts from {len(probes)}")
    return parts


def _split_off(characters: list[str]) -> tuple[set[str], set[str]]:
    """The characters the word splitter makes words of their own, and those it treats as spaces."""
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
    """The marks that survive, the rank of each, and the code points across which marks move."""
    if normalizer.normalize_str(_SEPARATOR + _HIGH + _LOW) != _SEPARATOR + _LOW + _HIGH:
        return [], [], set()
    transparent: set[str] = set()
    for block in _blocks():
        sources = [source for source in block if len(outputs.get(source, "  ")) < 2]
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


def require_word_piece(tokenizer: Tokenizer) -> None:
    """Raises `ValueError` for a tokenizer of another kind."""
    if tokenizer.lowercase is None:
        raise ValueError(
            "Only WordPiece tokenizers have a graph: export the model without its tokenizer, and "
            f"make ids in Python. Received: {tokenizer!r}"
        )


# === Words ===
# Everything before WordPiece works character by character, and a corpus says few things that were
# not said before. So the engine is asked once for each character (`WordSplitter`) and once for each
# word (`WordTable`). One thing does look at its neighbours: canonical decomposition sorts adjacent
# combining marks. Texts with a mark that survives the cleaning go through the engine itself.


TEXT_END = b"\xff"  # a word of its own, between texts: never in UTF-8
BLANK, PART, ALONE = range(3)  # what a byte of cleaned text is: of a word, or a word

_SURROGATES = re.compile("[\ud800-\udfff]")
_FOREIGN = re.compile("[^\0-\x7f]+")
_END = "\udcff"  # TEXT_END by "surrogateescape"; cleaned away where a text has it
_ASK_THE_ENGINE = "\ud800"  # a text's own surrogates are cleaned away
_FIRST_MARK, _LAST_MARK = "\ua953", "\U0001d16d"  # combining classes 9 and 226


def without_surrogates(text: str) -> str:
    """Lone surrogates, which the engine refuses, as U+FFFD, which it drops."""
    if not isinstance(text, str):
        raise TypeError(f"a text must be a string. Received: {text!r}")
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


def list_of_texts(texts: Sequence[str]) -> Sequence[str]:
    """The same. Raises `TypeError` for one string, and for what is not a string."""
    if isinstance(texts, str):
        raise TypeError("texts must be a list of strings. Received: one string")
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"a text must be a string. Received: {text!r}")
    return texts


class WordSplitter:
    """`splitter(text)`: the words that WordPiece gets to see.

    Attributes:
        kinds: of each byte of cleaned text, `SPACE`, `PART` or `ALONE`, for `bytes.translate`.
        words: all words of cleaned text, those of `TEXT_END` too.
    """

    def __init__(self, normalizer: Normalizer, pre_tokenizer: PreTokenizer):
        self._normalizer = normalizer
        self._pre_tokenizer = pre_tokenizer
        self._characters = _Characters(self)
        # ASCII's become one byte or none, which `bytes.translate` does faster than anything else.
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
        """The words of the text."""
        return [word.decode() for word in self.words(self.cleaned([text]))]

    def cleaned(self, texts: Sequence[str]) -> bytes:
        """The texts normalised, `TEXT_END` between two, spaces where words end.

        But no spaces around ASCII's punctuation, which `kinds` tells.
        """
        parts = [text if text.isascii() else self._without_foreign(text) for text in texts]
        joined = _END.join(parts).encode(errors="surrogateescape")
        return joined.translate(self._ascii, self._dropped)

    def by_engine(self, text: str) -> list[str]:
        """The words of the text, slowly."""
        normalized = self.normalize(without_surrogates(text))
        return [word for word, _ in self._pre_tokenizer.pre_tokenize_str(normalized)]

    def normalize(self, text: str) -> str:
        """The text, cleaned."""
        return self._normalizer.normalize_str(text)

    def _without_foreign(self, text: str) -> str:
        """The text, cleaned but for what is ASCII."""
        spaced = _FOREIGN.sub(lambda found: found[0].translate(self._characters), text)
        return " ".join(self.by_engine(text)) if _ASK_THE_ENGINE in spaced else spaced


class _Characters(dict[int, str]):
    """For `str.translate`: a character as it is normalised, with spaces where words end."""

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
