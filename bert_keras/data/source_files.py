"""Files of a path, a folder or a glob, their names for manifests, and the errors of their rows."""

from __future__ import annotations

import dataclasses
import glob
import os
import re
from collections.abc import Generator, Iterable
from contextlib import contextmanager
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


# === Errors of rows ===


_SHOWN_ERRORS = 20  # different errors in a message
_SHOWN_PLACES = 3  # lines or rows of one error
_SHOWN_VALUES = 3  # values that are shown each with an error of its own

# The place in a message: "data.csv:4: …" and "row 3: …", or "text: data.csv:4 is …".
_PLACES = (
    re.compile(r"()((?:(?!: ).)+:)(\d+)(: .*)", re.DOTALL),
    re.compile(r"()(row |example |sentence )(\d+)(: .*)", re.DOTALL),
    re.compile(r"((?:(?!: ).)+: )(row |(?:(?!: | is ).)+:)(\d+)( .*)", re.DOTALL),
)
_RECEIVED = "Received: "


class ErrorCollector:
    """Collection of the errors of a file or column, so that one message names all bad rows.

    A file that is read with a wrong option has an error in every row. Equal errors of several rows
    become one line, which names the first three rows and counts the others. Of errors that differ
    only in the value received, at most three are shown apart. The message has the first 20
    different errors and the number of the others.

    For example, `with errors.whole():` around a loop over lines, and `with errors.row():` in the
    loop, raise one `DataError` after the last line.
    """

    def __init__(self) -> None:
        self._groups: dict[tuple[str, ...], _Group] = {}
        self._first: DataError | None = None
        self._count = self._left_out = 0

    def __bool__(self) -> bool:
        return self._count > 0

    def add(self, error: DataError) -> None:
        """Collect the error of one row. The caller leaves the row out and reads on."""
        self._count += 1
        self._first = self._first or error
        located = _Located.of(str(error))
        group = self._groups.get(located.kind)
        if group is None:
            if len(self._groups) == _SHOWN_ERRORS:
                self._left_out += 1
                return
            group = self._groups[located.kind] = _Group()
        group.add(located, self._count)

    @contextmanager
    def row(self) -> Generator[None]:
        """Return a context for reading one row: a `DataError` in it is collected, not raised."""
        try:
            yield
        except DataError as error:
            self.add(error)

    @contextmanager
    def whole(self) -> Generator[ErrorCollector]:
        """Return a context for reading a whole file.

        Raises:
            DataError: with all collected errors, when the context ends. A `DataError` that ended
                the reading early comes last.
        """
        with self.row():
            yield self
        self.check()

    def check(self) -> None:
        """Raise the collected errors as one; do nothing if there are none.

        Raises:
            DataError: with all collected errors.
        """
        if self._first is None:
            return
        if self._count == 1:
            raise self._first
        runs = sorted(
            (run for group in self._groups.values() for run in group.runs()),
            key=lambda run: run.order,
        )
        left_out = self._left_out + sum(run.count for run in runs[_SHOWN_ERRORS:])
        lines = [f"{self._count:,} errors:", *(run.message() for run in runs[:_SHOWN_ERRORS])]
        if left_out:
            lines.append(f"and {left_out:,} more.")
        raise DataError("\n".join(lines))


@dataclasses.dataclass(frozen=True)
class _Located:
    """A message with the place of its row.

    Attributes:
        before: text before the place.
        place: place without its number, such as "data.csv:" or "row "; "" if there is none.
        number: number of the line or row.
        after: text after the place, or the whole message.
    """

    before: str
    place: str
    number: str
    after: str

    @staticmethod
    def of(message: str) -> _Located:
        """Return the parts of a message."""
        for pattern in _PLACES:
            if match := pattern.fullmatch(message):
                return _Located(*match.groups())
        return _Located("", "", "", message)

    @property
    def kind(self) -> tuple[str, ...]:
        """The message without the row and the received value."""
        return self.before, self.place, self.after.partition(_RECEIVED)[0]


class _Run:
    """The rows with one message.

    Args:
        first: message of the first row.
        order: number of this first error in the collection.
    """

    def __init__(self, first: _Located, order: int):
        self.first, self.order = first, order
        self.count = 0
        self.has_other_values = False
        self._numbers: list[str] = []

    def add(self, number: str) -> None:
        """Count a row."""
        self.count += 1
        if len(self._numbers) < _SHOWN_PLACES:
            self._numbers.append(number)

    def message(self) -> str:
        """Return the message with its rows."""
        before, place, number, after = dataclasses.astuple(self.first)
        if not place:
            return after + (f" ({self.count:,} times)" if self.count > 1 else "")
        file = place[:-1] if place.endswith(":") else ""
        unit = "line" if file else place.strip()
        if self.has_other_values:
            after = after.replace(_RECEIVED, f"Received in {unit} {number}: ", 1)
        if self.count == 1:
            return f"{before}{place}{number}{after}"
        if not before:
            return f"{f'{file}: ' if file else ''}{self._rows(unit, 0)}{after}"
        return f"{before}{place}{number}{after} The same holds for {self._rows(unit, 1)}."

    def _rows(self, unit: str, start: int) -> str:
        """Return the rows from number `start` on, such as "lines 2, 3, 4 and 1,017 more"."""
        shown = self._numbers[start:]
        others = self.count - len(self._numbers)
        *head, last = [*shown, f"{others:,} more"] if others else shown
        if not head:
            return f"{unit} {last}"
        return f"{unit}s {', '.join(head)} and {last}"


class _Group:
    """The messages that differ only in the row and in the received value."""

    def __init__(self) -> None:
        self._by_value: dict[str, _Run] = {}
        self._all: _Run | None = None

    def add(self, located: _Located, order: int) -> None:
        """Add the message of a row. `order` is the number of the error in the collection."""
        if self._all is None:
            self._all = _Run(located, order)
        self._all.add(located.number)
        if len(self._by_value) > _SHOWN_VALUES:
            return
        run = self._by_value.setdefault(located.after, _Run(located, order))
        run.add(located.number)

    def runs(self) -> list[_Run]:
        """Return the rows of each value; of more than three values, all rows together."""
        if len(self._by_value) <= _SHOWN_VALUES:
            return list(self._by_value.values())
        assert self._all is not None
        self._all.has_other_values = True
        return [self._all]
