"""Waiting for batches: the time that steps wait, and a line about a batch that does not come."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from time import perf_counter

from bert_keras.data import Batch, Examples

# Seconds after which a batch that is not ready is told. Batches take far less than one.
PATIENCE = 60.0


class DataWaitTimer:
    """Examples with the times at which each batch was requested and ready.

    Args:
        examples: the examples.
        epoch: epoch of the first batch of the training.
        position: position of that batch in its epoch.

    Attributes:
        fixed_shapes: whether all batches have one shape, as in the examples.
    """

    def __init__(self, examples: Examples, epoch: int, position: int):
        self.fixed_shapes = examples.fixed_shapes
        self._examples, self._next = examples, (epoch, position)
        self._built: dict[tuple[int, int], tuple[float, float]] = {}
        # Thread, epoch and position of a batch that is not ready -> the time of its request.
        self._building: dict[tuple[str, int, int], float] = {}
        self._lock = threading.Lock()

    def num_batches(self, epoch: int) -> int:
        """Return the number of batches in an epoch."""
        return self._examples.num_batches(epoch)

    def locate(self, epoch: int, position: int, steps: int) -> tuple[int, int]:
        """Return the (epoch, position) that is `steps` batches later."""
        return self._examples.locate(epoch, position, steps)

    def batch(self, epoch: int, position: int) -> Batch:
        """Return one batch: inputs, labels, sample weights."""
        requested, place = perf_counter(), (threading.current_thread().name, epoch, position)
        with self._lock:
            self._building[place] = requested
        try:
            batch = self._examples.batch(epoch, position)
        finally:
            with self._lock:
                self._building.pop(place, None)
        with self._lock:
            self._built[epoch, position] = requested, perf_counter()
        return batch

    def waited(self, begun: float) -> float:
        """Return the seconds that a step waited for its batch. Call it once per step, in order.

        TensorFlow traces the first step for seconds before it requests a batch. So waiting begins
        at the request of the batch or at the step, whichever is later.

        Args:
            begun: time at which the step began, by `perf_counter`.
        """
        place = self._next
        self._next = self._examples.locate(*place, 1)
        with self._lock:
            requested, ready = self._built.pop(place, (begun, begun))
        return max(0.0, ready - max(requested, begun))

    def late(self, seconds: float) -> list[str]:
        """Return a line for each batch that takes a thread more than `seconds` seconds."""
        now = perf_counter()
        with self._lock:
            building = [(now - since, *place) for place, since in self._building.items()]
        return [
            f"{thread} has given nothing for {waited:.0f} s: it works on batch {position} of epoch "
            f"{epoch}. The training waits for it; a file that it reads may not answer."
            for waited, thread, epoch, position in building
            if waited >= seconds
        ]


@contextmanager
def told_when_late(
    examples: DataWaitTimer, tell: Callable[[str], None], seconds: float = 0.0
) -> Generator[None]:
    """Tell of batches that do not come, again and again, while the block runs.

    Args:
        examples: the examples that the training reads.
        tell: function that shows a line to the user; another thread calls it.
        seconds: seconds until a line, and between two lines; 0 for `PATIENCE`.
    """
    seconds = seconds or PATIENCE
    is_over = threading.Event()

    def watch() -> None:
        """Look for late batches until the block ends."""
        while not is_over.wait(seconds):
            for line in examples.late(seconds):
                tell(line)

    threading.Thread(target=watch, name="late batches", daemon=True).start()
    try:
        yield
    finally:
        is_over.set()
