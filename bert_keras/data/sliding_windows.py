"""Sliding windows over long texts, with the characters and words that their tokens come from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from unicodedata import category

import numpy as np

from bert_keras.data.model_inputs import add_special_tokens
from bert_keras.tokenizers import Tokenizer


@dataclass(frozen=True)
class Pieces:
    """Pieces of a text, without special tokens, and their places in characters.

    Attributes:
        ids: token id of each piece: int32 [pieces].
        starts: index of the first character of each piece, without white space: int64 [pieces].
        ends: index after its last character: int64 [pieces]. Accents that the tokenizer removes
            belong to the piece before them.
    """

    ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray

    @classmethod
    def of(cls, tokenizer: Tokenizer, text: str) -> Pieces:
        """Tokenize a text. A text such as "[SEP]" in it is text, and no special token."""
        encoding = tokenizer.encode(text, add_special_tokens=False, special_tokens_in_text=False)
        offsets = np.array(encoding.offsets, np.int64).reshape(-1, 2)
        starts, ends = offsets[:, 0], offsets[:, 1]
        # Byte-level pieces begin with the space before the word.
        for index, (start, end) in enumerate(encoding.offsets):
            part = text[start:end]
            starts[index] += len(part) - len(part.lstrip())
            ends[index] -= len(part) - len(part.rstrip()) if part.strip() else 0
        if not text.isascii():
            stops = np.append(starts[1:], len(text))[: len(starts)]
            for index, stop in enumerate(stops.tolist()):
                while ends[index] < stop and category(text[ends[index]]).startswith("M"):
                    ends[index] += 1
        return cls(np.array(encoding.ids, np.int32), starts, ends)

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class Window:
    """Row of a question and a part of its context, which is `count` pieces from piece `first` on.

    Piece `first + i` of the context is in column `offset + i` of the row.

    Attributes:
        source: index of the question.
        ids: token ids of the row, including special tokens.
        segments: segment ids of the row, as many.
        offset: column of the first piece of the context.
        first: index of this piece in the context.
        count: number of pieces of the context in the row.
        central: bool [count], whether no other window has more context around the piece. Every
            piece is central in one window.
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
    """Return a question with each window of its context (Devlin et al., 2019, §4.2, and its code).

    Args:
        tokenizer: tokenizer with the special tokens.
        source: index of the question, for `Window.source`.
        question: token ids of the question: int32 [pieces].
        context: pieces of the context.
        max_length: maximum number of tokens in a row.
        stride: number of pieces from the start of a window to the start of the next.

    Raises:
        ValueError: a stride below 1, or a question that leaves no room for the context.
    """
    room = max_length - len(question) - tokenizer.scheme.num_added(2)
    if stride < 1:
        raise ValueError(f"stride must be at least 1. Received: stride={stride}")
    if room < 1:
        raise ValueError(
            f"max_length={max_length} leaves no room for the context after a question of "
            f"{len(question)} pieces. Pass a larger max_length, or a smaller max_question."
        )
    starts = list(window_starts(len(context), room, stride))
    best = _most_context(len(context), starts, room)
    windows: list[Window] = []
    for number, first in enumerate(starts):
        part = context.ids[first : first + room]
        ids, segments, offset = add_special_tokens(tokenizer, question.tolist(), part.tolist())
        central = best[first : first + len(part)] == number
        windows.append(Window(source, ids, segments, offset, first, len(part), central))
    return windows


def window_starts(length: int, room: int, stride: int) -> Iterator[int]:
    """Yield the first piece of each window of `room` pieces, until one has the last piece.

    A stride above `room` counts as `room`, so that no piece is left out.
    """
    start = 0
    while True:
        yield start
        if start + room >= length:
            return
        start += min(stride, room)


def _most_context(length: int, starts: Sequence[int], room: int) -> np.ndarray:
    """Return the window with the most context around each piece: int64 [length].

    The context of a piece is the smaller number of pieces on its left and right, plus 0.01 for
    every piece of the window, as in BERT's code. Of windows with equal context it is the first.
    """
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
    """Row of whole words of a sentence.

    Attributes:
        source: index of the sentence.
        ids: token ids of the row, including special tokens.
        words: index of the word of each token, -1 for special tokens: int64 [len(ids)].
    """

    source: int
    ids: list[int]
    words: np.ndarray

    @property
    def is_first(self) -> np.ndarray:
        """Flags of the tokens that begin a word: bool [len(ids)]."""
        return (self.words >= 0) & (np.diff(self.words, prepend=-1) != 0)


def word_windows(
    tokenizer: Tokenizer, source: int, words: Sequence[str], *, max_length: int
) -> list[WordWindow]:
    """Return a sentence as rows of whole words, as many rows as it needs.

    A word with more pieces than a row has room for is in a row of its own, and its last pieces are
    cut. A word without pieces, such as a control character, is in no row.

    Args:
        tokenizer: the tokenizer of the model.
        source: index of the sentence, for `WordWindow.source`.
        words: words of the sentence.
        max_length: maximum number of tokens in a row.

    Raises:
        ValueError: a row has no room for a piece beside the special tokens.
    """
    pieces, owners = _pieces_of_words(tokenizer, words)
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
        ids, _, offset = add_special_tokens(tokenizer, pieces[begin:end].tolist())
        numbers = np.full(len(ids), -1, np.int64)
        numbers[offset : offset + end - begin] = owners[begin:end]
        windows.append(WordWindow(source, ids, numbers))
        begin = rest
    return windows


def _pieces_of_words(tokenizer: Tokenizer, words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the ids of the pieces of words, int32 [pieces], and the word of each, int64 [pieces].

    An added token such as "new york" must not take the pieces of the second word. So WordPiece with
    such a token reads each word apart, as it is in the graph of a SavedModel.
    """
    added = [token.content for token in tokenizer.added_tokens if not token.special]
    if tokenizer.lowercase is not None and any(len(token.split()) > 1 for token in added):
        ids, lengths = tokenizer.ragged_ids(words)
        return ids, np.repeat(np.arange(len(words)), lengths)
    pieces = Pieces.of(tokenizer, " ".join(words))
    ends = np.cumsum([len(word) + 1 for word in words])
    return pieces.ids, np.searchsorted(ends, pieces.starts, side="right")
