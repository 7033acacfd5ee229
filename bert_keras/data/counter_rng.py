"""Random draws that are pure functions of (seed, epoch, stream, row): NumPy's counter-based Philox.

Only raw 64-bit words are used: NumPy keeps the words of a bit generator the same for ever, but not
what its `Generator` methods make of them. Philox: Salmon et al. 2011, "Parallel random numbers: as
easy as 1, 2, 3".
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

_WORDS_PER_BLOCK = 4


class Stream(IntEnum):
    """Uses of random words: the highest word of the counter, so no two uses share a word."""

    PLAN = 1
    BALANCE = 2
    ORDER = 3
    CROP = 4
    MASK = 5
    ROWS = 6


@dataclass(frozen=True)
class Draws:
    """The random words of one epoch.

    Args:
        seed: 0 <= seed < 2**64.
        epoch: 0 <= epoch < 2**64.
    """

    seed: int
    epoch: int

    def __post_init__(self):
        for name in ("seed", "epoch"):
            if not 0 <= getattr(self, name) < 2**64:
                raise ValueError(f"{name} must be in [0, 2**64). Received: {getattr(self, name)}")

    def rows(self, stream: Stream, first: int, count: int, width: int) -> np.ndarray:
        """Rows `first` to `first + count` of a stream: uint64 [count, width].

        A row depends on its number and on `width`, never on which rows are drawn with it.
        """
        blocks = -(-width // _WORDS_PER_BLOCK)
        philox = np.random.Philox(
            key=np.array([self.seed, self.epoch], np.uint64),
            counter=np.array([first * blocks, 0, 0, stream], np.uint64),
        )
        words = philox.random_raw(count * blocks * _WORDS_PER_BLOCK)
        return words.reshape(count, blocks * _WORDS_PER_BLOCK)[:, :width]

    def rows_at(self, stream: Stream, numbers: np.ndarray, width: int) -> np.ndarray:
        """The rows with these numbers, in their order: uint64 [numbers, width]."""
        ends = np.flatnonzero(np.diff(numbers) != 1) + 1
        parts = np.split(numbers, ends)  # of neighbours, which are drawn at once
        found = [self.rows(stream, int(part[0]), len(part), width) for part in parts if len(part)]
        if len(found) == 1:  # as in most batches: nothing to put together
            return found[0]
        return np.concatenate(found or [np.zeros((0, width), np.uint64)])

    def keys(self, stream: Stream, count: int) -> np.ndarray:
        """The first `count` words of a stream, to sort by: uint64 [count]."""
        blocks = -(-count // _WORDS_PER_BLOCK)
        return self.rows(stream, 0, blocks, _WORDS_PER_BLOCK).ravel()[:count]


def below(raw: np.ndarray, bound: np.ndarray | int) -> np.ndarray:
    """Uniform integers in [0, bound) from the high half of raw words: int64, bound < 2**31.

    No integer is more likely than another by more than bound / 2**32.
    """
    high = raw >> np.uint64(32)
    return ((high * np.asarray(bound, np.uint64)) >> np.uint64(32)).astype(np.int64)


def chance(raw: np.ndarray, probability: float) -> np.ndarray:
    """True with the given probability, to 53 bits: bool of raw's shape."""
    return (raw >> np.uint64(11)) < np.uint64(round(probability * 2**53))
