"""Text files: finding them, and their lines, whose numbers every error names.

UTF-8, or another encoding that is named, is read strictly, gzipped or not, by the bytes and
whatever the ending says.
"""

from __future__ import annotations

import codecs
import glob
import gzip
import io
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from bert_keras import atomic
from bert_keras.errors import DataError

ENDINGS = (".txt", ".jsonl", ".gz")  # of the files that are taken from a folder
MAX_LINE = 2**27  # characters

Source = str | os.PathLike[str]

_GZIP = b"\x1f\x8b"
# How files begin that are no text in UTF-8, for the message.
_FOREIGN = {
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
    b"PK\x03\x04": "a zip archive",
    b"BZh": "a bzip2 file",
    b"\xfd7zXZ": "an xz file",
    b"\x28\xb5\x2f\xfd": "a zstd file",
    b"PAR1": "a Parquet file",
}
_NOT_UTF8 = re.compile("[\udc80-\udcff]+")  # bytes, as the handler "surrogateescape" passes them
_SURROGATE = re.compile("[\ud800-\udfff]")
_REPORT_EVERY = 256  # lines


def find_files(source: Source | Iterable[Source]) -> list[Path]:
    """The files of a path, a glob, a folder, or a list of these. See `bert_keras.data.read`.

    Raises:
        DataError: a file is missing or named twice, a glob or a folder gives none.
    """
    sources = [source] if isinstance(source, str | os.PathLike) else list(source)
    files = [file for item in sources for file in _find(item)]
    if not files:
        raise DataError(f"No files were named. Received: {source!r}")
    seen: dict[Path, Path] = {}
    for file in files:
        if (other := seen.setdefault(file.resolve(), file)) is not file:
            raise DataError(f"{file}: named twice, before as {other}. Name every file once.")
    return files


def names_as_given(files: Iterable[Path], source: Source | Iterable[Source]) -> tuple[str, ...]:
    """Return the names of the files that `find_files` found, with "~" where the source had it.

    What is written down does not tell where the home folder of a user is.
    """
    sources = [source] if isinstance(source, str | os.PathLike) else list(source)
    firsts = {Path(item).parts[0] for item in sources if str(item).startswith("~")}
    homes = {first: atomic.expanded(first) for first in firsts}

    def name(file: Path) -> str:
        for first, home in homes.items():
            if file.is_relative_to(home):
                return (first / file.relative_to(home)).as_posix()
        return file.as_posix()

    return tuple(map(name, files))


def _find(source: Source) -> list[Path]:
    path = atomic.expanded(source)
    if path.is_dir():
        below = sorted(file for file in path.rglob("*") if file.is_file())
        named = [(file, file.relative_to(path).as_posix().lower()) for file in below]
        files = [file for file, name in named if name.endswith(ENDINGS) and "/." not in f"/{name}"]
        if not files:
            raise DataError(
                f"{path}: a folder without text. Received: {len(below)} files, none that ends in "
                f"{', '.join(ENDINGS)}. A glob such as {path / '**' / '*'} takes any ending."
            )
        return files
    if path.is_file():
        return [path]
    if path.exists() or not glob.has_magic(str(path)):
        raise DataError(
            f"{path}: {'not a regular' if path.exists() else 'no such'} file or folder."
        )
    matches = sorted(map(Path, glob.glob(str(path), recursive=True)))  # noqa: PTH207
    if not matches:
        raise DataError(f"{path}: no file matches.")
    files = [match for match in matches if match.is_file()]
    return files or [file for match in matches for file in _find(match)]


