"""Words to ids: what a word becomes is found once, and a long text's words are looked up at once.

No word of up to 16 bytes, in a block of text, becomes an object of Python.
"""

from __future__ import annotations

import os
import threading
import weakref
from array import array
from collections.abc import Iterator

import numpy as np
import tokenizers

from bert_keras.tokenizers.longest_match import LongestMatch
from bert_keras.tokenizers.slots import KEY_BYTES, Slots, Window
from bert_keras.tokenizers.vocabulary import MAX_WORD_LENGTH
from bert_keras.tokenizers.words import ALONE, PART, TEXT_END, WordSplitter

_BITS = 19  # of the number of slots, which take ten megabytes
_MAX_WORDS = 2 ** (_BITS - 1)
_MAX_IDS = 2**22
_WORDS_AT_ONCE = 2 ** (_BITS - 2)  # so that a quarter of the slots stays free
_SHORT_TEXT = 4_096  # bytes, of which Python finds the words as soon

_Found = tuple[np.ndarray, np.ndarray, np.ndarray]  # ids, how many each word has, ends of texts
_tables: weakref.WeakSet[WordTable] = weakref.WeakSet()


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
        self.start_afresh()
        _tables.add(self)

    def __len__(self) -> int:
        return 0 if self._known is None else self._known.count

    def start_afresh(self) -> None:
        """Forgets all, in a process that was forked from another thread's as well."""
        self._lock = threading.Lock()
        self._known: _Known | None = None

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
                self._known = None
                raise
        ends = np.cumsum(lengths)[is_end]
        return ids, np.diff(ends, prepend=0, append=len(ids))

    def _with_room(self) -> _Known:
        """What is known, with room for as many words as are asked for at once."""
        if self._known is None or self._known.is_full:
            self._known = _Known(self._model, self._match)
        return self._known

    def _short(self, text: bytes) -> Iterator[_Found]:
        known, words = self._with_room(), self._splitter.words(text)
        yield known.ids(np.fromiter(map(known.__getitem__, words), np.int32, len(words)))

    def _long(self, text: bytes) -> Iterator[_Found]:
        window = Window(text)
        starts, lengths = _words(text, self._splitter.kinds)
        for first in range(0, len(starts) or 1, _WORDS_AT_ONCE):
            some = slice(first, first + _WORDS_AT_ONCE)
            known = self._with_room()
            yield known.ids(known.places(text, window, starts[some], lengths[some]))


class _Known(dict[bytes, int]):
    """The ids of words in one table, and the place of each word there.

    A short text's words, and long words, have their places in the dictionary itself; words of a
    long text in slots.
    """

    def __init__(self, model: tokenizers.models.WordPiece, match: LongestMatch):
        self._model = model
        self._match = match
        self._ids = array("i")
        self._starts = array("i", [0, 0])
        self._slots = Slots(_BITS)
        # Without ids, and the first of the places.
        self[TEXT_END] = 0
        slots, _ = self._slots.claim(Window(TEXT_END).keys(np.zeros(1, int), np.ones(1, int)))
        self._slots.values[slots] = 1
        self._too_long = self._placed("x" * (MAX_WORD_LENGTH + 1))  # all the same to WordPiece

    @property
    def count(self) -> int:
        """How many have ids."""
        return len(self._starts) - 1

    @property
    def is_full(self) -> bool:
        """Whether it is time to start afresh."""
        return self.count > _MAX_WORDS or len(self._ids) > _MAX_IDS

    def __missing__(self, word: bytes) -> int:
        characters = word.decode()
        if len(characters) > MAX_WORD_LENGTH:
            return self._too_long
        place = self[word] = self._placed(characters)
        return place

    def _placed(self, word: str) -> int:
        """The place of a new word."""
        self._ids.extend([piece.id for piece in self._model.tokenize(word)])
        self._starts.append(len(self._ids))
        return self.count - 1

    def places(
        self, text: bytes, window: Window, starts: np.ndarray, lengths: np.ndarray
    ) -> np.ndarray:
        """int32 [words], the place of each word of a text."""
        places = np.empty(len(starts), np.int32)
        has_key = lengths <= KEY_BYTES
        for index in np.flatnonzero(~has_key).tolist():
            places[index] = self[text[starts[index] : starts[index] + lengths[index]]]
        keyed = np.flatnonzero(has_key)
        slots, new = self._slots.claim(window.keys(starts[keyed], lengths[keyed]))
        self._slots.values[slots[new]] = self.count + 1 + np.arange(len(new), dtype=np.int32)
        self._remember(*self._match(window, starts[keyed[new]], lengths[keyed[new]]))
        places[keyed] = self._slots.values.take(slots) - 1
        return places

    def _remember(self, ids: np.ndarray, lengths: np.ndarray) -> None:
        starts = len(self._ids) + np.cumsum(lengths)
        self._ids.frombytes(ids.astype(np.intc).tobytes())
        self._starts.frombytes(starts.astype(np.intc).tobytes())

    def ids(self, places: np.ndarray) -> _Found:
        """The ids of words."""
        # Views, gone before the next word comes: an array that is looked into cannot grow.
        table, starts = np.frombuffer(self._ids, np.intc), np.frombuffer(self._starts, np.intc)
        firsts = starts.take(places)
        lengths = starts.take(places + 1) - firsts
        ends = np.cumsum(lengths)
        total = int(ends[-1]) if len(ends) else 0
        ids = table.take(np.arange(total) + np.repeat(firsts - ends + lengths, lengths))
        return ids, lengths, places == 0


def _words(text: bytes, kinds: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Where each word begins, and its bytes: int64 [words]."""
    kind = np.frombuffer(text.translate(kinds), np.uint8)
    is_part, is_alone = kind == PART, kind == ALONE
    begins, stops = is_part.copy(), is_part.copy()
    begins[1:] &= ~is_part[:-1]
    stops[:-1] &= ~is_part[1:]
    starts = np.flatnonzero(begins | is_alone)
    return starts, np.flatnonzero(stops | is_alone) + 1 - starts


def _after_fork() -> None:
    """A lock that another thread held is held for ever in the child, which has no such thread."""
    for table in _tables:
        table.start_afresh()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_after_fork)
