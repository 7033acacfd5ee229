"""What is wrong with a file, told at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bert_keras.errors import DataError

_SHOWN = 20


class Faults:
    """Gathers the bad rows of a file, so that one message names them all.

    The first 20 are named, the others counted: a file read in the wrong way has one in every row.
    """

    def __init__(self) -> None:
        self._first: list[DataError] = []
        self._count = 0

    def __bool__(self) -> bool:
        return self._count > 0

    def add(self, error: DataError) -> None:
        """Notes what is wrong with a row, which is then passed over."""
        self._count += 1
        if self._count <= _SHOWN:
            self._first.append(error)

    @contextmanager
    def row(self) -> Iterator[None]:
        """One row: its fault is noted, and reading goes on."""
        try:
            yield
        except DataError as error:
            self.add(error)

    @contextmanager
    def whole(self) -> Iterator[Faults]:
        """The reading of a whole file.

        Raises:
            DataError: of all faults, at the end; what ended the reading before comes last.
        """
        with self.row():
            yield self
        self.check()

    def check(self) -> None:
        """Ends the reading.

        Raises:
            DataError: of all faults that there were.
        """
        if not self._count:
            return
        if self._count == 1:
            raise self._first[0]
        lines = [f"{self._count:,} faults:", *map(str, self._first)]
        if self._count > _SHOWN:
            lines.append(f"and {self._count - _SHOWN:,} more.")
        raise DataError("\n".join(lines))
