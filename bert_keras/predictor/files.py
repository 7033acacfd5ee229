"""Reading of rows to predict from files, and writing of predictions as JSON lines or tables."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from bert_keras import features, file_io
from bert_keras.data import read_choices, read_table
from bert_keras.data.documents import numbered_lines
from bert_keras.errors import DataError, UsageError
from bert_keras.inference import Fill, Label
from bert_keras.inference.text_classification import REGRESSION, labels
from bert_keras.models.text_columns import TEXT_PAIR
from bert_keras.predictor.predictor import Predictor

TABLES = (".csv", ".tsv", ".tab", ".parquet")  # file name endings of tables; others have lines
STANDARD_INPUT = "standard input"

# Matches a line that is a JSON object, but not a text such as "{sic} and more".
_OBJECT = re.compile(r'\s*\{(\s*["}]|.*\}\s*$)')


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One row to predict.

    Attributes:
        place: "file:line", for messages.
        values: (text, second text or None), (question, context), or (prompt, list of options).
    """

    place: str
    values: tuple[Any, ...]


def keys_of(task: Any) -> tuple[str, str]:
    """Return the two names of a row's values for a task, such as ("question", "context").

    For ("text", "pair"), rows may be without a pair.
    """
    first, *second = task.answer_inputs(is_paired=True)
    return (first, *second) if second else TEXT_PAIR


def line_rows(
    lines: Iterable[str],
    name: str,
    keys: tuple[str, str],
    columns: Mapping[str, str] | None = None,
) -> Iterator[Row]:
    """Yield a row for each line, which is a text or a JSON object.

    Args:
        lines: the lines.
        name: name of the file, for messages.
        keys: names of a row's values; see `keys_of`.
        columns: name of a value -> its name in the file, if they differ.

    Raises:
        DataError: if a line is not what the task needs. The message names file and line.
    """
    names = tuple((columns or {}).get(key) or key for key in keys)
    for number, line in enumerate(lines, 1):
        yield _parsed(line.rstrip("\r\n"), names, keys, f"{name}:{number}")


def _parsed(line: str, names: tuple[str, ...], keys: tuple[str, str], place: str) -> Row:
    """Parse one line; `names` are the names in the file of the values `keys`."""
    if not _OBJECT.match(line):
        if keys == TEXT_PAIR:
            return Row(place, (line, None))
        raise DataError(
            f"{place}: expected a JSON object with {', '.join(names)}. Received: {line:.80}"
        )
    values = file_io.parse_json_line(line, place)
    needed = names[:1] if keys == TEXT_PAIR else names
    if missing := [name for name in needed if name not in values]:
        raise DataError(f"{place}: no {missing[0]!r}. Add this key. Received: {list(values)}")
    row = tuple(values.get(name) for name in names)
    for key, name, value in zip(keys, names, row, strict=True):
        is_texts = isinstance(value, list) and all(isinstance(text, str) for text in value)
        is_right = is_texts if key == "options" else isinstance(value, str)
        if not is_right and not (key == "pair" and value is None):
            kind = "a list of texts" if key == "options" else "text"
            raise DataError(f"{place}: {name!r} must be {kind}. Received: {value!r:.80}")
    return Row(place, row)


def table_rows(
    path: Path, keys: tuple[str, str], columns: Mapping[str, str], **options: Any
) -> list[Row]:
    """Read the rows of a CSV, TSV or Parquet file.

    Args:
        path: path of the file.
        keys: names of a row's values; see `keys_of`.
        columns: name of a value -> name or number of its column, if they differ. Texts have pairs
            only if "pair" is among them. "options" may name several columns, with commas.
        options: arguments of `bert_keras.data.read_table`: `format`, `header`, `quoting`,
            `separator`, `encoding`.

    Raises:
        DataError: if a row cannot be used. The message names file and line.
    """
    names = {key: column_of(columns.get(key) or key) for key in keys}
    if "options" in keys:
        option_columns = [column_of(name.strip()) for name in str(names["options"]).split(",")]
        examples = read_choices(
            path,
            prompt=names["prompt"],
            options=option_columns if len(option_columns) > 1 else option_columns[0],
            lead=column_of(columns["lead"]) if columns.get("lead") else None,
            answer=None,
            **options,
        )
        pairs = zip(examples.places, examples.prompts, examples.options, strict=True)
        return [Row(place, (prompt, list(choices))) for place, prompt, choices in pairs]
    first, second = names.values()
    is_paired = keys != TEXT_PAIR or bool(columns.get("pair"))
    texts = read_table(path, text=first, pair=second if is_paired else None, **options)
    seconds = texts.pairs if texts.pairs is not None else [None] * len(texts)
    rows = zip(texts.places, texts.texts, seconds, strict=True)
    return [Row(place, (text, pair)) for place, text, pair in rows]


