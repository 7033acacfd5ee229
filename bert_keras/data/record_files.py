"""Rows of files that know their columns: JSON lines and Parquet."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bert_keras.data.faults import Faults
from bert_keras.data.text_files import strict_lines
from bert_keras.errors import DataError
from bert_keras.strict_json import once

Column = str | int
Row = tuple[int, list[Any]]


def column_position(place: str, column: Column, names: list[str] | None, width: int) -> int:
    """Where a column stands.

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
                f"{place}: no column {column}. Received: {width} columns, counted from 0."
            )
        return int(column) % width
    if names.count(column) != 1:
        found = "several columns" if column in names else "no column"
        raise DataError(
            f"{place}: {found} {column!r}. Received: {names!r:.500}. Name one of these; for a file "
            "without a header say so (header=false) and number the columns from 0."
        )
    return names.index(column)


def json_rows(file: Path, keys: Sequence[Column], encoding: str, faults: Faults) -> Iterator[Row]:
    """The values of some keys of every line; see `table_rows.read_rows`."""
    for number, line in strict_lines(file, encoding):
        if line.strip():
            record = None
            with faults.row():
                record = _record(line, keys, f"{file}:{number}")
            if record is not None:
                yield number, [record[key] for key in keys]


def _record(line: str, keys: Sequence[Column], place: str) -> dict[Any, Any]:
    try:
        record = json.loads(line, object_pairs_hook=once(place, DataError))
    except DataError:  # a ValueError too
        raise
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place}: not JSON: {error}. Received: {line[:80]!r}") from None
    if not isinstance(record, dict):
        raise DataError(f"{place}: an object is needed in every line. Received: {line[:80]!r}")
    if missing := [key for key in keys if key not in record]:
        raise DataError(f"{place}: no key {missing[0]!r}. Received: {list(record)!r:.500}.")
    return record


def parquet_rows(file: Path, columns: Sequence[Column]) -> Iterator[Row]:
    """The values of some columns of every row; see `table_rows.read_rows`."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(
            f'{file}: Parquet files need pyarrow. Install with: pip install "bert-keras[finetune]"'
        ) from error
    number = 0
    try:
        with pyarrow.parquet.ParquetFile(file) as table:
            names = table.schema_arrow.names
            wanted = [names[column_position(f"{file}", c, names, len(names))] for c in columns]
            for batch in table.iter_batches(columns=list(dict.fromkeys(wanted))):
                values = [batch.column(name).to_pylist() for name in wanted]
                for row in zip(*values, strict=True):
                    number += 1
                    yield number, list(row)
    except (pyarrow.ArrowException, OSError) as error:
        reason = f"{error}".rstrip(".")
        raise DataError(
            f"{file}: cannot be read as Parquet after row {number}: {reason}."
        ) from error
