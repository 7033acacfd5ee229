"""Batches that are built several at a time: of one with few tokens NumPy's calls cost the most."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from bert_keras.data.feeding import Batch

_KEPT = 4  # groups: readers in threads may be in several


class Several:
    """Hands out batches one by one, each built with its neighbours. Safe for several threads.

    Args:
        build: makes the batches [first, last) of an epoch, as one with all their rows; called with
            the epoch, first and last.
        rows: of a batch.
        size: batches of a group, at least 1.
    """

    def __init__(self, build: Callable[[int, int, int], Batch], *, rows: int, size: int):
        self._build, self._rows, self._size = build, rows, size
        self._groups: dict[tuple[int, int], Future[Batch]] = {}
        self._lock = threading.Lock()

    def __call__(self, epoch: int, position: int, end: int) -> Batch:
        """One batch, whose arrays are the caller's own.

        Args:
            epoch: of the batch,
            position: and its number there.
            end: batches of the epoch.
        """
        if self._size == 1:
            return self._build(epoch, position, position + 1)
        first = position - position % self._size
        with self._lock:
            group = self._groups.get((epoch, first))
            if is_new := group is None:
                group = self._groups[epoch, first] = Future()
                while len(self._groups) > _KEPT:
                    del self._groups[next(iter(self._groups))]
        try:
            if is_new:
                group.set_result(self._build(epoch, first, min(first + self._size, end)))
        except BaseException as error:
            with self._lock:  # whoever asks again builds again
                self._groups.pop((epoch, first), None)
            group.set_exception(error)
        begin = (position - first) * self._rows
        return _copied(group.result(), slice(begin, begin + self._rows))


def _copied(batch: Any, rows: slice) -> Any:
    return tuple({name: part[rows].copy() for name, part in arrays.items()} for arrays in batch)
