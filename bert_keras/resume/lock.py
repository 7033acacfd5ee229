"""One folder has one writer."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import socket
import time
from pathlib import Path

from bert_keras.errors import ResourceError


class RunLock:
    """Context manager that holds a folder for this process, by `flock` on the file LOCK in it.

    The operating system frees the lock when the process ends, however it ends, so the lock of a
    killed run is simply taken over. The file describes the holder: pid, start, and a digest of the
    host name, for a killed run leaves the file. Files of older versions hold the host name itself.

    Args:
        directory: the folder of the run; made if it is not there.

    Raises:
        ResourceError: on entering, if another process holds the folder or it cannot be written.
    """

    def __init__(self, directory: str | os.PathLike[str]):
        self._path = Path(directory) / "LOCK"
        self._descriptor: int | None = None

    def __enter__(self) -> RunLock:
        if self._descriptor is not None:
            raise RuntimeError(f"{self._path}: this RunLock is already held")
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
            raise ResourceError(f"{self._path}: cannot be locked ({error.strerror}).") from error
        self._descriptor = descriptor
        # A forked worker inherits the lock and would hold it after its parent was killed.
        os.register_at_fork(after_in_child=self._close)
        return self

    def __exit__(self, *error: object) -> None:
        if self._descriptor is not None:
            os.ftruncate(self._descriptor, 0)
        self._close()

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _card() -> str:
    start = time.strftime("%Y-%m-%d %H:%M:%S %z")
    return json.dumps({"pid": os.getpid(), "machine": _machine(), "start": start}) + "\n"


def _machine() -> str:
    """Return eight hexadecimal digits that tell this machine from others without its name."""
    name = os.fsencode(f"bert_keras {socket.gethostname()}")
    return hashlib.sha256(name).hexdigest()[:8]


def _holder(descriptor: int) -> str:
    try:
        card = json.loads(os.pread(descriptor, 4096, 0))
        if "host" in card:  # of an older version
            place = f"on {card['host']}"
        elif card["machine"] == _machine():
            place = "on this machine"
        else:
            place = f"on another machine ({card['machine']})"
        return f"pid {card['pid']} {place} since {card['start']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
