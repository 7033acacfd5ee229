"""Rows of TSV, CSV, JSON lines and Parquet files, each with its place in the file."""

from __future__ import annotations

import csv
import json
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from bert_keras import file_io
from bert_keras.data.columns import ErrorCollector
from bert_keras.data.documents import Source, strict_lines
from bert_keras.errors import DataError
from bert_keras.file_io import is_object, unique_keys

Column = str | int
Row = tuple[int, list[Any]]


def column_position(place: str, column: Column, names: list[str] | None, width: int) -> int:
    """Return the position of a column.

    Args:
        place: of the row that names the columns, for messages.
        column: its name or number.
        names: of the columns; None where they have none.
        width: how many there are.

    Raises:
        ValueError: a name where columns have none.
        DataError: no such column, or several.
    """
    if names is None or isinstance(column, int):
        if isinstance(column, str) and not column.removeprefix("-").isdecimal():
            raise ValueError(f"Without a header, columns are numbers from 0. Received: {column!r}")
        if not -width <= int(column) < width:
            raise DataError(
                f"{place}: no column {column}. Received: {width} columns, counted from 0. Pass a "
                f"number from 0 to {width - 1}."
            )
        return int(column) % width
    if names.count(column) != 1:
        found = "several columns" if column in names else "no column"
        raise DataError(
            f"{place}: {found} {column!r}. Received: {names!r:.500}. Name one of these; for a file "
            "without a header, pass header=false and the number of the column, from 0."
        )
    return names.index(column)


def json_rows(
    file: Path, keys: Sequence[Column], encoding: str, faults: ErrorCollector
) -> Iterator[Row]:
    """The values of some keys of every line; see `table_rows.read_rows`."""
    for number, line in strict_lines(file, encoding):
        if line.strip():
            try:
                record = _record(line, keys, f"{file}:{number}")
            except DataError as error:
                faults.add(error)
            else:
                yield number, [record[key] for key in keys]


def _record(line: str, keys: Sequence[Column], place: str) -> dict[Any, Any]:
    try:
        record = json.loads(line, object_pairs_hook=unique_keys(place, DataError))
    except DataError:  # a ValueError too
        raise
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place}: not JSON: {error}. Received: {line[:80]!r}") from None
    if not is_object(record):
        raise DataError(f"{place}: every line must be a JSON object. Received: {line[:80]!r}")
    if missing := [key for key in keys if key not in record]:
        raise DataError(
            f"{place}: no key {missing[0]!r}. Received: the keys {list(record)!r:.500}. "
            "Name one of these."
        )
    return record


def parquet_rows(file: Path, columns: Sequence[Column]) -> Iterator[Row]:
    """The values of some columns of every row; see `table_rows.read_rows`."""
    try:
        import pyarrow  # pyright: ignore[reportMissingTypeStubs]
        import pyarrow.parquet as parquet  # pyright: ignore[reportMissingTypeStubs]
    except ImportError as error:
        raise ImportError(
            f'{file}: Parquet files need pyarrow. Install with: pip install "bert-keras[finetune]"'
        ) from error
    arrow, reader = cast("Any", pyarrow), cast("Any", parquet)  # they have no types
    number = 0
    try:
        with reader.ParquetFile(file) as table:
            names = table.schema_arrow.names
            wanted = [names[column_position(f"{file}", c, names, len(names))] for c in columns]
            for batch in table.iter_batches(columns=list(dict.fromkeys(wanted))):
                values = [batch.column(name).to_pylist() for name in wanted]
                for row in zip(*values, strict=True):
                    number += 1
                    yield number, list(row)
    except (arrow.ArrowException, OSError) as error:
        reason = f"{error}".rstrip(".")
        raise DataError(
            f"{file}: cannot be read as Parquet after row {number}: {reason}. Write the file "
            "again, or pass its format."
        ) from error


# === Rows ===


FORMATS = ("csv", "jsonl", "label_text", "parquet", "tsv")
MAX_FIELD = 2**24  # characters of a quoted field: several times the longest book
LABEL_TEXT = ("label", "fine", "text")  # columns of the format "label_text"

_ENDINGS = {
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".tab": "tsv",
    ".tsv": "tsv",
    ".txt": "tsv",
}
_FIELD_LIMIT = threading.Lock()  # the limit is that of the process
_SEPARATORS = {"csv": ",", "tsv": "\t"}


