"""One file or folder has one writer, while it is written."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bert_keras.errors import ResourceError


@contextmanager
def one_writer(target: Path) -> Iterator[None]:
    """Keeps other writers of `target` away; a process that is killed does so no longer.

    By a lock (flock) on a file beside it, which goes when the block ends.

    Raises:
        ResourceError: another process writes it.
    """
    path = target.with_name(f".{target.name}.lock")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ResourceError(f"{target}: another process is writing it.") from None
        if not os.fstat(descriptor).st_nlink:  # its holder has just removed it
            raise ResourceError(f"{target}: another process has just written it. Try again.")
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)
