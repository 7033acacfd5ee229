"""Batches by epoch and position: the base class of examples, and readers of batches."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np

# Inputs, labels and sample weights, each by name. An input is an array, or a tuple of arrays for
# texts that are padded apart (`SupervisedExamples`).
Batch = tuple[dict[str, Any], dict[str, np.ndarray], dict[str, np.ndarray]]
Plan = TypeVar("Plan")


class Examples(Protocol):
    """Source of batches by epoch and position, as `dataset` reads it.

    Attributes:
        fixed_shapes: whether all batches have the shapes of the first.
    """

    fixed_shapes: bool

    def num_batches(self, epoch: int) -> int:
        """Return the number of batches in an epoch."""
        ...

    def locate(self, epoch: int, position: int, steps: int) -> tuple[int, int]:
        """Return the (epoch, position) that is so many batches later."""
        ...

    def batch(self, epoch: int, position: int) -> Batch:
        """Return one batch: inputs, labels, sample weights."""
        ...


def advance(
    num_batches: Callable[[int], int], epoch: int, position: int, steps: int
) -> tuple[int, int]:
    """Return the (epoch, position) that is `steps` batches later. Epochs may differ in length.

    Args:
        num_batches: returns the number of batches in an epoch.
        epoch: epoch to count from.
        position: position in that epoch.
        steps: number of batches to advance by.

    Raises:
        ValueError: a negative epoch, position or number of steps.
    """
    if min(epoch, position, steps) < 0:
        raise ValueError(
            "Epoch, position and steps count from 0 and must not be negative. "
            f"Received: {epoch=}, {position=}, {steps=}"
        )
    position += steps
    while position >= num_batches(epoch):
        position -= num_batches(epoch)
        epoch += 1
    return epoch, position


_PLANS_KEPT = 2  # workers may still build the end of one epoch when the next has begun


class BaseExamples(ABC, Generic[Plan]):
    """Base class of examples in batches. Safe to read from several threads.

    A batch is a function of (seed, epoch, position). A subclass draws the plan of an epoch, which
    is the order of its examples, and builds batches from it. The plans of two epochs are kept.

    Args:
        batch_size: rows or examples of a batch.
        seed: seed of the order; None keeps the order of the examples.

    Attributes:
        fixed_shapes: whether all batches have the shapes of the first.

    Raises:
        ValueError: a batch size below 1.
    """

    fixed_shapes: ClassVar[bool]

    def __init__(self, *, batch_size: int, seed: int | None):
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1. Received: batch_size={batch_size}")
        self.batch_size, self.seed = batch_size, seed
        self._plans: dict[int, Plan] = {}
        self._lock = threading.Lock()

    # === Batches ===

    @abstractmethod
    def _plan(self, epoch: int) -> Plan:
        """Draw the order of an epoch."""

    @abstractmethod
    def num_batches(self, epoch: int = 0) -> int:
        """Return the number of batches in an epoch."""

    @abstractmethod
    def _batch(self, epoch: int, position: int) -> Batch:
        """Build one batch. The position is in range."""

    def plan(self, epoch: int) -> Plan:
        """Return the order of an epoch."""
        with self._lock:
            plan = self._plans.pop(epoch, None)
            if plan is None:
                plan = self._plan(epoch)
            self._plans[epoch] = plan
            while len(self._plans) > _PLANS_KEPT:
                del self._plans[next(iter(self._plans))]
            return plan

    def locate(self, epoch: int, position: int, steps: int) -> tuple[int, int]:
        """Return the (epoch, position) that is `steps` batches later."""
        return advance(self.num_batches, epoch, position, steps)

    def batch(self, epoch: int, position: int) -> Batch:
        """Return one batch: inputs, labels, sample weights.

        Raises:
            IndexError: a position that the epoch does not have.
        """
        count = self.num_batches(epoch)
        if not 0 <= position < count:
            raise IndexError(
                f"Epoch {epoch} has {count} batches, at positions 0 to {count - 1}. "
                f"Received: {position=}"
            )
        return self._batch(epoch, position)

    def statistics(self, epoch: int = 0, batches: int | None = None) -> dict[str, float]:
        """Return the number of batches and tokens, and the share of padding.

        Args:
            epoch: epoch to count.
            batches: number of batches to count, from the first one; None for all of the epoch.
        """
        count = self.num_batches(epoch)
        if batches is not None:
            count = min(batches, count)
        tokens, places = self._tokens_and_places(epoch, count)
        return {"batches": count, "tokens": tokens, "padding_share": 1 - tokens / places}

    @abstractmethod
    def _tokens_and_places(self, epoch: int, batches: int) -> tuple[int, int]:
        """Count the tokens of the first batches, and the places, which hold tokens or padding."""

    # === Sequence packing, which reads examples one by one ===

    @property
    @abstractmethod
    def pad_id(self) -> int:
        """Token id of padding."""

    @property
    def per_token_labels(self) -> tuple[str, ...]:
        """Names of the labels that have a value for each token, and not for each example."""
        return ()

    @abstractmethod
    def epoch_order(self, epoch: int) -> np.ndarray:
        """Return the numbers of the examples of an epoch, in its order: int64 [examples]."""

    @abstractmethod
    def lengths_of(self, epoch: int) -> np.ndarray:
        """Return the number of tokens of each example of an epoch: [examples]."""

    def most_predictions(self, tokens: int, examples: int) -> int:
        """Return an upper bound of masked tokens in a row of so many tokens and examples."""
        del tokens, examples
        return 0

    @abstractmethod
    def batch_of(self, epoch: int, examples: np.ndarray) -> Batch:
        """Return a batch of the examples with these numbers, each in a row of its own."""


# === Readers ===

_GROUPS_KEPT = 4  # readers in several threads may need different groups


class BatchCache:
    """Cache of batches that are built in groups of neighbours. Safe to use from several threads.

    Args:
        build: builds the batches [first, last) of an epoch as one batch with all their rows. Its
            arguments are the epoch, first and last.
        rows: rows of a batch.
        size: batches of a group, at least 1.
    """

    def __init__(self, build: Callable[[int, int, int], Batch], *, rows: int, size: int):
        self._build, self._rows, self._size = build, rows, size
        self._groups: dict[tuple[int, int], Future[Batch]] = {}
        self._lock = threading.Lock()

    def __call__(self, epoch: int, position: int, end: int) -> Batch:
        """Return one batch. The caller may change its arrays.

        Args:
            epoch: epoch of the batch.
            position: position in the epoch.
            end: number of batches in the epoch.
        """
        if self._size == 1:
            return self._build(epoch, position, position + 1)
        first = position - position % self._size
        with self._lock:
            group = self._groups.get((epoch, first))
            if is_new := group is None:
                group = self._groups[epoch, first] = Future()
                while len(self._groups) > _GROUPS_KEPT:
                    del self._groups[next(iter(self._groups))]
        try:
            if is_new:
                group.set_result(self._build(epoch, first, min(first + self._size, end)))
        except BaseException as error:
            with self._lock:  # the next call builds the group again
                self._groups.pop((epoch, first), None)
            group.set_exception(error)
        begin = (position - first) * self._rows
        return _copy_rows(group.result(), slice(begin, begin + self._rows))


def _copy_rows(batch: Batch, rows: slice) -> Batch:
    """Return copies of some rows of a batch, which do not keep its arrays alive."""
    x, y, weights = (
        {name: values[rows].copy() for name, values in arrays.items()} for arrays in batch
    )
    return x, y, weights


class BatchSequence:
    """Endless sequence of batches, numbered from 0 at (epoch, position)."""

    def __init__(self, examples: Examples, epoch: int, position: int):
        self._examples = examples
        self._origin = self._mark = (0, epoch, position)

    def __call__(self, index: int) -> Batch:
        """Return the batch of a number."""
        # The mark is the beginning of the latest epoch. It saves counting all epochs again.
        mark = self._mark  # read once: another worker may move it
        if index < mark[0]:
            mark = self._origin
        epoch, position = self._examples.locate(mark[1], mark[2], index - mark[0])
        if epoch > mark[1]:
            self._mark = (index - position, epoch, 0)
        return self._examples.batch(epoch, position)


class ReadAhead:
    """Thread pool that builds the batches after the one that is read, within the same pass.

    Args:
        build: returns the batch of a number.
        workers: number of threads.
        length: batches of a pass; None for an endless sequence.
    """

    def __init__(self, build: Callable[[int], Batch], workers: int, length: int | None):
        self._build, self._length, self._depth = build, length, workers + 1
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="batches")
        self._futures: dict[int, Future[Batch]] = {}
        self._lock = threading.Lock()

    def __call__(self, index: int) -> Batch:
        """Return the batch of a number, and begin to build those after it."""
        end = index + self._depth + 1
        if self._length is not None:  # to the end of the pass
            end = min(end, index - index % self._length + self._length)
        with self._lock:
            for number in [n for n in self._futures if not index <= n < end]:
                self._futures.pop(number).cancel()
            for number in range(index, end):
                if number not in self._futures:
                    self._futures[number] = self._pool.submit(self._build, number)
            future = self._futures.pop(index)
        return future.result()