def column_of(name: str) -> str | int:
    """Return the number of a column if a command or recipe names it by digits, else its name."""
    return int(name) if name.isdecimal() else name


def file_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a text file, which may be gzipped.

    Raises:
        DataError: if there is no such file, or it is not UTF-8.
    """
    return (line for _, line in numbered_lines(path))


def standard_input() -> Iterator[str]:
    """Yield the lines of standard input.

    Raises:
        DataError: if it is not UTF-8.
    """
    lines = io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8-sig")
    try:
        yield from lines
    except UnicodeDecodeError as error:
        raise DataError(f"{STANDARD_INPUT}: not UTF-8 ({error}). Convert it first.") from error
    finally:
        lines.detach()  # otherwise standard input would be closed with `lines`


# === Answers for rows ===


_AT_ONCE = 1024  # rows that are read together: bounds the memory


def predict_lines(
    predictor: Predictor, lines: Iterable[str], name: str, **options: Any
) -> Iterator[str]:
    """Yield the answer to each line as a line of JSON, in order.

    Args:
        predictor: predictor of the model.
        lines: each a text or a JSON object. Its keys are "question" and "context" for a
            `QuestionAnswerer`, "prompt" and "options" for a `MultipleChoice`, and otherwise "text"
            and perhaps "pair".
        name: name of the file, for messages.
        options: options of the predictor's method, such as `null_threshold`.

    Raises:
        DataError: if a line is not what the model needs. The message names file and line.
    """
    rows = line_rows(lines, name, keys_of(predictor.task))
    for _, answer in predict_rows(predictor, rows, **options):
        yield json.dumps(plain(answer), ensure_ascii=False, allow_nan=False)


def predict_rows(
    predictor: Predictor,
    rows: Iterable[Row],
    method: Callable[..., Any] | None = None,
    **options: Any,
) -> Iterator[tuple[Row, Any]]:
    """Answer rows in order, in parts of some rows.

    Args:
        predictor: predictor of the model.
        rows: rows for its task. Either all have a pair, or none.
        method: prediction method, called with columns of values; None for the predictor's own.
        options: options of the method.

    Yields:
        Each row and its answer.

    Raises:
        DataError: if a row is not what the model needs. The message names its place.
    """
    rows, method = iter(rows), method or predictor
    first: Row | None = None  # the first row decides whether all rows have a pair
    while part := list(islice(rows, _AT_ONCE)):
        first = first or part[0]
        if keys_of(predictor.task)[1] == "pair":
            columns = [_paired(row, first, predictor) for row in part]
        else:
            columns = [row.values for row in part]
        yield from zip(part, _answered(method, columns, part, options), strict=False)


def _paired(row: Row, first: Row, predictor: Predictor) -> tuple[Any, ...]:
    """Return the texts of a row: two if the first row has two, else one.

    Raises:
        DataError: if the row has a pair and the first row has none, or the other way round, or the
            task takes no pairs.
    """
    has_pair, is_paired = row.values[1] is not None, first.values[1] is not None
    if has_pair and not predictor.task.takes_pairs:
        kind = type(predictor.task).__name__
        raise DataError(
            f'{row.place}: a "pair", but a {kind} reads one text at a time. Remove "pair".'
        )
    if has_pair != is_paired:
        raise DataError(
            f'{row.place}: {"a" if has_pair else "no"} "pair", unlike the first line. Give all '
            "lines of a file one, or none."
        )
    return row.values if is_paired else row.values[:1]


def _answered(
    method: Callable[..., Any],
    values: list[tuple[Any, ...]],
    rows: list[Row],
    options: dict[str, Any],
) -> Iterator[Any]:
    """Answer rows together. If that fails, answer them one by one to find the wrong row.

    Raises:
        DataError: if the method refuses a row. The message names its place.
    """
    try:
        answers = method(*map(list, zip(*values, strict=True)), **options)
    except (TypeError, ValueError):
        for row_values, row in zip(values, rows, strict=True):
            try:
                (answer,) = method(*([value] for value in row_values), **options)
            except (TypeError, ValueError) as error:
                raise DataError(f"{row.place}: {error}") from error
            yield answer
    else:
        yield from answers


def plain(answer: Any) -> Any:
    """Return an answer as JSON values: dicts, lists, numbers and strings."""
    if isinstance(answer, list):
        return [plain(item) for item in answer]
    if dataclasses.is_dataclass(answer) and not isinstance(answer, type):
        values = dataclasses.asdict(answer)
        # JSON has no infinity, which is the null score of an empty context.
        return {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in values.items()
        }
    if isinstance(answer, np.ndarray | np.generic):
        return answer.tolist()
    return answer


# === Tables ===


_DIGITS = 6  # decimal places of probabilities
ENDINGS = (".csv", ".jsonl", ".tsv")
_DIALECTS: dict[str, Any] = {
    ".csv": {"dialect": "excel", "lineterminator": "\n"},
    ".tsv": {"dialect": "excel-tab", "lineterminator": "\n"},
}


def records(
    predictor: Predictor, rows: Iterable[Row], *, threshold: float = 0.5, **options: Any
) -> Iterator[dict[str, Any]]:
    """Yield a record (column -> value) for each row, with its values and its answer.

    A classifier adds "label", "score" and the probability of each label `x` as "p_x". A multi-label
    model has "labels" instead, those with a probability of at least `threshold`. Other tasks add
    "score", "entities", "fills" or "vector", or the fields of an `Answer` or a `Choice`.

    Args:
        predictor: predictor of the model.
        rows: rows for its task; see `predict_rows`.
        threshold: lowest probability of a label of a multi-label model.
        options: options of the predictor's method.

    Raises:
        DataError: if a row is not what the model needs. The message names its place.
    """
    task, keys = predictor.task, keys_of(predictor.task)
    is_labelled = features.LABEL in task.output
    problem = task.options.get("problem", "single_label") if is_labelled else None
    method = None
    if is_labelled and problem != REGRESSION:
        method, options = predictor.predict_scores, {}
    for row, answer in predict_rows(predictor, rows, method, **options):
        named = dict(zip(keys, row.values, strict=True))
        inputs = {name: value for name, value in named.items() if value is not None}
        if method is None:
            yield {**inputs, **_columns(answer)}
        else:
            yield {**inputs, **_labelled(answer, predictor.label_names, problem, threshold)}


def _labelled(scores: Any, names: list[str], problem: str | None, threshold: float) -> dict:
    """Return the columns of a classifier's answer, from its probabilities [classes]."""
    (best,) = labels(scores[None], names, problem, top_k=None, threshold=threshold)
    probabilities = {
        f"p_{name}": round(float(p), _DIGITS) for name, p in zip(names, scores, strict=True)
    }
    if isinstance(best, Label):
        return {"label": best.label, "score": round(best.score, _DIGITS), **probabilities}
    return {"labels": [label.label for label in best], **probabilities}


