"""Words to ids: the model is asked once for each word, a long text's are looked up at once.

A word of up to 16 bytes is two whole numbers, which NumPy finds in a table of open addressing; so
no word of a block of text becomes an object of Python.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable

import numpy as np
import tokenizers

from bert_keras.tokenizers.vocabulary import MAX_WORD_LENGTH
from bert_keras.tokenizers.words import ALONE, PART, TEXT_END, WordSplitter

_MAX_WORDS = 2**18  # a few tens of megabytes in each process that tokenises
_SHORT_TEXT = 4_096  # bytes, of which Python finds the words as soon
_BITS = 19  # of the number of slots
_MIXERS = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F], np.uint64)  # odd
_HALF = 8  # bytes of a number
_MASKS = np.array([2 ** (8 * size) - 1 for size in range(_HALF + 1)], np.uint64)


class WordTable:
    """The ids of words, remembered. Bounded: starts afresh when it has grown too large.

    Args:
        model: of the pieces.
        splitter: what it is given comes from.
    """

    def __init__(self, model: tokenizers.models.WordPiece, splitter: WordSplitter):
        self._model = model
        self._splitter = splitter
        self._lock = threading.Lock()
        self._forget()

    def __len__(self) -> int:
        return len(self._places)

    def ids(self, text: bytes) -> tuple[np.ndarray, np.ndarray]:
        """The ids of texts.

        Args:
            text: one text or more, as `WordSplitter.cleaned` gives them.

        Returns:
            int32 [ids], those of all texts, and int64 [texts], how many each has.
        """
        with self._lock:
            if len(self) > _MAX_WORDS:
                self._forget()
            if len(text) < _SHORT_TEXT:
                words = self._splitter.words(text)
                places = np.fromiter(map(self._places.__getitem__, words), np.int32, len(words))
            else:
                places = self._places_in(text)
            return self._gather(places)

    def _forget(self) -> None:
        self._ids = array("i")
        self._starts = array("i", [0, 0])
        self._places = _Places(self._placed)
        self._places[TEXT_END] = 0  # without ids
        self._slots = _Slots()

    def _placed(self, word: str) -> int:
        """The place of a new word in the table of ids."""
        self._ids.extend([piece.id for piece in self._model.tokenize(word)])
        self._starts.append(len(self._ids))
        return len(self._starts) - 2

    def _places_in(self, text: bytes) -> np.ndarray:
        """int32 [words], the place of each."""
        starts, ends = _bounds(text, self._splitter.kinds)
        keys = _keys(text, starts, ends)
        places = self._slots.find(keys)
        unseen = np.flatnonzero(places < 0)
        words = [
            text[start:end]
            for start, end in zip(starts[unseen].tolist(), ends[unseen].tolist(), strict=True)
        ]
        places[unseen] = np.fromiter(map(self._places.__getitem__, words), np.int32, len(words))
        fits = unseen[ends[unseen] - starts[unseen] <= 2 * _HALF]
        self._slots.add(keys[:, fits], places[fits])
        return places

    def _gather(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        # Views, gone before the next word comes: an array that is looked into cannot grow.
        table, starts = np.frombuffer(self._ids, np.intc), np.frombuffer(self._starts, np.intc)
        firsts = starts[places]
        lengths = starts[places + 1] - firsts
        ends = np.cumsum(lengths)
        total = int(ends[-1]) if len(ends) else 0
        ids = table[np.arange(total) + np.repeat(firsts - ends + lengths, lengths)]
        return ids, np.diff([0, *ends[places == 0], total])


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


class _Slots:
    """Places of words by their keys: open addressing, linear probing, nothing is taken out."""

    def __init__(self):
        self._keys = np.zeros((2, 2**_BITS), np.uint64)
        self._places = np.zeros(2**_BITS, np.int32)  # and one; 0 where nothing is
        self._count = 0

    def find(self, keys: np.ndarray) -> np.ndarray:
        """int32 [words], -1 for what is not there; `keys`: uint64 [2, words]."""
        found = np.full(keys.shape[1], -1, np.int32)
        slots, rest = _first_slots(keys), slice(None)
        while len(slots):
            places = self._places[slots]
            is_same = self._keys[0][slots] == keys[0]
            is_same &= self._keys[1][slots] == keys[1]
            is_same &= places > 0
            found[rest] = np.where(is_same, places - 1, -1)
            goes_on = np.flatnonzero(~is_same & (places > 0))
            rest = goes_on if isinstance(rest, slice) else rest[goes_on]
            keys, slots = keys[:, goes_on], _next(slots[goes_on])
        return found

    def add(self, keys: np.ndarray, places: np.ndarray) -> None:
        """Adds what is not there, some of it perhaps several times; no more than there is room."""
        keys, chosen = np.unique(keys, axis=1, return_index=True)
        room = 3 * len(self._places) // 4 - self._count
        keys, places = keys[:, :room], places[chosen[:room]]
        self._count += keys.shape[1]
        slots = _first_slots(keys)
        while len(slots):
            is_first = np.zeros(len(slots), bool)  # of those who would have one slot
            is_first[np.unique(slots, return_index=True)[1]] = True
            is_first &= self._places[slots] == 0
            self._keys[:, slots[is_first]] = keys[:, is_first]
            self._places[slots[is_first]] = places[is_first] + 1
            keys, places, slots = keys[:, ~is_first], places[~is_first], _next(slots[~is_first])


def _bounds(text: bytes, kinds: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Where each word begins and ends: int64 [words]."""
    kind = np.frombuffer(text.translate(kinds), np.uint8)
    is_part, is_alone = kind == PART, kind == ALONE
    begins, stops = is_part.copy(), is_part.copy()
    begins[1:] &= ~is_part[:-1]
    stops[:-1] &= ~is_part[1:]
    return np.flatnonzero(begins | is_alone), np.flatnonzero(stops | is_alone) + 1


def _keys(text: bytes, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """uint64 [2, words]: a word's first 16 bytes, zeros after it; no cleaned text has zeros.

    Longer words are given what no word has: so they are not found.
    """
    padded = np.zeros(len(text) // _HALF + 4, "<u8")
    padded.view(np.uint8)[: len(text)] = np.frombuffer(text, np.uint8)
    lengths = ends - starts
    keys = np.zeros((2, len(starts)), np.uint64)
    keys[0] = _numbers(padded, starts) & _MASKS[np.minimum(lengths, _HALF)]
    long = np.flatnonzero(lengths > _HALF)
    more = lengths[long] - _HALF
    keys[1, long] = _numbers(padded, starts[long] + _HALF) & _MASKS[np.minimum(more, _HALF)]
    keys[:, lengths > 2 * _HALF] = 0
    return keys


def _numbers(words: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """The 8 bytes from each place on, of text as whole numbers of 8 bytes."""
    index = starts >> 3
    shift = ((starts & 7) << 3).astype(np.uint64)
    # Twice, for nothing can be shifted by 64 bits at once.
    rest = words[index + 1] << (np.uint64(63) - shift) << np.uint64(1)
    return (words[index] >> shift) | rest


def _first_slots(keys: np.ndarray) -> np.ndarray:
    mixed = (keys[0] ^ (keys[1] * _MIXERS[1])) * _MIXERS[0]
    return (mixed >> np.uint64(64 - _BITS)).astype(np.int64)


def _next(slots: np.ndarray) -> np.ndarray:
    return (slots + 1) & (2**_BITS - 1)
