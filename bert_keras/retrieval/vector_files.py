"""Vectors of many texts in a file: computed block by block, and resumed after a kill."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, cast

import numpy as np

from bert_keras import file_io
from bert_keras.errors import ArtifactError

_PART = ".part"  # ending of a file that is not complete

# Called after each block with (rows done, rows in all).
Progress = Callable[[int, int], None]


def digest_of(*parts: str | Iterable[str]) -> str:
    """Return a digest of texts and lists of texts, as 32 hexadecimal digits."""
    digest = hashlib.sha256()
    for part in parts:
        for text in (part,) if isinstance(part, str) else part:
            content = text.encode("utf-8", "surrogatepass")
            digest.update(b"%d:" % len(content))
            digest.update(content)
        digest.update(b";")
    return digest.hexdigest()[:32]


def stored_rows(
    path: str | os.PathLike[str],
    count: int,
    compute: Callable[[int, int], np.ndarray],
    *,
    block: int = 1024,
    progress: Progress | None = None,
) -> np.ndarray:
    """Return rows of numbers from a file in NumPy's format, after computing those that it lacks.

    Each block of rows is written to the disk before the next one is computed. If the process is
    killed, the next call with the same path goes on after the last whole block. So the path must
    name all that the rows depend on, such as a digest of model and texts.

    Args:
        path: the file, which ends with ".npy". While it is not complete it ends with ".part".
        count: number of rows.
        compute: function of (start, end) that returns the rows of a block, [end - start, size].
        block: number of rows that are computed together.
        progress: called after each block.

    Returns:
        [count, size], read-only and memory-mapped.

    Raises:
        ArtifactError: the file has another number of rows, or is damaged.
        ResourceError: another process is writing the file.
        OSError: the disk is full.
    """
    path = Path(path)
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        with file_io.one_writer(path):
            _compute_missing(path, count, compute, block, progress)
    try:
        rows = cast("np.ndarray", np.load(path, mmap_mode="r", allow_pickle=False))
    except ValueError as error:
        raise ArtifactError(f"{path}: damaged: {error}. Remove this file.") from error
    if rows.ndim != 2 or len(rows) != count:
        raise ArtifactError(
            f"{path}: expected {count:,} rows. Received: shape {rows.shape}. Remove this file."
        )
    return rows


def _compute_missing(
    path: Path,
    count: int,
    compute: Callable[[int, int], np.ndarray],
    block: int,
    progress: Progress | None,
) -> None:
    """Compute the rows behind the last whole block of the unfinished file, and complete it."""
    part = path.with_name(path.name + _PART)
    done = _rows_in(part, count, block)
    with part.open("r+b" if done else "wb") as file:
        if done:
            file.seek(0, os.SEEK_END)
            if progress is not None:
                progress(done, count)
        for start in range(done, count, block):
            end = min(start + block, count)
            rows = np.ascontiguousarray(compute(start, end))
            if not file.tell():
                header: Any = np.lib.format.header_data_from_array_1_0(rows)
                np.lib.format.write_array_header_1_0(
                    file, {**header, "shape": (count, *rows.shape[1:])}
                )
            # Written, not memory-mapped: a full disk is then an error and not a signal.
            file.write(rows.tobytes())
            file.flush()
            os.fsync(file.fileno())
            if progress is not None:
                progress(end, count)
    part.replace(path)


def _rows_in(part: Path, count: int, block: int) -> int:
    """Return the number of rows in whole blocks of an unfinished file, and cut off the others.

    It is 0 if there is no such file, or one that cannot be continued.
    """
    if not part.is_file():
        return 0
    with part.open("r+b") as file:
        try:
            np.lib.format.read_magic(file)
            shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        except ValueError:  # killed before the header was whole
            return 0
        if len(shape) != 2 or shape[0] != count:
            return 0
        begin, size = file.tell(), shape[1] * dtype.itemsize
        done = (file.seek(0, os.SEEK_END) - begin) // size
        done -= 0 if done == count else done % block
        file.truncate(begin + done * size)
    return done
