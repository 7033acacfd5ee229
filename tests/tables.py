"""All rows of a table file at once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bert_keras.data.source_files import ErrorCollector
from bert_keras.data.table_files import read_rows


def rows_of(path: Path, columns: Sequence[str | int], **options: Any) -> list[Any]:
    """Return all rows that `read_rows` yields; raise an error for invalid rows."""
    rows: list[Any] = []
    with ErrorCollector().whole() as errors:
        rows += read_rows(path, columns, errors, **options)
    return rows


def table_rows(
    tmp_path: Path, data: str | bytes, columns: list[str | int], **options: Any
) -> list[Any]:
    """Write a table file and read these columns of its rows."""
    path = tmp_path / options.pop("name", "a.tsv")
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return rows_of(path, columns, **options)
