"""Files: written whole or not at all, by one writer, and JSON read strictly.

Everything is written under a temporary name in the same folder, brought to the disk (fsync) and
then renamed. A process killed at any point leaves the old state or the new one, and perhaps
leftovers that `sweep` clears away.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import warnings
from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TypeGuard

from bert_keras import escaping
from bert_keras.errors import ArtifactError, ResourceError

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
def new_file(path: str | os.PathLike[str]) -> Generator[BinaryIO]:
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
def new_folder(path: str | os.PathLike[str]) -> Generator[Path]:
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
def _named(path: Path) -> Generator[None]:
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


# === JSON ===


# The most bytes of a config, and of a file that holds a vocabulary (XLM-R's tokenizer.json: 17 MB).
# Python objects take about ten times the bytes of their JSON.
SMALL, LARGE = 8 * 2**20, 96 * 2**20
_MOST_KEYS = 10  # in a message


def is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    """Return whether a value that was read from JSON is an object."""
    return isinstance(value, dict)


def is_array(value: Any) -> TypeGuard[list[Any]]:
    """Return whether a value that was read from JSON is an array."""
    return isinstance(value, list)


def read_object(path: Path, at_most: int = SMALL) -> dict[str, Any]:
    """Return the object in a JSON file.

    Args:
        path: the file.
        at_most: bytes that it may have.

    Raises:
        ArtifactError: no such file, a larger one, or something else in it.
    """
    values = read_json(path, at_most)
    if not is_object(values):
        raise ArtifactError(f"{path}: expected a JSON object. Received: {type(values).__name__}")
    return values


def read_json(path: Path, at_most: int = SMALL) -> Any:
    """Return what is in a JSON file.

    Args:
        path: the file.
        at_most: bytes that it may have.

    Raises:
        ArtifactError: no such file, a larger one, no JSON, or an object that says a key twice.
    """
    return parse_json(read_bytes(path, at_most), path)


def read_bytes(path: Path, at_most: int = LARGE) -> bytes:
    """Return the content of a file, which is never read further than `at_most` bytes.

    Raises:
        ArtifactError: no such file, or a larger one.
    """
    if not path.is_file():
        raise ArtifactError(f"{path}: no such file. The folder is not a checkpoint.")
    with path.open("rb") as file:
        content = file.read(at_most + 1)
    if len(content) > at_most:
        raise ArtifactError(
            f"{path}: larger than any such file of a checkpoint, at most {at_most:,} bytes. "
            f"Received: {path.stat().st_size:,} bytes"
        )
    return content


def parse_json(text: bytes, path: Path) -> Any:
    """Return what a text says.

    Args:
        text: UTF-8.
        path: where it came from, for messages.

    Raises:
        ArtifactError: no JSON, too deep, or an object that says a key twice.
    """
    try:
        return json.loads(text.decode(), object_pairs_hook=unique_keys(path, ArtifactError))
    except ArtifactError:  # a ValueError too
        raise
    except ValueError as error:
        raise ArtifactError(f"{path}: not JSON ({error}).") from error
    except RecursionError:
        raise ArtifactError(f"{path}: deeper than any file of a checkpoint.") from None


def unique_keys(
    place: str | Path, error: type[ValueError]
) -> Callable[[list[tuple[str, Any]]], dict[str, Any]]:
    """Return an `object_pairs_hook` of `json.loads` that refuses an object with a key twice.

    Args:
        place: where it stands, for the message.
        error: of an object in which one is.
    """

    def read_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        values = dict(pairs)
        if len(values) < len(pairs):
            keys = [key for key, _ in pairs]
            twice = next(key for key in values if keys.count(key) > 1)
            raise error(
                f"{place}: {twice!r} is said twice, and readers differ in which they take. "
                "Remove the wrong one."
            )
        return values

    return read_pairs


def refuse_unknown_keys(
    place: str | Path, values: Mapping[str, Any], known: Collection[str]
) -> None:
    """Check the keys of an object that only knows certain ones.

    Raises:
        ArtifactError: another key, which might change what the model computes.
    """
    if unknown := _unknown(values, known):
        raise ArtifactError(
            f"{place}: unknown keys: {unknown}. They might change what the model computes. Remove "
            "them if they do not; if a newer version wrote them, update bert-keras."
        )


def warn_of_unknown_keys(
    place: str | Path, values: Mapping[str, Any], known: Collection[str]
) -> None:
    """Warn once of all keys of an object that are not known, by name."""
    if unknown := _unknown(values, known):
        warnings.warn(
            f"{place}: unknown keys are ignored: {unknown}. If one of them changes what the model "
            "computes, the answers are wrong: compare them with the author's.",
            stacklevel=3,
        )


def _unknown(values: Mapping[str, Any], known: Collection[str]) -> str:
    keys = sorted(set(values).difference(known))
    more = f" and {len(keys) - _MOST_KEYS} more" * (len(keys) > _MOST_KEYS)
    return ", ".join(f"{key!r:.60}" for key in keys[:_MOST_KEYS]) + more


# === One writer ===


@contextmanager
def one_writer(target: Path) -> Generator[None]:
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
