"""Folders of numbered versions, as TensorFlow Serving reads them."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from bert_keras.export.runtimes import formats

SAVED_MODEL = "saved_model.pb"
MOST_DIGITS = 18  # TensorFlow Serving keeps version numbers in signed 64-bit integers


def is_export(folder: Path) -> bool:
    """Return whether a folder is a SavedModel or an export of another runtime."""
    return (folder / SAVED_MODEL).is_file() or (folder / formats.FILE).is_file()


def is_version(folder: Path) -> bool:
    """Return whether a folder is an export, and its name is a version number."""
    name = folder.name
    return name.isdecimal() and len(name) <= MOST_DIGITS and is_export(folder)


def is_base_folder(folder: Path) -> bool:
    """Return whether a folder has numbered versions, and is no export itself."""
    return folder.is_dir() and not is_export(folder) and bool(versions_in(folder))


def versions_in(folder: Path) -> list[int]:
    """Return the version numbers in a folder; a name such as "02" is no version number."""
    if not folder.is_dir():
        return []
    names = [path.name for path in folder.iterdir() if is_version(path)]
    return [int(name) for name in names if str(int(name)) == name]


def fingerprint_of(folder: Path) -> list[tuple[str, int, int]]:
    """Return path, size in bytes and modification time in nanoseconds of each file of a folder.

    The files have not changed if two fingerprints are equal.
    """
    files = []
    for parent, _, names in os.walk(folder):
        for path in (Path(parent, name) for name in names):
            with suppress(OSError):  # the file was just removed, or is a dangling symbolic link
                status = path.stat()
                files.append((str(path), status.st_size, status.st_mtime_ns))
    return sorted(files)