def read_rows(
    path: Source,
    columns: Sequence[Column],
    faults: ErrorCollector,
    *,
    format: str | None = None,  # noqa: A002
    header: bool = True,
    quoting: bool | None = None,
    separator: str | None = None,
    encoding: str = "utf-8",
    blank_lines: bool = True,
) -> Iterator[Row]:
    """Yields line and values of every row.

    Args:
        path: a file, of text gzipped or not.
        columns: the columns to take, by name or by number from 0 (a negative one counts from the
            end). Keys in JSON lines.
        faults: takes the rows that cannot be read, which are passed over.
        format: one of `FORMATS`; None takes it from the ending of the file. "label_text" is the
            form of TREC, "label:finer text": its columns are "label", "fine" (the whole first
            word) and "text".
        header: whether the first row of a TSV or CSV file names its columns.
        quoting: whether quotes hold a field together, by RFC 4180: they may hold separators and
            line ends (LF then, whatever the file has), and a doubled quote stands for one. None:
            in CSV yes, in TSV no. A field may have `MAX_FIELD` characters with it.
        separator: what stands between fields; None: a comma in CSV, a tab in TSV.
        encoding: of text files. JSON lines and Parquet are UTF-8 by their definition, but what is
            named here is used for the former.
        blank_lines: whether those of TSV and CSV files are passed over; else one before a row is a
            fault, as where rows are counted.

    Yields:
        The number, from 1, of the line at which the row begins (in Parquet: of the row), and the
        value of each of the columns: str in text files, what the file has in the others.

    Raises:
        ValueError: arguments that do not fit together.
        DataError: what ends the reading: no such file or column, bad quotes, bytes that are not in
            the encoding, NUL, no row at all; names file and line.
        ImportError: Parquet without pyarrow.
    """
    file = file_io.expanded(path)
    kind = format_of(file, format)
    if kind == "parquet":
        rows = parquet_rows(file, columns)
    elif kind == "jsonl":
        rows = json_rows(file, columns, encoding, faults)
    elif kind == "label_text":
        fields = _label_text(file, encoding, faults)
        rows = _select(file, fields, columns, faults, list(LABEL_TEXT))
    else:
        separator = _SEPARATORS[kind] if separator is None else separator
        quoting = kind == "csv" if quoting is None else quoting
        if not separator or (quoting and (len(separator) != 1 or separator in '"\r\n')):
            raise ValueError(
                "separator must be at least one character; with quoting exactly one, and neither a "
                f"quote nor a line end. Received: separator={separator!r}"
            )
        fields = (_quoted if quoting else _unquoted)(file, separator, encoding)
        fields = _without_blanks(file, fields, None if blank_lines else faults)
        rows = (_headed if header else _select)(file, fields, columns, faults)
    empty = True
    for row in rows:
        empty = False
        yield row
    if empty and not faults:
        raise DataError(
            f"{file}: no rows. Received: {file.stat().st_size:,} bytes. Pass a file with at least "
            "one row, beside a header."
        )


def format_of(file: Path, format: str | None) -> str:  # noqa: A002
    """The format that is named, or that the ending of a file stands for."""
    if format is None:
        ending = Path(file.name.lower().removesuffix(".gz")).suffix
        if ending not in _ENDINGS:
            raise ValueError(
                f"{file}: the ending {ending!r} stands for no known format. Pass format, one of "
                f"{FORMATS}."
            )
        return _ENDINGS[ending]
    if format not in FORMATS:
        raise ValueError(f"format must be one of {FORMATS}. Received: {format!r}")
    return format


def _unquoted(file: Path, separator: str, encoding: str) -> Iterator[tuple[int, list[str]]]:
    for number, line in strict_lines(file, encoding):
        text = line.removesuffix("\n")
        yield number, text.split(separator) if text else []


def _quoted(file: Path, separator: str, encoding: str) -> Iterator[tuple[int, list[str]]]:
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
            raise DataError(
                f"{file}:{start}: the row that begins here cannot be read: {error}, in line "
                f"{reader.line_num}. Close every quote and double those inside a field; if quotes "
                "are plain characters in this file, pass quoting=False."
            ) from None
        yield start, fields


@contextmanager
def _long_fields() -> Generator[None]:
    """Fields of up to `MAX_FIELD` characters in the `csv` module, which has one limit for all."""
    with _FIELD_LIMIT:
        before = csv.field_size_limit(MAX_FIELD)
        try:
            yield
        finally:
            csv.field_size_limit(before)


def _without_blanks(
    file: Path, fields: Iterator[tuple[int, list[str]]], faults: ErrorCollector | None
) -> Iterator[tuple[int, list[str]]]:
    blank = 0
    for number, values in fields:
        if not values:
            blank = blank or number
            continue
        if blank and faults is not None:
            faults.add(DataError(f"{file}:{blank}: a blank line before a row. Remove it."))
        blank = 0
        yield number, values


def _label_text(
    file: Path, encoding: str, faults: ErrorCollector
) -> Iterator[tuple[int, list[str]]]:
    for number, line in strict_lines(file, encoding):
        if words := line.strip(" \t\n"):
            fine, _, text = words.partition(" ")
            label = fine.partition(":")[0]
            if label and text:
                yield number, [label, fine, text.strip(" \t")]
                continue
            faults.add(
                DataError(
                    f"{file}:{number}: a label, a space and a text are needed. Received: "
                    f"{words!r:.200}"
                )
            )


def _headed(
    file: Path,
    rows: Iterator[tuple[int, list[str]]],
    columns: Sequence[Column],
    faults: ErrorCollector,
) -> Iterator[Row]:
    """The rows below one that names the columns."""
    for number, names in rows:
        return _select(file, rows, columns, faults, [name.strip() for name in names], number)
    return iter(())


def _select(
    file: Path,
    rows: Iterator[tuple[int, list[str]]],
    columns: Sequence[Column],
    faults: ErrorCollector,
    names: list[str] | None = None,
    line: int = 1,
) -> Iterator[Row]:
    """The values of the columns; every row has as many fields as the names, or as the first row."""
    positions: list[int] = []
    width = len(names) if names else 0
    first = line
    if names:
        positions = [column_position(f"{file}:{line}", column, names, width) for column in columns]
    for number, fields in rows:
        if not width:
            first, width = number, len(fields)
            positions = [
                column_position(f"{file}:{number}", column, None, width) for column in columns
            ]
        if len(fields) != width:
            few = len(fields) < width
            hint = "A quote or separator may be missing" if few else "A field may hold a separator"
            faults.add(
                DataError(
                    f"{file}:{number}: too {'few' if few else 'many'} fields. Expected: {width}, "
                    f"as in line {first}. Received: {len(fields)}: {fields!r:.200}. {hint}; check "
                    "quoting and separator."
                )
            )
            continue
        yield number, [fields[position] for position in positions]