def _columns(answer: Any) -> dict[str, Any]:
    """Return the columns of an answer of another task."""
    values = plain(answer)
    if isinstance(values, dict):
        return values
    if not isinstance(values, list):
        return {"score": values}
    if not values or isinstance(values[0], dict):
        return {"fills" if values and isinstance(answer[0], Fill) else "entities": values}
    if isinstance(values[0], list):
        return {"fills": values}  # a list for each of several masks
    return {"score": values[0]} if len(values) == 1 else {"vector": values}


def require_new(path: Path, *, overwrite: bool) -> None:
    """Check that a file of predictions can be written.

    Raises:
        UsageError: if the ending is unknown, the path is a folder, or the file exists and
            `overwrite` is False.
    """
    if path.suffix.lower() not in ENDINGS:
        raise UsageError(f"out= must end with {', '.join(ENDINGS)}. Received: out={path}")
    if path.is_dir():
        raise UsageError(f"{path} is a folder. Choose a file with out=FILE.")
    if path.is_file() and not overwrite:
        raise UsageError(f"{path} exists. Choose another file, or give overwrite=true.")


def write(path: Path, rows: Iterable[dict[str, Any]]) -> int:
    """Write records to a .csv, .tsv or .jsonl file in UTF-8 and return their number.

    The columns of a table are those of the first record, and lists in it are JSON. The file appears
    only when all records are written.
    """
    written = 0
    with file_io.new_file(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        table: csv.DictWriter[str] | None = None
        for record in rows:
            if path.suffix.lower() == ".jsonl":
                text.write(f"{json.dumps(record, ensure_ascii=False, allow_nan=False)}\n")
            else:
                if table is None:
                    table = csv.DictWriter(text, list(record), **_DIALECTS[path.suffix.lower()])
                    table.writeheader()
                table.writerow({name: _cell(value) for name, value in record.items()})
            written += 1
        text.flush()
        text.detach()
    return written


def _cell(value: Any) -> Any:
    """Return the value of a table cell: lists and dicts as JSON."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value
