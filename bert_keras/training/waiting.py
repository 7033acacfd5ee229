"""Time that a training waits for its batches."""

from __future__ import annotations

import threading
from time import perf_counter

from bert_keras.data import Batch, Examples


class Watched:
    """Examples that know when each batch was asked for and ready, whoever built it ahead.

    Args:
        examples: what is read.
        epoch: of the first batch that a step learns from,
        position: and its place there.

    Attributes:
        fixed_shapes: that of the examples.
    """

    def __init__(self, examples: Examples, epoch: int, position: int):
        self.fixed_shapes = examples.fixed_shapes
        self._examples, self._next = examples, (epoch, position)
        self._built: dict[tuple[int, int], tuple[float, float]] = {}
        self._lock = threading.Lock()

    def num_batches(self, epoch: int) -> int:
        """Return the number of batches in an epoch."""
        return self._examples.num_batches(epoch)

    def locate(self, epoch: int, position: int, steps: int) -> tuple[int, int]:
        """The (epoch, position) that is so many batches later."""
        return self._examples.locate(epoch, position, steps)

    def batch(self, epoch: int, position: int) -> Batch:
        """One batch: inputs, labels, sample weights."""
        asked = perf_counter()
        found = self._examples.batch(epoch, position)
        with self._lock:
            self._built[epoch, position] = asked, perf_counter()
        return found

    def waited(self, begun: float) -> float:
        """Seconds that a step waited for its batch; asked once of every step, in their order.

        TensorFlow asks for no batch before the first step runs, which it traces for seconds: no
        step waits before its batch was asked for. Where building is what is slow, the next batch
        is asked for before its step begins.

        Args:
            begun: when the step began, by `perf_counter`.
        """
        place = self._next
        self._next = self._examples.locate(*place, 1)
        with self._lock:
            asked, ready = self._built.pop(place, (begun, begun))
        return max(0.0, ready - max(asked, begun))
