"""Models and texts of programs that answer, as their command lines name them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from bert_keras import file_io
from bert_keras.errors import ArtifactError, DataError, UsageError

# Endings by which a word that names no file is a file that is missing, not a text.
_ENDINGS = re.compile(r"\S*\.(csv|tsv|tab|txt|jsonl?|ndjson|parquet|conll|gz)", re.IGNORECASE)


def open_predictor(model: str, values: dict[str, Any]) -> Any:
    """Open the predictor of a model, with the batch size and length of the command line."""
    from bert_keras.predictor import Predictor

    try:
        return Predictor.from_preset(
            model,
            batch_size=values["batch_size"],
            max_length=values["max_length"] or None,
            **weights_of(values),
            dtype=values["precision"] or None,
            device=values["device"] or None,
        )
    except (ArtifactError, DataError, UsageError):
        raise
    except ValueError as error:
        raise UsageError(str(error)) from error


def weights_of(values: dict[str, Any]) -> dict[str, Any]:
    """Return the options that say which weights are read; see `open_checkpoint`."""
    reading = {name: values[name] for name in ("allow_pickle", "trust", "averages")}
    return reading | {"variant": values["variant"] or None}


def is_text(word: str) -> bool:
    """Return whether a word of the command line is a text, and not a file."""
    path = file_io.expanded(word)
    return word != "-" and not path.exists() and not _ENDINGS.fullmatch(word)


def input_rows(
    word: str,
    keys: tuple[str, str],
    columns: dict[str, str],
    reading: dict[str, Any],
    *,
    name: str,
) -> Iterator[Any]:
    """Yield the rows of a word of the command line: standard input, a text or a file.

    Args:
        word: "-", a text in quotes, or a file.
        keys: names of a row's values; see `predictor.keys_of`.
        columns: name of a value -> its name in the file.
        reading: options of tables; see `reading_of`.
        name: name of a text, for messages.

    Raises:
        DataError: a bad row; names file and line.
        UsageError: options that do not fit the file.
    """
    from bert_keras.predictor import (
        STANDARD_INPUT,
        file_lines,
        line_rows,
        standard_input,
        table_rows,
    )

    path = file_io.expanded(word)
    if word == "-":
        yield from line_rows(standard_input(), STANDARD_INPUT, keys, columns)
    elif is_text(word):
        yield from line_rows([word], name, keys, columns)
    elif is_table(path, reading["format"]):
        try:
            yield from table_rows(path, keys, columns, **reading)
        except (DataError, UsageError):
            raise
        except (ValueError, ImportError) as error:
            raise UsageError(str(error)) from error
    else:
        yield from line_rows(file_lines(path), str(path), keys, columns)


def is_table(path: Path, given: str | None) -> bool:
    """Return whether a file is read as a table: by `format=`, or by its ending."""
    from bert_keras.predictor import TABLES

    return bool(given) or Path(path.name.lower().removesuffix(".gz")).suffix in TABLES


def number_of(name: str, text: str, *, finite: bool = False) -> float | None:
    """Return the number of a key; None where it is empty.

    Args:
        name: the key, for the message.
        text: its value.
        finite: whether infinity is refused.
    """
    if not text:
        return None
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if math.isnan(number) or (finite and math.isinf(number)):
        raise UsageError(f"{name} must be a number. Received: {text!r}. Give {name}=NUMBER.")
    return number


def reading_of(values: dict[str, Any]) -> dict[str, Any]:
    """Return the options of tables; raise `UsageError` for an unknown value of quoting."""
    from bert_keras.training.tasks.task import table_options

    if values["quoting"] not in ("auto", "true", "false"):
        raise UsageError(f"quoting must be auto, true or false. Received: {values['quoting']!r}")
    return table_options(SimpleNamespace(**values))
