"""Atomic writing of files and folders, strict reading of JSON, and locks for one writer.

Everything is written under a temporary name in the same folder, flushed to the disk (fsync) and
then renamed. A process that is killed at any point leaves the old or the new state, and perhaps
temporary files, which `sweep` removes.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import warnings
from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TypeGuard

from bert_keras import escaping
from bert_keras.errors import COPY_AGAIN, ArtifactError, ResourceError

_NEW = ".tmp-"  # prefix of what is being written or removed
_OLD = ".old-"  # prefix of an old folder until its successor is in its place


def expanded(path: str | os.PathLike[str]) -> Path:
    """Return a path with "~" replaced by the home folder.

    "~name" for an unknown user stays as it is; pathlib would raise an error.
    """
    return Path(os.path.expanduser(path))  # noqa: PTH111


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write or replace a text file atomically, in UTF-8; see `escaping.utf8`."""
    write_bytes(path, escaping.utf8(text))


def write_json(path: str | os.PathLike[str], values: Mapping[str, Any]) -> None:
    """Write or replace a JSON file atomically. No value may be NaN or infinite."""
    write_text(path, json.dumps(values, indent=2, allow_nan=False) + "\n")


def write_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    """Write or replace a file atomically."""
    with new_file(path) as file:
        file.write(content)


@contextmanager
def new_file(path: str | os.PathLike[str]) -> Generator[BinaryIO]:
    """Yield a temporary file that becomes `path` when the block ends without an error.

    If `path` is a link, the file that it names is replaced. A device or a pipe cannot be replaced,
    so it is written directly.
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
        with suppress(OSError):  # the name may be too long
            temporary.unlink(missing_ok=True)
        raise
    _sync(path.parent)


@contextmanager
def new_folder(path: str | os.PathLike[str]) -> Generator[Path]:
    """Yield a temporary folder that becomes `path` when the block ends without an error.

    An existing folder is replaced. If the block or the disk fails, the temporary folder is removed
    and the existing folder stays.
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
    """Remove a folder. It is renamed first, so that nobody sees it with half of its files."""
    path = Path(path)
    doomed = path.with_name(_NEW + path.name)
    settle(path)
    path.rename(doomed)
    shutil.rmtree(doomed)


def sweep(parent: str | os.PathLike[str]) -> None:
    """Remove temporary files that a killed process left in a folder.

    Only the process that holds the folder may call this.
    """
    for prefix in (_OLD, _NEW):
        for leftover in list(Path(parent).glob(f"{prefix}*")):
            settle(leftover.with_name(leftover.name.removeprefix(prefix)))


def settle(path: Path) -> None:
    """Restore the old state of a path after a killed process, and remove its temporary files."""
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
    """Add the path to an `OSError` that names no file, such as that of a full disk."""
    try:
        yield
    except OSError as error:
        if error.errno and not error.filename:
            error.filename = str(path)
        raise


def _sync(path: Path) -> None:
    """Flush the bytes of a file, or the names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with _named(path):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


# === JSON ===


# Size limits in bytes of a config, and of a file with a vocabulary (XLM-R's tokenizer.json: 17 MB).
# Python objects take about ten times the bytes of their JSON.
SMALL, LARGE = 8 * 2**20, 96 * 2**20
_MOST_KEYS = 10  # keys that a message lists


def is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    """Return whether a value that was read from JSON is an object."""
    return isinstance(value, dict)


def is_array(value: Any) -> TypeGuard[list[Any]]:
    """Return whether a value that was read from JSON is an array."""
    return isinstance(value, list)


def read_object(path: Path, at_most: int = SMALL) -> dict[str, Any]:
    """Return the object in a JSON file.

    Args:
        path: path of the file.
        at_most: size limit in bytes.

    Raises:
        ArtifactError: if there is no such file, it is too large, or holds something else.
    """
    values = read_json(path, at_most)
    if not is_object(values):
        raise ArtifactError(f"{path}: expected a JSON object. Received: {type(values).__name__}")
    return values


def read_json(path: Path, at_most: int = SMALL) -> Any:
    """Return the value in a JSON file.

    Args:
        path: path of the file.
        at_most: size limit in bytes.

    Raises:
        ArtifactError: if there is no such file, it is too large or not JSON, or an object has a
            key twice.
    """
    return parse_json(read_bytes(path, at_most), path)


def missing_file(path: Path) -> str:
    """Return the message about a file of a checkpoint that is not there.

    It names a folder within that has such a file, and says so where a training has not ended.
    """
    folder = path.parent
    within = [*folder.glob(f"*/{path.name}"), *folder.glob(f"*/*/{path.name}")]
    # The steps of a training are folders such as checkpoint-500: the last one is named.
    nearest = max(within, key=lambda found: by_number(str(found)), default=None)
    if (folder / "run.json").is_file():
        model = f", or name {nearest.parent}, the best model so far" if nearest else ""
        return (
            f"{folder}: the run has no model yet. Repeat the command that started it, to resume "
            f"the training{model}."
        )
    hint = f"Did you mean {nearest.parent}?" if nearest else "Add it, or name another folder."
    exported = [*folder.glob("*/saved_model.pb"), *folder.glob("*/encoder/saved_model.pb")]
    if not nearest and exported:
        last = max(exported, key=lambda found: by_number(str(found))).relative_to(folder).parts[0]
        hint = f"Did you mean the SavedModel in {folder / last}?"
    if len(within) > 1:
        hint += f" {len(within)} folders within have one."
    return f"{path}: no such file. {hint}"


def by_number(name: str) -> list[str | int]:
    """Return a sorting key of a name in which numbers count as numbers: step-9 before step-10."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)]


