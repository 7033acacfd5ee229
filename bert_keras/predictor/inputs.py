"""Rows to predict: from lines of text, JSON lines, tables and standard input."""

from __future__ import annotations

import dataclasses
import io
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from bert_keras.data import read_choices, read_table
from bert_keras.data.text_files import numbered_lines
from bert_keras.errors import DataError
from bert_keras.models import MultipleChoice, QuestionAnswerer

TABLES = (".csv", ".tsv", ".tab", ".parquet")  # endings of tables; other files are lines
STANDARD_INPUT = "standard input"

_OBJECT = re.compile(r'\s*\{(\s*["}]|.*\}\s*$)')  # "{sic} and more" is a text
_TEXT = ("text", "pair")  # the second may be missing in all rows
# Values of a row, by the class of the task.
_KEYS = {QuestionAnswerer: ("question", "context"), MultipleChoice: ("prompt", "options")}


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """Values that are predicted together.

    Attributes:
        place: "file:line", for messages.
        values: (text, second text or None), (question, context), or (prompt, list of options).
    """

    place: str
    values: tuple[Any, ...]


def keys_of(task: Any) -> tuple[str, str]:
    """Return the names of a row's values for a task."""
    return _KEYS.get(type(task), _TEXT)


def line_rows(
    lines: Iterable[str],
    name: str,
    keys: tuple[str, str],
    columns: Mapping[str, str] | None = None,
) -> Iterator[Row]:
    """Yield a row for each line, which is a text or a JSON object.

    Args:
        lines: the lines.
        name: of the file, for messages.
        keys: of a row's values, see `keys_of`.
        columns: names of these values in the file, where they differ.

    Raises:
        DataError: a line that is not what the task needs; names it.
    """
    names = tuple((columns or {}).get(key) or key for key in keys)
    for number, line in enumerate(lines, 1):
        yield _parsed(line.rstrip("\r\n"), names, keys, f"{name}:{number}")


def _parsed(line: str, names: tuple[str, ...], keys: tuple[str, str], place: str) -> Row:
    if not _OBJECT.match(line):
        if keys is _TEXT:
            return Row(place, (line, None))
        raise DataError(
            f"{place}: expected a JSON object with {', '.join(names)}. Received: {line:.80}"
        )
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place}: not JSON: {error}. Received: {line:.80}") from None
    needed = names[:1] if keys is _TEXT else names
    if missing := [name for name in needed if name not in values]:
        raise DataError(f"{place}: no {missing[0]!r}. Received: {list(values)}")
    found = tuple(values.get(name) for name in names)
    for key, name, value in zip(keys, names, found, strict=True):
        is_texts = isinstance(value, list) and all(isinstance(each, str) for each in value)
        is_right = is_texts if key == "options" else isinstance(value, str)
        if not is_right and not (key == "pair" and value is None):
            raise DataError(f"{place}: {name!r} must be text. Received: {value!r:.80}")
    return Row(place, found)


def table_rows(
    path: Path, keys: tuple[str, str], columns: Mapping[str, str], **options: Any
) -> list[Row]:
    """Read the rows of a CSV, TSV or Parquet file.

    Args:
        path: the file.
        keys: of a row's values, see `keys_of`.
        columns: names of these values in the file, where they differ. A text has a pair where
            "pair" is named. "options" may be several columns, with commas.
        options: of `bert_keras.data.read_table`: `format`, `header`, `quoting`, `separator`,
            `encoding`.

    Raises:
        DataError: rows that cannot be used; names file and line.
    """
    names = {key: column_of(columns.get(key) or key) for key in keys}
    if keys == _KEYS[MultipleChoice]:
        several = [column_of(name.strip()) for name in str(names["options"]).split(",")]
        chosen = read_choices(
            path,
            prompt=names["prompt"],
            options=several if len(several) > 1 else several[0],
            lead=column_of(columns["lead"]) if columns.get("lead") else None,
            answer=None,
            **options,
        )
        pairs = zip(chosen.places, chosen.prompts, chosen.options, strict=True)
        return [Row(place, (prompt, list(choices))) for place, prompt, choices in pairs]
    first, second = names.values()
    is_paired = keys is not _TEXT or bool(columns.get("pair"))
    texts = read_table(path, text=first, pair=second if is_paired else None, **options)
    seconds = texts.pairs if texts.pairs is not None else [None] * len(texts)
    rows = zip(texts.places, texts.texts, seconds, strict=True)
    return [Row(place, (text, pair)) for place, text, pair in rows]


def column_of(name: str) -> str | int:
    """Return a column as a command or recipe names it: by name, or by number."""
    return int(name) if name.isdecimal() else name


def file_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a text file, gzipped or not.

    Raises:
        DataError: no such file, or not UTF-8.
    """
    return (line for _, line in numbered_lines(path))


def standard_input() -> Iterator[str]:
    """Yield the lines of standard input.

    Raises:
        DataError: not UTF-8.
    """
    lines = io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8-sig")
    try:
        yield from lines
    except UnicodeDecodeError as error:
        raise DataError(f"{STANDARD_INPUT}: not UTF-8 ({error}). Convert it first.") from error
    finally:
        lines.detach()  # which closes standard input otherwise
