"""Words of up to 16 bytes as whole numbers, and a table that finds many of them at once."""

from __future__ import annotations

import os

import numpy as np

KEY_BYTES = 16

_HALF = 8  # bytes of a number
# Odd, and others in each process: nobody can write words that all want one slot.
_MIXERS = np.frombuffer(os.urandom(_HALF * 2), np.uint64) | np.uint64(1)
_MASKS = np.array([2 ** (8 * size) - 1 for size in range(_HALF + 1)], np.uint64)


class Window:
    """A text whose bytes can be read from any place, many places at once.

    Args:
        text: without zero bytes.
    """

    def __init__(self, text: bytes):
        # Two numbers are read from each place, and one behind them.
        self._numbers = np.zeros(len(text) // _HALF + 4, "<u8")
        self._numbers.view(np.uint8)[: len(text)] = np.frombuffer(text, np.uint8)

    def keys(self, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """The bytes of words, zeros after them.

        Args:
            starts: int64 [words].
            lengths: int64 [words]. What is longer than `KEY_BYTES` is cut.

        Returns:
            uint64 [2, words].
        """
        keys = np.zeros((2, len(starts)), np.uint64)
        keys[0] = self._read(starts) & _MASKS[np.minimum(lengths, _HALF)]
        two = np.flatnonzero(lengths > _HALF)
        rest = np.minimum(lengths[two] - _HALF, _HALF)
        keys[1, two] = self._read(starts[two] + _HALF) & _MASKS[rest]
        return keys

    def _read(self, starts: np.ndarray) -> np.ndarray:
        """The 8 bytes from each place on."""
        index = starts >> 3
        shift = ((starts & 7) << 3).astype(np.uint64)
        # Twice, for nothing can be shifted by 64 bits at once.
        rest = self._numbers.take(index + 1) << (np.uint64(63) - shift) << np.uint64(1)
        return (self._numbers.take(index) >> shift) | rest


def cut(keys: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The first bytes of each key: `size` of them, as two numbers."""
    return keys[0] & _MASKS[min(size, _HALF)], keys[1] & _MASKS[max(size - _HALF, 0)]


class Slots:
    """A number for each key: open addressing, linear probing, nothing is taken out.

    The caller sees to it that there is room: with all slots taken a new key looks for one without
    end.

    Args:
        bits: there are `2**bits` slots.

    Attributes:
        values: int32 [slots], the numbers, from 1 on; 0 where nothing is.
    """

    def __init__(self, bits: int):
        self.values = np.zeros(2**bits, np.int32)
        self._keys = np.zeros((2, 2**bits), np.uint64)
        self._shift = np.uint64(64 - bits)

    def claim(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A slot for each key, that of the same key where it has one.

        Args:
            keys: uint64 [2, keys].

        Returns:
            int64 [keys], the slots, and int64 [new], those of the keys that had none, each once.
            The caller gives these their `values` next, which are below 0 until then.
        """
        mixed = (keys[0] ^ (keys[1] * _MIXERS[1])) * _MIXERS[0]
        claimed = slots = (mixed >> self._shift).astype(np.int64)
        rest, new = np.arange(len(slots)), [np.zeros(0, np.int64)]
        while len(rest):
            empty = np.flatnonzero(self.values.take(slots) == 0)
            # Of those who write into one slot the last one has it.
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
