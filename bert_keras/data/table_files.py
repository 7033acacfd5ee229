"""Rows of TSV, CSV, JSON lines and Parquet files and of `datasets`, with their places."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from bert_keras import file_io
from bert_keras.data.documents import Source, strict_lines
from bert_keras.data.json_records import UNUSED_ANSWERS, ChoicesReader, is_task, whole
from bert_keras.data.long_texts import warn
from bert_keras.data.separated_values import separated_rows, without_blanks
from bert_keras.data.source_files import ErrorCollector
from bert_keras.data.table_columns import (
    Column,
    Row,
    column_position,
    dataset_rows,
    is_dataset_folder,
    matching_names,
    parquet_rows,
)
from bert_keras.errors import DataError
from bert_keras.file_io import is_object

_PRODIGY = "_input_hash"  # a key that Prodigy writes in every row


def json_rows(
    file: Path, keys: Sequence[Column], encoding: str, errors: ErrorCollector
) -> Iterator[Row]:
    """Yield the line number and the values of `keys` of every JSON line; see `read_rows`.

    In a list of JSON, the number is that of the item, from 1.

    A line that cannot be used is left out, and its error is added to `errors`.
    """
    lines = strict_lines(file, encoding)
    first = next(((number, line) for number, line in lines if line.strip()), None)
    if first is None:
        return
    number, line = first
    # A line "{" alone begins an object over several lines.
    is_whole = line.lstrip().startswith("[") or line.strip() == "{"
    rows: Any = ((at, row) for at, row in chain([first], lines) if row.strip())
    if is_whole:
        blank_lines = "\n" * (number - 1)  # messages count them
        content = "".join([blank_lines, line, *(row for _, row in lines)])
        rows = enumerate(whole(file, content), 1)
    choices = ChoicesReader(keys)
    left_out: Counter[str] = Counter()
    for number, row in rows:
        with errors.row():
            place = f"{file}:{number}"
            record = row if is_whole else file_io.decode_json(row, place, DataError)
            if not is_object(record):
                raise DataError(
                    f"{place}: every row must be a JSON object. Received: {record!r:.80}"
                )
            if _PRODIGY in record and (answer := record.get("answer")) in UNUSED_ANSWERS:
                left_out[f"rows of Prodigy with the answer {answer!r}"] += 1
            elif (values := _record(record, keys, choices, place)) is None:
                left_out["tasks that nobody has annotated"] += 1
            else:
                yield number, values
    if left_out:
        shown = " and ".join(f"{count:,} {what}" for what, count in left_out.items())
        warn(f"{file}: left out {shown}.")


def _record(
    record: dict[str, Any], keys: Sequence[Column], choices: ChoicesReader, place: str
) -> list[Any] | None:
    """Return the values of `keys` in an object, or in a task of Label Studio, which may have none.

    Several choices in Label Studio's JSON-MIN, {"choices": […]}, become a list.
    """
    if is_task(record):
        return choices.values(record, place)
    values = [record[_key(key, record, place)] for key in keys]
    is_choice = [is_object(value) and {*value} == {"choices"} for value in values]
    return [v["choices"] if is_one else v for v, is_one in zip(values, is_choice, strict=True)]


def _key(key: Column, record: dict[str, Any], place: str) -> str:
    """Return the key of an object that equals a name, or is the only one that matches it."""
    similar = [key] if key in record else matching_names(f"{key}", record)
    if len(similar) != 1:
        raise DataError(
            f"{place}: {'several keys' if similar else 'no key'} {key!r}. "
            f"Received: the keys {list(record)!r:.500}. Name one of these (in recipes text=KEY "
            "label=KEY)."
        )
    return f"{similar[0]}"


# === Rows ===


FORMATS = ("csv", "jsonl", "label_text", "parquet", "tsv")
LABEL_TEXT = ("label", "fine", "text")  # columns of the format "label_text"

_ENDINGS = {
    ".csv": "csv",
    ".json": "jsonl",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".tab": "tsv",
    ".tsv": "tsv",
    ".txt": "tsv",
}


def read_rows(
    path: Source,
    columns: Sequence[Column],
    errors: ErrorCollector,
    *,
    format: str | None = None,  # noqa: A002
    header: bool = True,
    quoting: bool | None = None,
    separator: str | None = None,
    encoding: str = "utf-8",
    blank_lines: bool = True,
) -> Iterator[Row]:
    """Yield the line number and the values of every row of a table.

    Args:
        path: the file; text files may be gzipped. Or the folder of a `datasets.Dataset`.
        columns: columns to read, by name or by number from 0 (a negative one counts from the end).
            Keys in JSON lines.
        errors: collects the errors of rows that cannot be read; these rows are left out.
        format: one of `FORMATS`; None takes it from the ending of the file. "label_text" is the
            format of TREC, "label:finer text", with the columns "label", "fine" (the whole first
            word) and "text".
        header: whether the first row of a TSV or CSV file names its columns.
        quoting: whether quotes hold a field together (RFC 4180). A quoted field may have separators
            and line ends, which become LF, and two quotes in it are one quote. It has at most
            `separated_values.MAX_FIELD` characters. None: True for CSV, False for TSV.
        separator: text between fields. None: the one that a first line such as "sep=;" names; or
            a comma in CSV, a tab in TSV; or a comma, semicolon, tab or vertical bar with which the
            header has all named columns. A warning names it.
        encoding: encoding of text files, JSON lines too.
        blank_lines: whether blank lines in TSV and CSV files are skipped. False makes a blank line
            before a row an error, so that rows can be counted by line.

    Yields:
        The number of the line, from 1, at which the row begins (in Parquet, of the row), and the
        value of each column: str in text files, and any type of JSON or Parquet in these.

    Raises:
        ValueError: arguments that do not fit together.
        DataError: an error that ends the reading: no such file or column, an open quote, bytes that
            are not in the encoding, NUL, or a file without rows. The message has file and line.
        ImportError: Parquet without pyarrow.
    """
    file = file_io.expanded(path)
    kind = format_of(file, format)
    if kind == "dataset":
        rows = dataset_rows(file, columns)
    elif kind == "parquet":
        rows = parquet_rows(file, columns)
    elif kind == "jsonl":
        rows = json_rows(file, columns, encoding, errors)
    elif kind == "label_text":
        fields = _label_text(file, encoding, errors)
        rows = _select(file, fields, columns, errors, list(LABEL_TEXT))
    else:
        fields = separated_rows(file, kind, columns, header, quoting, separator, encoding)
        fields = without_blanks(file, fields, None if blank_lines else errors)
        rows = (_headed if header else _select)(file, fields, columns, errors)
    empty = True
    for row in rows:
        empty = False
        yield row
    if empty and not errors:
        size = 0 if file.is_dir() else file.stat().st_size
        raise DataError(
            f"{file}: no rows. Received: {size:,} bytes. Pass a file with at least one row, beside "
            "a header."
        )


def format_of(file: Path, format: str | None) -> str:  # noqa: A002
    """Return the format that is passed, or else the format of the file's ending, one of `FORMATS`.

    The ending ".gz" is left out: "rows.csv.gz" is "csv". A folder of `datasets` is "dataset".
    """
    if is_dataset_folder(file):
        return "dataset"
    if file.is_dir():
        raise DataError(
            f"{file}: a folder without rows. Pass a file, or a folder that "
            "`datasets.Dataset.save_to_disk` has written."
        )
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


def _label_text(
    file: Path, encoding: str, errors: ErrorCollector
) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and [label, fine label, text] of every line, such as "NUM:date Who".

    A line without a label or a text is left out, and its error is added to `errors`.
    """
    for number, line in strict_lines(file, encoding):
        if words := line.strip(" \t\n"):
            fine, _, text = words.partition(" ")
            label = fine.partition(":")[0]
            if label and text:
                yield number, [label, fine, text.strip(" \t")]
                continue
            errors.add(
                DataError(
                    f"{file}:{number}: a label, a space and a text are needed. Received: "
                    f"{words!r:.200}"
                )
            )


