"""Passages of documents for search, with their places: by tokens, or by whole sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple
from unicodedata import category

import numpy as np

from bert_keras.data.documents import sentence_spans
from bert_keras.data.sliding_windows import Pieces
from bert_keras.tokenizers import Tokenizer

# Scripts without spaces between words; BERT reads each ideograph as a word.
_IDEOGRAPHS = (("\u3400", "\u9fff"), ("\uf900", "\ufaff"), ("\U00020000", "\U0003ffff"))


class Passage(NamedTuple):
    """A part of a document.

    Attributes:
        document: number of the document, from 0.
        start: index of the first character of the passage in its document.
        end: index after its last character.
        text: these characters, `document[start:end]`.
    """

    document: int
    start: int
    end: int
    text: str


def token_passages(
    tokenizer: Tokenizer,
    documents: Iterable[str],
    *,
    max_tokens: int = 256,
    stride: int | None = None,
) -> Iterator[Passage]:
    """Yield passages of at most `max_tokens` tokens, which may overlap.

    Passages begin and end between words, if the words are not longer than a passage. They have all
    characters of a document but white space. Documents are read one at a time.

    Args:
        tokenizer: tokenizer of the model that will read the passages.
        documents: texts.
        max_tokens: maximum number of tokens, without special tokens and prompts. A character of
            more tokens is a passage of its own.
        stride: number of tokens from the start of a passage to the start of the next, at most
            `max_tokens`; None for passages that do not overlap.

    Raises:
        ValueError: `max_tokens` or `stride` is out of range.
    """
    _check(max_tokens, max_tokens if stride is None else stride)
    for number, text in enumerate(documents):
        tokens = _Tokens(tokenizer, text)
        last = len(tokens)
        for first, end in tokens.windows(0, last, max_tokens, stride):
            yield from tokens.passage(number, first, end)


def sentence_passages(
    tokenizer: Tokenizer,
    documents: Iterable[str],
    *,
    max_tokens: int = 256,
    language: str = "en",
) -> Iterator[Passage]:
    """Yield passages of whole sentences, as many as fit into `max_tokens` tokens.

    A longer sentence is split as `token_passages` does it. Passages have all characters of a
    document but white space, and do not overlap. Documents are read one at a time.

    Args:
        tokenizer: tokenizer of the model that will read the passages.
        documents: texts.
        max_tokens: maximum number of tokens, without special tokens and prompts.
        language: ISO code of the language, whose rules split sentences.

    Raises:
        ValueError: `max_tokens` is out of range.
    """
    _check(max_tokens, max_tokens)
    for number, text in enumerate(documents):
        tokens = _Tokens(tokenizer, text)
        begins = [tokens.first_from(start) for start, _ in sentence_spans(text, language)]
        bounds = sorted({0, *begins, len(tokens)})
        begin = 0
        for position, end in enumerate(bounds[1:], 1):
            following = bounds[position + 1] if position + 1 < len(bounds) else None
            if following is not None and following - begin <= max_tokens:
                continue
            for first, stop in tokens.windows(begin, end, max_tokens, None):
                yield from tokens.passage(number, first, stop)
            begin = end
        if len(bounds) == 1:  # no tokens
            yield from tokens.passage(number, 0, 0)


def _check(max_tokens: int, stride: int) -> None:
    """Raise `ValueError` for sizes out of range."""
    if max_tokens < 1:
        raise ValueError(f"`max_tokens` must be at least 1. Received: max_tokens={max_tokens}")
    if not 1 <= stride <= max_tokens:
        raise ValueError(
            f"`stride` must be from 1 to max_tokens={max_tokens}, so that no token is left out. "
            f"Received: stride={stride}"
        )


class _Tokens:
    """Tokens of a document, and the places between them where a passage may begin.

    Args:
        tokenizer: the tokenizer.
        text: the document.
    """

    def __init__(self, tokenizer: Tokenizer, text: str):
        self._text = text
        pieces = Pieces.of(tokenizer, text)
        self._starts = pieces.starts
        before = np.maximum.accumulate(np.append(0, pieces.ends))[:-1]
        # Tokens of one character have the same start. An accent stays with its letter.
        is_apart = (self._starts >= before) & (np.diff(self._starts, prepend=-1) > 0)
        places = self._starts.tolist()
        marks = [at < len(text) and category(text[at]).startswith("M") for at in places]
        is_apart &= ~np.array(marks, bool)
        ranks = np.array([_rank(text, at) for at in places], np.int64)
        # Places where a passage may begin: before words, also within them at a hyphen or the like,
        # and everywhere.
        self._bounds: list[np.ndarray] = []
        for least in (2, 1, 0):
            inner = np.flatnonzero(is_apart & (ranks >= least))
            self._bounds.append(np.union1d(inner, np.array([0, len(places)])))

    def __len__(self) -> int:
        return len(self._starts)

    def first_from(self, character: int) -> int:
        """Return the first token, of those that a passage may begin with, from a character on."""
        token = int(np.searchsorted(self._starts, character))
        anywhere = self._bounds[-1]
        return int(anywhere[np.searchsorted(anywhere, token)])

    def windows(
        self, begin: int, end: int, max_tokens: int, stride: int | None
    ) -> Iterator[tuple[int, int]]:
        """Yield the first token of each passage, and the token after its last one.

        Args:
            begin: first token of the part of the document.
            end: token after the last one of this part.
            max_tokens: maximum number of tokens of a passage.
            stride: tokens from the start of a passage to that of the next; None for no overlap.
        """
        while begin < end or begin == end == 0:
            stop = end if end - begin <= max_tokens else self._bound(begin, begin + max_tokens)
            yield begin, stop
            if stop >= end:
                return
            begin = stop if stride is None else min(stop, self._bound(begin, begin + stride))

    def _bound(self, begin: int, most: int) -> int:
        """Return the last place after `begin` and up to `most`: between words, if there is one.

        If there is none at all, it is the first place after `most`.
        """
        for bounds in self._bounds:
            bound = int(bounds[np.searchsorted(bounds, most, side="right") - 1])
            if bound > begin:
                return bound
        anywhere = self._bounds[-1]
        return int(anywhere[np.searchsorted(anywhere, begin, side="right")])

    def passage(self, number: int, first: int, end: int) -> Iterator[Passage]:
        """Yield the passage of some tokens, without white space around it; none if it is empty.

        Characters that have no token belong to the token before them, or to the first one.

        Args:
            number: number of the document.
            first: first token.
            end: token after the last one.
        """
        start = 0 if first == 0 else int(self._starts[first])
        stop = len(self._text) if end == len(self) else int(self._starts[end])
        part = self._text[start:stop]
        if text := part.strip():
            start += len(part) - len(part.lstrip())
            yield Passage(number, start, start + len(text), text)


def _rank(text: str, at: int) -> int:
    """Return how well a text is cut before a character: 2 between words, 0 between two letters."""
    if at == 0 or at >= len(text):
        return 2
    last, first = text[at - 1], text[at]
    if last.isspace() or _is_ideograph(first) or (_is_ideograph(last) and first.isalnum()):
        return 2
    return 0 if last.isalnum() and first.isalnum() else 1


def _is_ideograph(char: str) -> bool:
    """Return whether a character is a word of its own, as BERT reads Chinese."""
    return any(low <= char <= high for low, high in _IDEOGRAPHS)
