"""Files of a path, a folder or a glob, and their names for manifests."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable
from pathlib import Path

from bert_keras import file_io
from bert_keras.errors import DataError

ENDINGS = (".txt", ".jsonl", ".gz")  # of the files that are taken from a folder
Source = str | os.PathLike[str]


def find_files(source: Source | Iterable[Source]) -> list[Path]:
    """Return the files of a path, a glob, a folder, or a list of these. See `bert_keras.data.read`.

    Raises:
        DataError: a file is missing or named twice, or a glob or a folder has no text files.
    """
    sources = [source] if isinstance(source, str | os.PathLike) else list(source)
    files = [file for item in sources for file in _find(item)]
    if not files:
        raise DataError(f"No file is named. Received: {source!r}. Pass a file, a folder or a glob.")
    seen: dict[Path, Path] = {}
    for file in files:
        if (other := seen.setdefault(file.resolve(), file)) is not file:
            raise DataError(f"{file}: this file is also named as {other}. Name every file once.")
    return files


def recorded_names(files: Iterable[Path], source: Source | Iterable[Source]) -> tuple[str, ...]:
    """Return the names of files for a record that others may read.

    Home folders are written as "~": that of the user, because a shell replaces "~" before the
    program sees it, and those that the source names.
    """
    sources = [source] if isinstance(source, str | os.PathLike) else list(source)
    firsts = {"~", *(Path(item).parts[0] for item in sources if str(item).startswith("~"))}
    homes = {first: file_io.expanded(first) for first in sorted(firsts)}

    def name(file: Path) -> str:
        """Return the path of a file, with "~" in place of a home folder."""
        for first, home in homes.items():
            if file.is_relative_to(home) and home.parent != home:  # not the root folder
                return (first / file.relative_to(home)).as_posix()
        return file.as_posix()

    return tuple(map(name, files))


def _find(source: Source) -> list[Path]:
    """Return the files of one path, glob or folder; those of a glob or folder sorted by path."""
    path = file_io.expanded(source)
    if path.is_dir():
        below = sorted(file for file in path.rglob("*") if not file.is_dir())
        named = [(file, file.relative_to(path).as_posix().lower()) for file in below]
        files = [file for file, name in named if name.endswith(ENDINGS) and "/." not in f"/{name}"]
        if not files:
            raise DataError(
                f"{path}: the folder has no text files. Received: {len(below)} files, none "
                f"with {', '.join(ENDINGS)}. A glob such as {path / '**' / '*'} takes any ending."
            )
        for file in files:
            if not file.is_file():
                raise DataError(
                    f"{file}: not a regular file, or a link to none. Remove it from the folder, or "
                    "name the files by a glob."
                )
        return files
    if path.is_file():
        return [path]
    if path.exists() or not glob.has_magic(str(path)):
        reason = "not a regular file or folder" if path.exists() else "no such file or folder"
        raise DataError(f"{path}: {reason}. Check the path.")
    matches = sorted(map(Path, glob.glob(str(path), recursive=True)))  # noqa: PTH207
    if not matches:
        raise DataError(
            f"{path}: no file matches this glob. {_bracket_advice(path)}Check the pattern and its "
            "folder."
        )
    files = [match for match in matches if match.is_file()]
    return files or [file for match in matches for file in _find(match)]


def _bracket_advice(pattern: Path) -> str:
    """Return the pattern to write if a folder has characters of a glob in its name; else ""."""
    for folder in pattern.parents:
        if glob.has_magic(str(folder)) and folder.is_dir():
            rest = pattern.relative_to(folder)
            return (
                f"The folder {folder} has characters of a glob in its name: write "
                f"{Path(glob.escape(str(folder))) / rest}. "
            )
    return ""
