"""The rows of a table, as `read_table` and `read_choices` take them from `read_rows`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bert_keras.data.columns import ErrorCollector
from bert_keras.data.table_files import read_rows


def rows_of(path: Path, columns: Sequence[str | int], **options: Any) -> list[Any]:
    """All of them; raises what is wrong with the others."""
    rows: list[Any] = []
    with ErrorCollector().whole() as faults:
        rows += read_rows(path, columns, faults, **options)
    return rows
