"""Fields of CSV and TSV files: their separator, their quotes and their blank lines."""

from __future__ import annotations

import csv
import re
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bert_keras.data.documents import strict_lines
from bert_keras.data.long_texts import warn
from bert_keras.data.source_files import ErrorCollector
from bert_keras.data.table_columns import Column, matching_names
from bert_keras.errors import DataError

MAX_FIELD = 2**24  # characters of a quoted field: several times the longest book

_FIELD_LIMIT = threading.Lock()  # the `csv` module has one limit for the whole process
_SEPARATORS = {"csv": ",", "tsv": "\t"}
_NAMED = re.compile(r'"?sep=([^"\n])"?[ ,;\t]*\n?', re.IGNORECASE)


def separated_rows(
    file: Path,
    kind: str,
    columns: Sequence[Column],
    header: bool,
    quoting: bool | None,
    separator: str | None,
    encoding: str,
) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the fields of every row of a CSV or TSV file, blank lines too.

    Excel reads and writes a first line "sep=;", which names the separator. It is no row.

    Args:
        file: the file.
        kind: "csv" or "tsv".
        columns: the columns that are read, by name or number; a header shows its separator by them.
        header: whether the first row names the columns.
        quoting: see `table_files.read_rows`.
        separator: see `table_files.read_rows`.
        encoding: see `table_files.read_rows`.

    Raises:
        ValueError: a separator that cannot be used.
        DataError: the header has no such columns, but another separator would split it; or a quote
            that is not closed, or a field that is too long.
    """
    named = None
    if file.is_file():  # a pipe cannot be read twice
        _, first = next(strict_lines(file, encoding), (0, ""))
        named = match[1] if (match := _NAMED.fullmatch(first)) else None
        if separator is None:
            separator = named or _separator_of(file, kind, columns, header, encoding)
            quoting = kind == "csv" or separator != "\t" if quoting is None else quoting
    separator = _SEPARATORS[kind] if separator is None else separator
    quoting = kind == "csv" if quoting is None else quoting
    if not separator or (quoting and (len(separator) != 1 or separator in '"\r\n')):
        raise ValueError(
            "separator must be at least one character; with quoting exactly one, and neither a "
            f"quote nor a line end. Received: separator={separator!r}"
        )
    rows = (_quoted if quoting else _unquoted)(file, separator, encoding)
    if named:
        next(rows)
    return rows


def _separator_of(
    file: Path, kind: str, columns: Sequence[Column], header: bool, encoding: str
) -> str:
    """Return the separator of a table: the usual one, or the one that the header shows.

    Raises:
        DataError: the header has no such columns, but another separator would split it.
    """
    usual = _SEPARATORS[kind]
    number, line = next(((n, s) for n, s in strict_lines(file, encoding) if s.strip()), (0, ""))
    names = {separator: _split(line, separator) for separator in (usual, *",;\t|")}
    if not line or all(_has(column, names[usual], header) for column in columns):
        return usual
    wider = {s: fields for s, fields in names.items() if len(fields) > len(names[usual])}
    for separator, fields in wider.items():
        if header and all(_has(column, fields, header) for column in columns):
            warn(
                f"{file}:{number}: the columns are separated by {separator!r}, not by {usual!r}. "
                f"Pass separator={separator!r} to say so."
            )
            return separator
    if wider and len(names[usual]) == 1:
        separator, fields = max(wider.items(), key=lambda item: len(item[1]))
        missing = next(column for column in columns if not _has(column, names[usual], header))
        raise DataError(
            f"{file}:{number}: no column {missing!r}. Received: one column {line.rstrip()!r:.200}. "
            f"With the separator {separator!r} the columns are {fields!r:.500}: pass "
            f"separator={separator!r}, and name the columns as the file does (in recipes "
            "text=COLUMN label=COLUMN)."
        )
    return usual


def _split(line: str, separator: str) -> list[str]:
    """Return the names in a header, without quotes; as one name if its quotes are not closed."""
    try:
        return [name.strip() for name in next(csv.reader([line.rstrip()], delimiter=separator))]
    except csv.Error:
        return [line]


def _has(column: Column, names: Sequence[str], header: bool) -> bool:
    """Return whether a header with these names has a column, by its name or number."""
    if header and isinstance(column, str):
        return column in names or len(matching_names(column, names)) == 1
    return -len(names) <= int(column) < len(names) if f"{column}".lstrip("-").isdecimal() else True


def _unquoted(file: Path, separator: str, encoding: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the fields of every line, in which quotes are plain characters."""
    for number, line in strict_lines(file, encoding):
        text = line.removesuffix("\n")
        yield number, text.split(separator) if text else []


def _quoted(file: Path, separator: str, encoding: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the first line number and the fields of every row, in which quotes hold a field."""
    lines = (line for _, line in strict_lines(file, encoding))
    reader = csv.reader(lines, delimiter=separator, strict=True)
    while True:
        start = reader.line_num + 1
        try:
            with _long_fields():
                fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if "field limit" in f"{error}":
                raise DataError(
                    f"{file}:{start}: the row that begins here has a field of more than "
                    f"{MAX_FIELD:,} characters. Shorten it; or a quote may not be closed."
                ) from None
            raise DataError(
                f"{file}:{start}: the row that begins here cannot be read: {error}, in line "
                f"{reader.line_num}. Close every quote and double those inside a field; if quotes "
                "are plain characters in this file, pass quoting=False."
            ) from None
        yield start, fields


@contextmanager
def _long_fields() -> Generator[None]:
    """Allow fields of `MAX_FIELD` characters in the `csv` module, and restore its limit after."""
    with _FIELD_LIMIT:
        before = csv.field_size_limit(MAX_FIELD)
        try:
            yield
        finally:
            csv.field_size_limit(before)


def without_blanks(
    file: Path, fields: Iterator[tuple[int, list[str]]], errors: ErrorCollector | None
) -> Iterator[tuple[int, list[str]]]:
    """Yield rows without blank lines. With `errors`, a blank line before a row is an error."""
    blank = 0  # number of the first of the blank lines before this row; 0: none
    for number, values in fields:
        if not values:
            blank = blank or number
            continue
        if blank and errors is not None:
            errors.add(DataError(f"{file}:{blank}: a blank line before a row. Remove it."))
        blank = 0
        yield number, values
