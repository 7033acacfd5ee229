"""Long texts in parts that fit, and the way back from tokens to characters and words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from unicodedata import category

import numpy as np

from bert_keras.data.model_inputs import framed
from bert_keras.tokenizers import Tokenizer


@dataclass(frozen=True)
class Pieces:
    """A text without special tokens.

    Attributes:
        ids: int32 [pieces].
        starts: int64 [pieces], the first character of each, white space left out;
        ends: and the one behind its last, accents included that the tokenizer takes away.
    """

    ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray

    @classmethod
    def of(cls, tokenizer: Tokenizer, text: str) -> Pieces:
        """Special tokens in the text are text."""
        found = tokenizer.encode(text, add_special_tokens=False, special_tokens_in_text=False)
        offsets = np.array(found.offsets, np.int64).reshape(-1, 2)
        starts, ends = offsets[:, 0], offsets[:, 1]
        for index, (start, end) in enumerate(found.offsets):  # byte-level pieces hold the space
            part = text[start:end]
            starts[index] += len(part) - len(part.lstrip())
            ends[index] -= len(part) - len(part.rstrip()) if part.strip() else 0
        if not text.isascii():
            stops = np.append(starts[1:], len(text))[: len(starts)]
            for index, stop in enumerate(stops.tolist()):
                while ends[index] < stop and category(text[ends[index]]).startswith("M"):
                    ends[index] += 1
        return cls(np.array(found.ids, np.int32), starts, ends)

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class Window:
    """A part of a text in a row.

    Attributes:
        source: number of the text, or question.
        ids: the row's, special tokens included;
        segments: and its segments.
        offset: where the part begins in the row.
        first: number of its first piece in the text;
        count: how many pieces there are.
        central: bool [count], whether no other window shows a piece with more context around it.
    """

    source: int
    ids: list[int]
    segments: list[int]
    offset: int
    first: int
    count: int
    central: np.ndarray


def question_windows(
    tokenizer: Tokenizer,
    source: int,
    question: np.ndarray,
    context: Pieces,
    *,
    max_length: int,
    stride: int,
) -> list[Window]:
    """A question before each part of its context (Devlin et al., 2019, §4.2, and its code).

    Args:
        tokenizer: for the special tokens.
        source: number of the question.
        question: its ids.
        context: the pieces of the text.
        max_length: of a row.
        stride: pieces from the beginning of a part to that of the next.

    Raises:
        ValueError: the question leaves no room.
    """
    room = max_length - len(question) - tokenizer.scheme.num_added(2)
    if stride < 1:
        raise ValueError(f"stride must be at least 1. Received: stride={stride}")
    if room < 1:
        raise ValueError(
            f"max_length={max_length} leaves no room for the context after a question of "
            f"{len(question)} pieces. Pass a larger max_length, or a smaller max_question."
        )
    starts = list(_starts(len(context), room, stride))
    best = _most_context(len(context), starts, room)
    windows: list[Window] = []
    for number, first in enumerate(starts):
        part = context.ids[first : first + room]
        ids, segments, offset = framed(tokenizer, question.tolist(), part.tolist())
        central = best[first : first + len(part)] == number
        windows.append(Window(source, ids, segments, offset, first, len(part), central))
    return windows


def _starts(length: int, room: int, stride: int) -> Iterator[int]:
    start = 0
    while True:
        yield start
        if start + room >= length:
            return
        start += min(stride, room)


def _most_context(length: int, starts: Sequence[int], room: int) -> np.ndarray:
    """For each piece the number of the window that shows the most around it; of equals the 1st."""
    pieces = np.arange(length)
    best, owner = np.full(length, -np.inf), np.zeros(length, np.int64)
    for number, first in enumerate(starts):
        last = min(first + room, length) - 1
        within = (pieces >= first) & (pieces <= last)
        score = np.minimum(pieces - first, last - pieces) + 0.01 * (last - first + 1)
        better = within & (score > best)
        best[better], owner[better] = score[better], number
    return owner


@dataclass(frozen=True)
class WordWindow:
    """Whole words of a sentence in a row.

    Attributes:
        source: number of the sentence.
        ids: the row's, special tokens included.
        words: int64 [len(ids)], the number of the word that a piece belongs to; -1 for none.
    """

    source: int
    ids: list[int]
    words: np.ndarray

    @property
    def is_first(self) -> np.ndarray:
        """Flags of pieces that begin a word: bool [len(ids)]."""
        return (self.words >= 0) & (np.diff(self.words, prepend=-1) != 0)


def word_windows(
    tokenizer: Tokenizer, source: int, words: Sequence[str], *, max_length: int
) -> list[WordWindow]:
    """A sentence as rows of whole words, as many as it takes: no word is lost but for its end.

    A word of more pieces than a row holds is cut. A word without pieces (a control character) is
    in no row.

    Raises:
        ValueError: no room for a piece.
    """
    text = " ".join(words)
    ends = np.cumsum([len(word) + 1 for word in words])
    pieces = Pieces.of(tokenizer, text)
    owners = np.searchsorted(ends, pieces.starts, side="right")
    room = max_length - tokenizer.scheme.num_added(1)
    if room < 1:
        raise ValueError(
            f"max_length={max_length} leaves no room for words. Pass max_length of at least "
            f"{max_length - room + 1}: a piece and the special tokens."
        )
    windows: list[WordWindow] = []
    begin = 0
    while begin < len(pieces) or not windows:
        end = min(begin + room, len(pieces))
        rest = end
        if end < len(pieces) and owners[end] == owners[end - 1]:  # in the middle of a word
            word = int(owners[end])
            first = int(np.searchsorted(owners, word))
            if first > begin:
                end = rest = first
            else:
                rest = int(np.searchsorted(owners, word, side="right"))
        ids, _, offset = framed(tokenizer, pieces.ids[begin:end].tolist())
        numbers = np.full(len(ids), -1, np.int64)
        numbers[offset : offset + end - begin] = owners[begin:end]
        windows.append(WordWindow(source, ids, numbers))
        begin = rest
    return windows
