"""Random draws that are pure functions of (seed, epoch, stream, row), from counter-based Philox.

Only random 64-bit integers of the bit generator are used. NumPy guarantees them for all versions,
but not the numbers of its `Generator` methods. Philox: Salmon et al. 2011,
"Parallel random numbers: as easy as 1, 2, 3".
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

_INTEGERS_PER_BLOCK = 4  # integers that Philox draws for each value of its counter


class Stream(IntEnum):
    """Uses of random integers: the highest part of the counter, so no two uses share one."""

    PLAN = 1
    BALANCE = 2
    ORDER = 3
    CROP = 4
    MASK = 5
    ROWS = 6


@dataclass(frozen=True)
class Draws:
    """The random 64-bit integers of one epoch.

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
        """Return the rows from `first` up to `first + count` of a stream: uint64 [count, width].

        A row is `width` random integers. It depends on its number and on `width`, and not on the
        rows that are drawn with it.
        """
        blocks = -(-width // _INTEGERS_PER_BLOCK)
        philox = np.random.Philox(
            key=np.array([self.seed, self.epoch], np.uint64),
            counter=np.array([first * blocks, 0, 0, stream], np.uint64),
        )
        integers = philox.random_raw(count * blocks * _INTEGERS_PER_BLOCK)
        return integers.reshape(count, blocks * _INTEGERS_PER_BLOCK)[:, :width]

    def rows_at(self, stream: Stream, numbers: np.ndarray, width: int) -> np.ndarray:
        """Return the rows with these numbers, in this order: uint64 [len(numbers), width]."""
        ends = np.flatnonzero(np.diff(numbers) != 1) + 1
        parts = np.split(numbers, ends)  # runs of consecutive numbers, which are drawn at once
        rows = [self.rows(stream, int(part[0]), len(part), width) for part in parts if len(part)]
        if len(rows) == 1:  # most batches are one run, and need no copy
            return rows[0]
        return np.concatenate(rows or [np.zeros((0, width), np.uint64)])

    def keys(self, stream: Stream, count: int) -> np.ndarray:
        """Return the first `count` integers of a stream, as random sort keys: uint64 [count]."""
        blocks = -(-count // _INTEGERS_PER_BLOCK)
        return self.rows(stream, 0, blocks, _INTEGERS_PER_BLOCK).ravel()[:count]


def below(raw: np.ndarray, bound: np.ndarray | int) -> np.ndarray:
    """Return uniform integers in [0, bound), from the high half of random 64-bit integers.

    The probability of an integer is 1 / bound, with a relative error of at most bound / 2**32.

    Args:
        raw: random 64-bit integers: uint64 [...].
        bound: number of integers, below 2**31; one for all, or one for each of `raw`.

    Returns:
        int64 of the shape of `raw`.
    """
    high = raw >> np.uint64(32)
    return ((high * np.asarray(bound, np.uint64)) >> np.uint64(32)).astype(np.int64)


def chance(raw: np.ndarray, probability: float) -> np.ndarray:
    """Return True for each random integer with a probability, exact to 53 bits: bool [...].

    Args:
        raw: random 64-bit integers: uint64 [...].
        probability: probability of True, from 0 to 1.
    """
    return (raw >> np.uint64(11)) < np.uint64(round(probability * 2**53))
