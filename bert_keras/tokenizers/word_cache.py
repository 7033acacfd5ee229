"""WordPiece for a whole corpus: longest-match-first in NumPy, with a cache of words.

Words of up to 16 bytes are handled as pairs of 64-bit numbers, so that no Python object is made for
each word of a text.
"""

from __future__ import annotations

import os
import threading
import weakref
from array import array
from collections.abc import Iterator, Sequence

import numpy as np
import tokenizers

from bert_keras.tokenizers.basic_tokenizer import ALONE, PART, TEXT_END, WordSplitter
from bert_keras.tokenizers.vocabulary import CONTINUATION
from bert_keras.tokenizers.vocabulary_coverage import MAX_WORD_LENGTH

KEY_BYTES = 16

_HALF = 8  # bytes of one 64-bit number, half of a key
# Odd factors of the hash, random in each process: no text can be made whose words all collide.
_MIXERS = np.frombuffer(os.urandom(_HALF * 2), np.uint64) | np.uint64(1)
_MASKS = np.array([2 ** (8 * size) - 1 for size in range(_HALF + 1)], np.uint64)


class ByteWindow:
    """A text from which the bytes at many positions are read at once, as 64-bit numbers.

    Args:
        text: text without zero bytes.
    """

    def __init__(self, text: bytes):
        # Two numbers are read at each position, and the shift needs a third one.
        self._numbers = np.zeros(len(text) // _HALF + 4, "<u8")
        self._numbers.view(np.uint8)[: len(text)] = np.frombuffer(text, np.uint8)

    def keys(self, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Return the bytes of words as keys, padded with zero bytes.

        Args:
            starts: position of each word, int64 [words].
            lengths: number of bytes of each word, int64 [words]. Only the first `KEY_BYTES` count.

        Returns:
            uint64 [2, words], the first and the second 8 bytes of each word.
        """
        keys = np.zeros((2, len(starts)), np.uint64)
        keys[0] = self._read(starts) & _MASKS[np.minimum(lengths, _HALF)]
        two = np.flatnonzero(lengths > _HALF)
        rest = np.minimum(lengths[two] - _HALF, _HALF)
        keys[1, two] = self._read(starts[two] + _HALF) & _MASKS[rest]
        return keys

    def _read(self, starts: np.ndarray) -> np.ndarray:
        """Return the 8 bytes from each position on, uint64 [positions]."""
        index = starts >> 3
        shift = ((starts & 7) << 3).astype(np.uint64)
        # Two shifts, because a shift by 64 bits is undefined.
        rest = self._numbers.take(index + 1) << (np.uint64(63) - shift) << np.uint64(1)
        return (self._numbers.take(index) >> shift) | rest


def cut_keys(keys: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the first `size` bytes of each key [2, keys], as two arrays uint64 [keys]."""
    return keys[0] & _MASKS[min(size, _HALF)], keys[1] & _MASKS[max(size - _HALF, 0)]


class HashTable:
    """Hash table from keys to numbers, with open addressing and linear probing, without removal.

    The caller has to keep slots free: in a full table the search for a free slot never ends.

    Args:
        bits: the table has `2**bits` slots.

    Attributes:
        values: int32 [slots], the numbers, from 1 on; 0 in a free slot.
    """

    def __init__(self, bits: int):
        self.values = np.zeros(2**bits, np.int32)
        self._keys = np.zeros((2, 2**bits), np.uint64)
        self._shift = np.uint64(64 - bits)

    def claim(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the slot of each key. A key that is not in the table gets a free slot.

        Args:
            keys: uint64 [2, keys].

        Returns:
            The slots, int64 [keys]; and the indices of the keys that are new, int64 [new], each key
            once. The caller must set `values` of their slots next, which are negative until then.
        """
        mixed = (keys[0] ^ (keys[1] * _MIXERS[1])) * _MIXERS[0]
        slots: np.ndarray = (mixed >> self._shift).astype(np.int64)
        claimed, rest, new = slots, np.arange(len(slots)), [np.zeros(0, np.int64)]
        while len(rest):
            empty = np.flatnonzero(self.values.take(slots) == 0)
            # If several keys write into one slot, the last one gets it.
            names = -1 - rest[empty]
            self.values[slots[empty]] = names
            first = empty[self.values[slots[empty]] == names]
            self._keys[:, slots[first]] = keys[:, first]
            new.append(rest[first])
            differs = self._keys[0].take(slots) != keys[0]
            differs |= self._keys[1].take(slots) != keys[1]
            others = np.flatnonzero(differs)
            rest, keys = rest[others], keys[:, others]
            slots = (slots[others] + 1) & (len(self.values) - 1)
            claimed[rest] = slots
        return claimed, np.concatenate(new)


# === Greedy longest-match-first ===
# The same result as the WordPiece model of the `tokenizers` library, for words of up to 16 bytes.


class LongestMatch:
    """Greedy longest-match-first tokenization of many words at once (Wu et al., 2016, §4.1).

    Args:
        vocabulary: all pieces; the position is the id.
        unknown: id of a word that the pieces cannot spell.
    """

    def __init__(self, vocabulary: Sequence[str], unknown: int):
        pieces = [piece.encode() for piece in vocabulary]
        mark = CONTINUATION.encode()
        self._unknown = unknown
        self._begin = _Pieces(dict(zip(pieces, range(len(pieces)), strict=True)))
        self._go_on = _Pieces(
            {piece[len(mark) :]: id_ for id_, piece in enumerate(pieces) if piece.startswith(mark)}
        )

    def __call__(
        self, window: ByteWindow, starts: np.ndarray, lengths: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the ids of words.

        Args:
            window: text of the words.
            starts: position of each word, int64 [words].
            lengths: number of bytes of each word, int64 [words], from 1 to `KEY_BYTES`.

        Returns:
            Ids of all words, int32 [ids], and the number of ids of each word, int64 [words].
        """
        is_unknown = np.zeros(len(starts), bool)
        words: list[np.ndarray] = []
        ids: list[np.ndarray] = []
        rest, pieces = np.arange(len(starts)), self._begin
        while len(rest):
            piece_ids, sizes = pieces.longest(window.keys(starts, lengths), lengths)
            fits = sizes > 0
            is_unknown[rest[~fits]] = True
            words.append(rest[fits])
            ids.append(piece_ids[fits])
            goes_on = fits & (sizes < lengths)
            rest, pieces = rest[goes_on], self._go_on
            starts, lengths = (starts + sizes)[goes_on], (lengths - sizes)[goes_on]
        unknown = np.flatnonzero(is_unknown)
        word = np.concatenate([np.zeros(0, np.int64), *words])
        id_ = np.concatenate([np.zeros(0, np.int32), *ids])
        known = ~is_unknown[word]
        word = np.concatenate([word[known], unknown])
        id_ = np.concatenate([id_[known], np.full(len(unknown), self._unknown, np.int32)])
        # A stable sort keeps the pieces of a word in their order.
        return id_[np.argsort(word, kind="stable")], np.bincount(word, minlength=len(is_unknown))


class _Pieces:
    """The pieces that can begin a word, or those that can continue one; `ids`: piece -> id."""

    def __init__(self, ids: dict[bytes, int]):
        # A zero byte would end a key. No word has one.
        fitting = [piece for piece in ids if 0 < len(piece) <= KEY_BYTES and 0 not in piece]
        lengths = np.fromiter(map(len, fitting), np.int64, len(fitting))
        keys = ByteWindow(b"".join(fitting)).keys(np.cumsum(lengths) - lengths, lengths)
        fitting_ids = np.array([ids[piece] for piece in fitting], np.int32)
        self._by_size: list[tuple[int, np.ndarray, np.ndarray]] = []
        for size in np.unique(lengths)[::-1].tolist():
            chosen = np.flatnonzero(lengths == size)
            names = _sortable(keys[:, chosen], size)
            order = np.argsort(names)
            self._by_size.append((size, names[order], fitting_ids[chosen[order]]))

    def longest(self, keys: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Find the longest piece at the beginning of each key.

        Args:
            keys: uint64 [2, keys].
            lengths: number of bytes of each key, int64 [keys].

        Returns:
            Id int32 [keys] and number of bytes int64 [keys] of the piece; 0 bytes for none.
        """
        ids = np.zeros(len(lengths), np.int32)
        sizes = np.zeros(len(lengths), np.int64)
        rest = np.arange(len(lengths))
        for size, names, names_ids in self._by_size:
            tried = rest[lengths[rest] >= size]
            wanted = _sortable(keys[:, tried], size)
            places = np.minimum(names.searchsorted(wanted), len(names) - 1)
            is_piece = names[places] == wanted
            matched = tried[is_piece]
            ids[matched], sizes[matched] = names_ids[places[is_piece]], size
            rest = rest[sizes[rest] == 0]
        return ids, sizes


def _sortable(keys: np.ndarray, size: int) -> np.ndarray:
    """Return the first `size` bytes of each key as one sortable value, a number or bytes."""
    first, second = cut_keys(keys, size)
    if size <= KEY_BYTES // 2:
        return first
    return np.stack([first, second], axis=1).view(f"S{KEY_BYTES}")[:, 0]


# === Cache of words ===


_BITS = 19  # log2 of the number of slots, which take ten megabytes
_MAX_WORDS = 2 ** (_BITS - 1)
_MAX_IDS = 2**22
_WORDS_AT_ONCE = 2 ** (_BITS - 2)  # keeps a quarter of the slots free
_SHORT_TEXT = 4_096  # bytes: for less text a dictionary is as fast as NumPy

# All ids, number of ids of each word, and True for a word that is `TEXT_END`.
_Found = tuple[np.ndarray, np.ndarray, np.ndarray]
_tables: weakref.WeakSet[WordTable] = weakref.WeakSet()


class WordTable:
    """Thread-safe cache of the ids of words. It is emptied when it has grown too large.

    Args:
        model: WordPiece model of the `tokenizers` library, for single words.
        match: the same for many words at once.
        splitter: splitter that cleans the texts and finds their words.
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
        """Empty the cache and make a new lock, as a forked process needs it."""
        self._lock = threading.Lock()
        self._known: _Known | None = None

    def ids(self, text: bytes) -> tuple[np.ndarray, np.ndarray]:
        """Return the ids of texts.

        Args:
            text: one or several cleaned texts, joined by `WordSplitter.cleaned`.

        Returns:
            Ids of all texts, int32 [ids], and the number of ids of each text, int64 [texts].
        """
        with self._lock:
            try:
                parts = self._short(text) if len(text) < _SHORT_TEXT else self._long(text)
                ids, lengths, is_end = map(np.concatenate, zip(*parts, strict=True))
            except BaseException:  # an interrupted update leaves the cache inconsistent
                self._known = None
                raise
        ends = np.cumsum(lengths)[is_end]
        return ids, np.diff(ends, prepend=0, append=len(ids))

    def _with_room(self) -> _Known:
        """Return the cache of known words; a new one if the present one is full."""
        if self._known is None or self._known.is_full:
            self._known = _Known(self._model, self._match)
        return self._known

    def _short(self, text: bytes) -> Iterator[_Found]:
        """Yield the ids of a short text, whose words are looked up one by one."""
        known, words = self._with_room(), self._splitter.words(text)
        yield known.ids(np.fromiter(map(known.__getitem__, words), np.int32, len(words)))

    def _long(self, text: bytes) -> Iterator[_Found]:
        """Yield the ids of a long text, for many words at once."""
        window = ByteWindow(text)
        starts, lengths = _words(text, self._splitter.kinds)
        for first in range(0, len(starts) or 1, _WORDS_AT_ONCE):
            some = slice(first, first + _WORDS_AT_ONCE)
            known = self._with_room()
            yield known.ids(known.places(text, window, starts[some], lengths[some]))


class _Known(dict[bytes, int]):
    """The ids of all cached words, and the place of each word among them.

    The dictionary has the places of words of short texts and of words over 16 bytes. The hash table
    has the places of the words of long texts.
    """

    def __init__(self, model: tokenizers.models.WordPiece, match: LongestMatch):
        self._model = model
        self._match = match
        self._ids = array("i")
        self._starts = array("i", [0, 0])
        self._slots = HashTable(_BITS)
        self[TEXT_END] = 0  # place 0 has no ids
        slots, _ = self._slots.claim(ByteWindow(TEXT_END).keys(np.zeros(1, int), np.ones(1, int)))
        self._slots.values[slots] = 1
        self._too_long = self._placed("x" * (MAX_WORD_LENGTH + 1))  # all such words are [UNK]

    @property
    def count(self) -> int:
        """Number of words with ids."""
        return len(self._starts) - 1

    @property
    def is_full(self) -> bool:
        """True when the cache must be replaced by an empty one."""
        return self.count > _MAX_WORDS or len(self._ids) > _MAX_IDS

    def __missing__(self, word: bytes) -> int:
        characters = word.decode()
        if len(characters) > MAX_WORD_LENGTH:
            return self._too_long
        place = self[word] = self._placed(characters)
        return place

    def _placed(self, word: str) -> int:
        """Tokenize a new word, store its ids and return its place."""
        self._ids.extend([piece.id for piece in self._model.tokenize(word)])
        self._starts.append(len(self._ids))
        return self.count - 1

    def places(
        self, text: bytes, window: ByteWindow, starts: np.ndarray, lengths: np.ndarray
    ) -> np.ndarray:
        """Return the place of each word, int32 [words]; new words are added. See `_words`."""
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
        """Append new words: the ids of all, int32 [ids], and the number of each, int64 [words]."""
        ends = len(self._ids) + np.cumsum(lengths)  # the end of a word is the start of the next
        self._ids.frombytes(ids.astype(np.intc).tobytes())
        self._starts.frombytes(ends.astype(np.intc).tobytes())

    def ids(self, places: np.ndarray) -> _Found:
        """Return the ids of words by their places, int32 [words]."""
        # These views must not outlive the call: an `array` with views cannot grow.
        table, starts = np.frombuffer(self._ids, np.intc), np.frombuffer(self._starts, np.intc)
        firsts = starts.take(places)
        lengths = starts.take(places + 1) - firsts
        ends = np.cumsum(lengths)
        total = int(ends[-1]) if len(ends) else 0
        ids = table.take(np.arange(total) + np.repeat(firsts - ends + lengths, lengths))
        return ids, lengths, places == 0


def _words(text: bytes, kinds: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Return the position and the number of bytes of each word, int64 [words] each."""
    kind = np.frombuffer(text.translate(kinds), np.uint8)
    is_part, is_alone = kind == PART, kind == ALONE
    begins, stops = is_part.copy(), is_part.copy()
    begins[1:] &= ~is_part[:-1]
    stops[:-1] &= ~is_part[1:]
    starts = np.flatnonzero(begins | is_alone)
    return starts, np.flatnonzero(stops | is_alone) + 1 - starts


def _after_fork() -> None:
    """Replace the locks in a forked process: one that another thread held would never be free."""
    for table in _tables:
        table.start_afresh()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_after_fork)
