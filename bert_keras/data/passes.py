"""The batches that each pass over a finite dataset reads.

A finite dataset is an endless sequence of batches, cut into passes of equal length. Keras reads the
length once, at the start of `fit`, so the length cannot follow epochs that differ.
"""

from __future__ import annotations

import threading

_NEW_READER = 2  # announcements of `fit` and `evaluate`


class Passes:
    """Number of the first batch of each pass. Safe to use from several threads.

    `fit`, `evaluate` and `predict` all begin with the first batch, so that two evaluations are
    equal and two trainings with one dataset read the same batches. Every further pass of one `fit`,
    or of a loop in Python, goes on where the last one ended.

    Keras names no reader, but it announces each pass that begins anew: twice in `fit`, in
    `evaluate` and in the first validation of a `fit` (a reader is created, then reset), once in
    `predict` (created) and in each further validation (reset). One announcement therefore leaves
    the place of a training that is in progress as it is. Two in a row, each before a pass, are
    those of a reader that built a model from a first batch and was reset.

    Args:
        length: batches of a pass.
        epoch: epoch of the first pass; further passes go on with later ones. None: all passes begin
            with the first batch.
    """

    def __init__(self, length: int, *, epoch: int | None = 0):
        self.length = length
        self.epoch = epoch
        self._next = 0  # number of the next pass that goes on
        self._announced = 0
        self._announced_last = 0  # before the last pass
        self._lock = threading.Lock()

    def announce(self) -> None:
        """Note that Keras created or reset a reader."""
        with self._lock:
            self._announced += 1

    def restart(self) -> None:
        """Note that the next pass is the first one of a new reader."""
        with self._lock:
            self._announced = _NEW_READER

    def start(self) -> int:
        """Begin a pass; return the number of its first batch."""
        with self._lock:
            announced, self._announced = self._announced, 0
            number = 0 if announced else self._next
            if not announced:
                self._next += 1
            elif announced + self._announced_last < _NEW_READER:
                self._next = max(self._next, 1)
            else:
                self._next = 1
            self._announced_last = announced if announced < _NEW_READER else 0
            return number * self.length if self.epoch is not None else 0
