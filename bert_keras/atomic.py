"""Files and folders that appear whole or not at all.

Everything is written under a temporary name in the same folder, brought to the disk (fsync) and
then renamed. A process killed at any point leaves the old state or the new one, and perhaps
leftovers that `sweep` clears away.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from bert_keras import escaping

_NEW = ".tmp-"  # being written, or being removed
_OLD = ".old-"  # moved aside for the moment in which its successor takes its place


def expanded(path: str | os.PathLike[str]) -> Path:
    """Return a path with "~" as the home folder; "~name" of nobody stays, where pathlib fails."""
    return Path(os.path.expanduser(path))  # noqa: PTH111


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write or replace one UTF-8 file atomically; see `escaping.utf8`."""
    write_bytes(path, escaping.utf8(text))


def write_json(path: str | os.PathLike[str], values: Mapping[str, Any]) -> None:
    """Writes or replaces one JSON file atomically; no value may be NaN or infinite."""
    write_text(path, json.dumps(values, indent=2, allow_nan=False) + "\n")


def write_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    """Writes or replaces one file atomically."""
    with new_file(path) as file:
        file.write(content)


@contextmanager
def new_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Yields a temporary file to fill, which becomes `path` when the block ends without error.

    Where `path` is a link, the file that it names is replaced. A device or a pipe is none that
    could be: what is written goes there at once.
    """
    path = Path(path)
    if path.exists() and not path.is_file():
        with _named(path), path.open("wb") as file:
            yield file
        return
    path = path.resolve() if path.is_symlink() else path
    temporary = path.with_name(_NEW + path.name)
    try:
        with _named(path), temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):  # such as a name that is too long
            temporary.unlink(missing_ok=True)
        raise
    _sync(path.parent)


@contextmanager
def new_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yields a temporary folder to fill, which becomes `path` when the block ends without error.

    A folder that already has that name is replaced. If the block or the disk fails, the
    temporary folder is removed and what was there before stays.
    """
    path = Path(path)
    new, old = path.with_name(_NEW + path.name), path.with_name(_OLD + path.name)
    try:
        settle(path)
        new.mkdir(parents=True)
        yield new
        for folder, _, names in os.walk(new):
            for name in names:
                _sync(Path(folder) / name)
            _sync(Path(folder))
        if path.exists():
            path.rename(old)
        new.rename(path)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        if old.exists() and not path.exists():
            old.rename(path)
        raise
    _sync(path.parent)
    if old.exists():
        shutil.rmtree(old)


def remove_folder(path: str | os.PathLike[str]) -> None:
    """Removes a folder in such a way that it never shows half of its files under its name."""
    path = Path(path)
    doomed = path.with_name(_NEW + path.name)
    settle(path)
    path.rename(doomed)
    shutil.rmtree(doomed)


def sweep(parent: str | os.PathLike[str]) -> None:
    """Clears away what a killed process left in `parent`; only for the one who may write there."""
    for prefix in (_OLD, _NEW):
        for leftover in list(Path(parent).glob(f"{prefix}*")):
            settle(leftover.with_name(leftover.name.removeprefix(prefix)))


def settle(path: Path) -> None:
    """Ends what a killed process began with `path`: the old state comes back, leftovers go."""
    new, old = path.with_name(_NEW + path.name), path.with_name(_OLD + path.name)
    if new.is_dir():
        shutil.rmtree(new)
    else:
        new.unlink(missing_ok=True)
    if old.exists() and path.exists():
        shutil.rmtree(old)
    elif old.exists():
        old.rename(path)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """An error of the machine says which file it is about, as that of a full disk does not."""
    try:
        yield
    except OSError as error:
        if error.errno and not error.filename:
            error.filename = str(path)
        raise


def _sync(path: Path) -> None:
    """Brings the bytes of a file, or the names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with _named(path):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