def strict_lines(file: Path, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """`numbered_lines` of a table or a tagged text: a NUL character is refused.

    Args:
        file: the file.
        encoding: what it is written in; a byte order mark at the start of UTF-8 is left out.

    Raises:
        ValueError: Python knows no such encoding.
        DataError: as `numbered_lines`, or a line with NUL.
    """
    try:
        "".encode(encoding)
    except LookupError as error:
        raise ValueError(f"encoding must name a text encoding: {error}.") from None
    for number, line in numbered_lines(file, encoding=encoding):
        if "\0" in line:
            raise DataError(
                f"{file}:{number}: a NUL character, number {line.index(chr(0)) + 1} of the line. "
                'The file is damaged, or no text in this encoding: perhaps encoding="utf-16".'
            )
        yield number, line


def text_value(value: Any, what: str) -> str:
    """A value of JSON, Parquet or a table as text.

    Args:
        value: what was found.
        what: its place and name, for messages.

    Raises:
        DataError: it is no text, or has characters that no text has: NUL, halves of a pair.
    """
    if not isinstance(value, str):
        raise DataError(f"{what} must be text. Received: {value!r:.200}")
    if bad := "\0" in value or _SURROGATE.search(value):
        kind = "NUL" if bad is True else "half of a surrogate pair"
        raise DataError(f"{what} must be text, without {kind}. Received: {value!r:.200}")
    return value


def numbered_lines(
    file: Path, report: Callable[[int], object] | None = None, *, encoding: str | None = None
) -> Iterator[tuple[int, str]]:
    """Yields number, from 1, and text of each line. LF, CRLF and CR end one, and nothing else.

    Args:
        file: the file.
        report: called now and then with the position in it, in bytes.
        encoding: None for UTF-8; else messages say that another one can be named.

    Raises:
        DataError: a line that is not in the encoding or longer than `MAX_LINE`, damaged gzip data,
            no access.
    """
    number = 0
    try:
        with file.open("rb") as raw, _decoded(raw, encoding) as text:
            while line := text.readline(MAX_LINE + 1):
                number += 1
                if len(line) > MAX_LINE:
                    raise DataError(
                        f"{file}:{number}: a line of more than {MAX_LINE:,} characters. "
                        "End lines at least between paragraphs."
                    )
                yield number, line
                if report and number % _REPORT_EVERY == 0:
                    report(raw.tell())
    except UnicodeError as error:  # of which one is no UnicodeDecodeError: UTF-16 without its mark
        raise _encoding_error(file, encoding, error) from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(
            f"{file}:{number + 1}: the gzip data end or are damaged here: {error}. Get it anew."
        ) from error
    except OSError as error:
        raise DataError(f"{file}: cannot be read: {error.strerror or error}.") from error


def _decoded(
    raw: io.BufferedReader, encoding: str | None, errors: str = "strict"
) -> io.TextIOWrapper:
    data: Any = gzip.GzipFile(fileobj=raw) if raw.peek(2).startswith(_GZIP) else raw
    codec = "utf-8-sig" if _is_utf8(encoding) else encoding
    return io.TextIOWrapper(data, codec, errors, newline=None)


def _is_utf8(encoding: str | None) -> bool:
    return encoding is None or codecs.lookup(encoding).name == "utf-8"


def _encoding_error(file: Path, encoding: str | None, error: UnicodeError) -> DataError:
    """Reads the file once more to find the line and the bytes that are not in the encoding."""
    if not _is_utf8(encoding):
        return DataError(f"{file}:{_first_replaced(file, encoding)}: not {encoding}: {error}.")
    with file.open("rb") as raw:
        kind = next((kind for magic, kind in _FOREIGN.items() if raw.peek().startswith(magic)), "")
        text = _decoded(raw, encoding, "surrogateescape")
        lines = enumerate(iter(partial(text.readline, MAX_LINE + 1), ""), start=1)
        number, line, bad = next((n, s, m) for n, s in lines if (m := _NOT_UTF8.search(s)))
    position = len(line[: bad.start()].encode())
    found = bad[0][:8].encode("utf-8", "surrogateescape")
    near = line[max(0, bad.start() - 20) : bad.start() + 20].encode("utf-8", "surrogateescape")
    readings = [f"{near.decode(name, 'replace')!r} in {name}" for name in ("cp1252", "gb18030")]
    guess = f"The file looks like {kind}." if kind else f"It would read {' or '.join(readings)}."
    remedy = ', or name its encoding, such as encoding="latin-1"' if encoding else ""
    return DataError(
        f"{file}:{number}: not UTF-8. Received: from byte {position + 1} of the line on, "
        f"{found.hex(' ')}. {guess} Convert the file to UTF-8 text{remedy}."
    )


def _first_replaced(file: Path, encoding: str | None) -> int:
    """The first line in which something cannot be decoded; 1 where the decoder gives up at once."""
    try:
        with file.open("rb") as raw:
            text = _decoded(raw, encoding, "replace")
            lines = enumerate(iter(partial(text.readline, MAX_LINE + 1), ""), start=1)
            return next((number for number, line in lines if "\ufffd" in line), 1)
    except UnicodeError:
        return 1