def read_bytes(path: Path, at_most: int = LARGE) -> bytes:
    """Return the content of a file of at most `at_most` bytes.

    Raises:
        ArtifactError: if there is no such file, or it is larger.
    """
    if not path.is_file():
        raise ArtifactError(missing_file(path))
    with path.open("rb") as file:
        content = file.read(at_most + 1)
    if len(content) > at_most:
        raise ArtifactError(
            f"{path}: larger than any such file of a checkpoint, at most {at_most:,} bytes. "
            f"Received: {path.stat().st_size:,} bytes"
        )
    return content


def parse_json(text: bytes, path: Path) -> Any:
    """Parse JSON.

    Args:
        text: JSON in UTF-8.
        path: path of its file, for messages.

    Raises:
        ArtifactError: if it is not JSON, is nested too deeply, or an object has a key twice.
    """
    try:
        return json.loads(text.decode(), object_pairs_hook=unique_keys(path, ArtifactError))
    except ArtifactError:  # it is a ValueError too
        raise
    except ValueError as error:
        raise ArtifactError(f"{path}: not JSON ({error}). {COPY_AGAIN}") from error
    except RecursionError:
        raise ArtifactError(f"{path}: deeper than any file of a checkpoint. {COPY_AGAIN}") from None


def unique_keys(
    place: str | Path, error: type[ValueError]
) -> Callable[[list[tuple[str, Any]]], dict[str, Any]]:
    """Return an `object_pairs_hook` for `json.loads` that refuses objects with a key twice.

    Args:
        place: place of the object, for the message.
        error: class of the error to raise.
    """

    def read_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """Return the pairs of an object as a dict."""
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
    """Refuse unknown keys of an object, because they might change the outputs of the model.

    Raises:
        ArtifactError: if a key is not among `known`.
    """
    if unknown := _unknown(values, known):
        raise ArtifactError(
            f"{place}: unknown keys: {unknown}. They might change what the model computes. Remove "
            "them if they do not; if a newer version wrote them, update bert-keras."
        )


def warn_of_unknown_keys(
    place: str | Path, values: Mapping[str, Any], known: Collection[str]
) -> None:
    """Warn once of all keys of an object that are not among `known`."""
    if unknown := _unknown(values, known):
        warnings.warn(
            f"{place}: unknown keys are ignored: {unknown}. If one of them changes what the model "
            "computes, the answers are wrong: compare them with the author's.",
            stacklevel=3,
        )


def _unknown(values: Mapping[str, Any], known: Collection[str]) -> str:
    """Return a list of the unknown keys for a message; "" if there are none."""
    keys = sorted(set(values).difference(known))
    more = f" and {len(keys) - _MOST_KEYS} more" * (len(keys) > _MOST_KEYS)
    return ", ".join(f"{key!r:.60}" for key in keys[:_MOST_KEYS]) + more


# === One writer ===


@contextmanager
def one_writer(target: Path) -> Generator[None]:
    """Exclude other writers of `target` during the block.

    A lock (flock) on a file beside it does this. The file is removed at the end of the block. The
    operating system releases the lock of a killed process.

    Raises:
        ResourceError: if another process is writing it.
    """
    path = target.with_name(f".{target.name}.lock")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ResourceError(
                f"{target}: another process is writing it. Wait for it, or choose another path."
            ) from None
        if not os.fstat(descriptor).st_nlink:  # the other process has just removed the file
            raise ResourceError(f"{target}: another process has just written it. Try again.")
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)
