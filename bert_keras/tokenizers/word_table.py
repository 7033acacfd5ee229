"""Words to ids: what a word becomes is found once, and a long text's words are looked up at once.

No word of a block of text becomes an object of Python unless it is long, and rare.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable, Iterator

import numpy as np
import tokenizers

from bert_keras.tokenizers.longest_match import LongestMatch
from bert_keras.tokenizers.slots import KEY_BYTES, Slots, Window
from bert_keras.tokenizers.vocabulary import MAX_WORD_LENGTH
from bert_keras.tokenizers.words import ALONE, PART, TEXT_END, WordSplitter

_BITS = 19  # of the number of slots, which take ten megabytes
_MAX_WORDS = 2 ** (_BITS - 1)
_WORDS_AT_ONCE = 2 ** (_BITS - 2)  # so that a quarter of the slots stays free
_SHORT_TEXT = 4_096  # bytes, of which Python finds the words as soon


class WordTable:
    """The ids of words, remembered. Bounded: starts afresh when it has grown too large.

    Args:
        model: of the pieces.
        match: the same for many words.
        splitter: what it is given comes from.
    """

    def __init__(
        self,
        model: tokenizers.models.WordPiece,
        match: LongestMatch,
        splitter: WordSplitter,
    ):
        self._model = model
        self._match = match
        self._splitter = splitter
        self._lock = threading.Lock()
        self._forget()

    def __len__(self) -> int:
        return len(self._starts) - 1

    def ids(self, text: bytes) -> tuple[np.ndarray, np.ndarray]:
        """The ids of texts.

        Args:
            text: one text or more, as `WordSplitter.cleaned` gives them.

        Returns:
            int32 [ids], those of all texts, and int64 [texts], how many each has.
        """
        with self._lock:
            try:
                found = self._short(text) if len(text) < _SHORT_TEXT else self._long(text)
                ids, lengths, is_end = map(np.concatenate, zip(*found, strict=True))
            except BaseException:  # what was half remembered is no use
                self._forget()
                raise
        ends = np.cumsum(lengths)[is_end]
        return ids, np.diff(ends, prepend=0, append=len(ids))

    def _forget(self) -> None:
        self._ids = array("i")
        self._starts = array("i", [0, 0])
        self._places = _Places(self._placed)
        self._slots = Slots(_BITS)
        # Without ids, and the first of the places.
        self._places[TEXT_END] = 0
        slots, _ = self._slots.claim(Window(TEXT_END).keys(np.zeros(1, int), np.ones(1, int)))
        self._slots.values[slots] = 1

    def _placed(self, word: str) -> int:
        """The place of a new word in the table of ids."""
        self._ids.extend([piece.id for piece in self._model.tokenize(word)])
        self._starts.append(len(self._ids))
        return len(self) - 1

    def _short(self, text: bytes) -> Iterator[_Found]:
        if len(self) > _MAX_WORDS:
            self._forget()
        words = self._splitter.words(text)
        yield self._gather(np.fromiter(map(self._places.__getitem__, words), np.int32, len(words)))

    def _long(self, text: bytes) -> Iterator[_Found]:
        window = Window(text)
        starts, lengths = _words(text, self._splitter.kinds)
        for first in range(0, len(starts) or 1, _WORDS_AT_ONCE):
            if len(self) > _MAX_WORDS:
                self._forget()
            some = slice(first, first + _WORDS_AT_ONCE)
            yield self._gather(self._places_in(text, window, starts[some], lengths[some]))

    def _places_in(
        self, text: bytes, window: Window, starts: np.ndarray, lengths: np.ndarray
    ) -> np.ndarray:
        """int32 [words], the place of each."""
        places = np.empty(len(starts), np.int32)
        is_long = lengths > KEY_BYTES
        for word in np.flatnonzero(is_long).tolist():
            places[word] = self._places[text[starts[word] : starts[word] + lengths[word]]]
        short = np.flatnonzero(~is_long)
        slots, new = self._slots.claim(window.keys(starts[short], lengths[short]))
        self._slots.values[slots[new]] = len(self) + 1 + np.arange(len(new), dtype=np.int32)
        self._remember(*self._match(window, starts[short[new]], lengths[short[new]]))
        places[short] = self._slots.values.take(slots) - 1
        return places

    def _remember(self, ids: np.ndarray, lengths: np.ndarray) -> None:
        starts = len(self._ids) + np.cumsum(lengths)
        self._ids.frombytes(ids.astype(np.intc).tobytes())
        self._starts.frombytes(starts.astype(np.intc).tobytes())

    def _gather(self, places: np.ndarray) -> _Found:
        # Views, gone before the next word comes: an array that is looked into cannot grow.
        table, starts = np.frombuffer(self._ids, np.intc), np.frombuffer(self._starts, np.intc)
        firsts = starts.take(places)
        lengths = starts.take(places + 1) - firsts
        ends = np.cumsum(lengths)
        total = int(ends[-1]) if len(ends) else 0
        ids = table.take(np.arange(total) + np.repeat(firsts - ends + lengths, lengths))
        return ids, lengths, places == 0


_Found = tuple[np.ndarray, np.ndarray, np.ndarray]  # ids, how many each word has, ends of texts


class _Places(dict[bytes, int]):
    def __init__(self, placed: Callable[[str], int]):
        self._placed = placed
        self._unknown = placed("x" * (MAX_WORD_LENGTH + 1))

    def __missing__(self, word: bytes) -> int:
        characters = word.decode()
        if len(characters) > MAX_WORD_LENGTH:  # all the same to WordPiece
            return self._unknown
        place = self[word] = self._placed(characters)
        return place


def _words(text: bytes, kinds: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Where each word begins, and its bytes: int64 [words]."""
    kind = np.frombuffer(text.translate(kinds), np.uint8)
    is_part, is_alone = kind == PART, kind == ALONE
    begins, stops = is_part.copy(), is_part.copy()
    begins[1:] &= ~is_part[:-1]
    stops[:-1] &= ~is_part[1:]
    starts = np.flatnonzero(begins | is_alone)
    return starts, np.flatnonzero(stops | is_alone) + 1 - starts