def _headed(
    file: Path,
    rows: Iterator[tuple[int, list[str]]],
    columns: Sequence[Column],
    errors: ErrorCollector,
) -> Iterator[Row]:
    """Yield the values of the columns in the rows below the first row, which has their names."""
    for number, names in rows:
        return _select(file, rows, columns, errors, [name.strip() for name in names], number)
    return iter(())


def _select(
    file: Path,
    rows: Iterator[tuple[int, list[str]]],
    columns: Sequence[Column],
    errors: ErrorCollector,
    names: list[str] | None = None,
    line: int = 1,
) -> Iterator[Row]:
    """Yield the line number and the values of the columns of every row.

    All rows must have as many fields as there are names, or else as the first row. A row that has
    not is left out, and its error is added to `errors`.

    Args:
        file: the file, for messages.
        rows: line number and fields of every row below the header.
        columns: names or numbers of the columns.
        errors: collects errors.
        names: names of all columns; None for a file without a header.
        line: line number of the header, for messages.
    """
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
            errors.add(
                DataError(
                    f"{file}:{number}: too {'few' if few else 'many'} fields. Expected: {width}, "
                    f"as in line {first}. Received: {len(fields)}: {fields!r:.200}. {hint}; check "
                    "quoting and separator."
                )
            )
            continue
        yield number, [fields[position] for position in positions]
