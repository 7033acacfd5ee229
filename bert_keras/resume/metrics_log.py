"""The log of a run: one JSON line per record, cut back to the checkpoint on resume."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bert_keras.errors import ArtifactError, ResourceError


class MetricsLog:
    """A file of JSON lines that is the same, byte for byte, for the same records.

    Args:
        path: the file; it need not exist.
    """

    def __init__(self, path: str | os.PathLike[str]):
        self._path = Path(path)

    @property
    def offset(self) -> int:
        """The length of the file in bytes: where the next record begins."""
        return self._path.stat().st_size if self._path.exists() else 0

    def records(self) -> list[dict[str, Any]]:
        """All records; none where there is no file.

        Raises:
            ArtifactError: a line is no record: names it.
        """
        lines = self._path.read_bytes().splitlines() if self._path.exists() else []
        found = []
        for number, line in enumerate(lines, start=1):
            try:
                record = json.loads(line)
            except ValueError as error:  # of UTF-8 or of JSON
                raise ArtifactError(f"{self._path}:{number}: no record: {error}.") from error
            if not isinstance(record, dict):
                raise ArtifactError(f"{self._path}:{number}: no record. Received: {record!r}.")
            found.append(record)
        return found

    def append(self, record: Mapping[str, Any]) -> None:
        """Adds one record and brings it to the disk.

        Args:
            record: flat: numbers (also NumPy scalars), strings, booleans, None. "step" comes
                first, the other keys in alphabetical order; floats are written by `repr`, and
                NaN and infinity, which JSON does not have, as null.

        Raises:
            ResourceError: no space or no permission.
        """
        keys = sorted(record, key=lambda key: (key != "step", key))
        line = json.dumps({key: _plain(record[key]) for key in keys}, allow_nan=False) + "\n"
        try:
            with self._path.open("ab") as file:
                file.write(line.encode())
                file.flush()
                # A checkpoint records the offset: what precedes it must outlive a power failure.
                os.fsync(file.fileno())
        except OSError as error:
            raise ResourceError(f"{self._path}: cannot be written: {error}") from error

    def cut(self, offset: int) -> None:
        """Forgets all records after `offset` bytes: those that the resumed run writes again.

        Raises:
            ArtifactError: the file is shorter, or no record ends there: not the file of this run.
        """
        if offset == 0 and not self._path.exists():
            return
        if offset > self.offset:
            raise ArtifactError(
                f"{self._path}: {offset} bytes belong to the checkpoint. Received: a file of "
                f"{self.offset} bytes. Restore the file, or begin a new run."
            )
        with self._path.open("rb+") as file:
            file.seek(max(offset - 1, 0))
            if offset and file.read(1) != b"\n":
                raise ArtifactError(f"{self._path}: no record ends at byte {offset}: foreign file?")
            file.truncate(offset)
            os.fsync(file.fileno())


def _plain(value: Any) -> bool | int | float | str | None:
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
