"""Files of a run: a lock that admits one process, and the log of metrics."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import math
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bert_keras.errors import ArtifactError, ResourceError
from bert_keras.file_io import decode_json, is_object


class RunLock:
    """Context manager that reserves a folder for this process, by `flock` on its file LOCK.

    The operating system releases the lock when the process ends for any reason, so a killed run
    leaves no lock behind. Only its file stays. The file describes the holder: pid, start time, and
    a digest of the host name. Older versions wrote the host name itself.

    Args:
        directory: folder of the run. It is created if needed.

    Raises:
        ResourceError: on entering, if another process holds the folder or it cannot be written.
    """

    def __init__(self, directory: str | os.PathLike[str]):
        self._path = Path(directory) / "LOCK"
        self._descriptor: int | None = None

    def __enter__(self) -> RunLock:
        """Lock the folder and write the holder into its file; raise `ResourceError` if in use."""
        if self._descriptor is not None:
            raise RuntimeError(
                f"{self._path}: this RunLock is already held. Leave its `with` block first."
            )
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise ResourceError(
                f"{self._path}: cannot be written ({error.strerror}). Choose another folder for "
                "the run, or mend its permissions."
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, _card().encode(), 0)
        except OSError as error:
            holder = _holder(descriptor)
            os.close(descriptor)
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise ResourceError(
                    f"{self._path.parent}: in use by {holder}. Wait for that run to end, or "
                    "choose another folder."
                ) from None
            raise ResourceError(
                f"{self._path}: cannot be locked ({error.strerror}). Choose a folder on a disk "
                "that has file locks."
            ) from error
        self._descriptor = descriptor
        # A forked worker inherits the lock, and would keep it after its parent was killed.
        os.register_at_fork(after_in_child=self._close)
        return self

    def __exit__(self, *error: object) -> None:
        """Release the lock. The file stays, without a holder."""
        if self._descriptor is not None:
            os.ftruncate(self._descriptor, 0)
        self._close()

    def _close(self) -> None:
        """Close the file, which releases the lock."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _card() -> str:
    """Return a JSON line that describes this process."""
    start = time.strftime("%Y-%m-%d %H:%M:%S %z")
    return json.dumps({"pid": os.getpid(), "machine": _machine(), "start": start}) + "\n"


def _machine() -> str:
    """Return eight hexadecimal digits that identify this machine but do not reveal its name."""
    name = os.fsencode(f"bert_keras {socket.gethostname()}")
    return hashlib.sha256(name).hexdigest()[:8]


def _holder(descriptor: int) -> str:
    """Return a description of the process that holds the lock, for a message."""
    try:
        card = decode_json(os.pread(descriptor, 4096, 0), "LOCK")
        if "host" in card:  # an older version wrote the file
            place = f"on {card['host']}"
        elif card["machine"] == _machine():
            place = "on this machine"
        else:
            place = f"on another machine ({card['machine']})"
        return f"pid {card['pid']} {place} since {card['start']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"


# === Metrics log ===


_REMOVE_LINE = "A line must be a JSON object: restore the file, or remove the line."


class MetricsLog:
    """A log of JSON lines. Equal records always give equal bytes.

    Args:
        path: path of the file, which need not exist.
    """

    def __init__(self, path: str | os.PathLike[str]):
        self._path = Path(path)

    @property
    def offset(self) -> int:
        """Length of the file in bytes, the position of the next record."""
        return self._path.stat().st_size if self._path.exists() else 0

    def records(self) -> list[dict[str, Any]]:
        """Return all records; [] if there is no file.

        Raises:
            ArtifactError: if a line is not a JSON object. The message names file and line.
        """
        lines = self._path.read_bytes().splitlines() if self._path.exists() else []
        records: list[dict[str, Any]] = []
        for number, line in enumerate(lines, start=1):
            try:
                record = decode_json(line, f"{self._path}:{number}: the line is not a record")
            except ArtifactError as error:
                raise ArtifactError(f"{error} {_REMOVE_LINE}") from None
            if not is_object(record):
                raise ArtifactError(
                    f"{self._path}:{number}: the line is not a record. Received: {record!r:.100}. "
                    f"{_REMOVE_LINE}"
                )
            records.append(record)
        return records

    def append(self, record: Mapping[str, Any]) -> None:
        """Append one record and flush it to the disk.

        Args:
            record: names -> numbers (also NumPy scalars), strings, booleans or None. "step" is
                written first, the other keys in alphabetical order. NaN and infinity become null,
                because JSON does not have them.

        Raises:
            ResourceError: if there is no space or no permission.
        """
        keys = sorted(record, key=lambda key: (key != "step", key))
        line = json.dumps({key: _plain(record[key]) for key in keys}, allow_nan=False) + "\n"
        try:
            with self._path.open("ab") as file:
                file.write(line.encode())
                file.flush()
                # A checkpoint stores the offset, so records before it must survive a power failure.
                os.fsync(file.fileno())
        except OSError as error:
            raise ResourceError(
                f"{self._path}: cannot be written: {error}. Make room or correct the permissions; "
                "the same command resumes."
            ) from error

    def cut(self, offset: int) -> None:
        """Remove all records after `offset` bytes, which the resumed run will write again.

        Raises:
            ArtifactError: if the file is shorter, or no record ends there, so that it is not the
                log of this run.
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
                raise ArtifactError(
                    f"{self._path}: no record ends at byte {offset}, as the checkpoint says. "
                    "Restore the file of this run, or begin a new run."
                )
            file.truncate(offset)
            os.fsync(file.fileno())


def _plain(value: Any) -> bool | int | float | str | None:
    """Return a value for JSON: NumPy scalars as Python numbers, NaN and infinity as None."""
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
