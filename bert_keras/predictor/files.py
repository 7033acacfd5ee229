"""Files of rows to predict, and predictions as JSON lines and tables."""

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

TABLES = (".csv", ".tsv", ".tab", ".parquet")  # endings of tables; other files are lines
STANDARD_INPUT = "standard input"

_OBJECT = re.compile(r'\s*\{(\s*["}]|.*\}\s*$)')  # "{sic} and more" is a text


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
    """Return the names of a row's values for a task; a "pair" may be missing in all rows."""
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
        if keys == TEXT_PAIR:
            return Row(place, (line, None))
        raise DataError(
            f"{place}: expected a JSON object with {', '.join(names)}. Received: {line:.80}"
        )
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place}: not JSON: {error}. Received: {line:.80}") from None
    needed = names[:1] if keys == TEXT_PAIR else names
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
    if "options" in keys:
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
    is_paired = keys != TEXT_PAIR or bool(columns.get("pair"))
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


# === Answers for rows ===


_AT_ONCE = 1024  # rows, which bounds the memory


def predict_lines(
    predictor: Predictor, lines: Iterable[str], name: str, **options: Any
) -> Iterator[str]:
    """Answer each line, in order, with a line of JSON.

    Args:
        predictor: with the model.
        lines: a text each, or a JSON object: {"text", "pair"}, which a `SentencePairs` labels and
            whose similarity a `SentenceEncoder` gives; {"question", "context"} for a
            `QuestionAnswerer`; {"prompt", "options"} for a `MultipleChoice`.
        name: of the file, for messages.
        options: of the predictor's method, as `null_threshold` of `predict_answers`.

    Raises:
        DataError: a line that is not what the model needs; names it.
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
    """Answer rows, in order and some at a time.

    Args:
        predictor: with the model.
        rows: of values that its task needs; all texts have a pair, or none.
        method: called with columns of values; by default the predictor itself.
        options: of the method.

    Yields:
        Each row and its answer.

    Raises:
        DataError: a row that is not what the model needs; names its place.
    """
    rows, method = iter(rows), method or predictor
    first: Row | None = None  # of all: whether it has a pair counts for the others
    while part := list(islice(rows, _AT_ONCE)):
        first = first or part[0]
        if keys_of(predictor.task)[1] == "pair":
            columns = [_paired(row, first, predictor) for row in part]
        else:
            columns = [row.values for row in part]
        yield from zip(part, _answered(method, columns, part, options), strict=False)


def _paired(row: Row, first: Row, predictor: Predictor) -> tuple[Any, ...]:
    """Return the texts of a row: two where the first row has two, else one."""
    has_pair, is_paired = row.values[1] is not None, first.values[1] is not None
    if has_pair and not predictor.task.takes_pairs:
        kind = type(predictor.task).__name__
        raise DataError(f'{row.place}: a "pair", but a {kind} reads one text at a time.')
    if has_pair != is_paired:
        raise DataError(
            f'{row.place}: {"a" if has_pair else "no"} "pair", unlike the first line. Of a file '
            "all lines have one, or none."
        )
    return row.values if is_paired else row.values[:1]


def _answered(
    method: Callable[..., Any],
    values: list[tuple[Any, ...]],
    rows: list[Row],
    options: dict[str, Any],
) -> Iterator[Any]:
    """Answer rows together; where that fails, one by one up to the row that is at fault."""
    try:
        answers = method(*map(list, zip(*values, strict=True)), **options)
    except (TypeError, ValueError):
        for each, row in zip(values, rows, strict=True):
            try:
                (answer,) = method(*([value] for value in each), **options)
            except (TypeError, ValueError) as error:
                raise DataError(f"{row.place}: {error}") from error
            yield answer
    else:
        yield from answers


def plain(answer: Any) -> Any:
    """Return an answer in JSON's own kinds."""
    if isinstance(answer, list):
        return [plain(each) for each in answer]
    if dataclasses.is_dataclass(answer) and not isinstance(answer, type):
        values = dataclasses.asdict(answer)
        # JSON has no infinity, as the null score of an empty context is.
        return {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in values.items()
        }
    if isinstance(answer, np.ndarray | np.generic):
        return answer.tolist()
    return answer


# === Tables ===


_DIGITS = 6  # of probabilities
ENDINGS = (".csv", ".jsonl", ".tsv")
_DIALECTS: dict[str, Any] = {
    ".csv": {"dialect": "excel", "lineterminator": "\n"},
    ".tsv": {"dialect": "excel-tab", "lineterminator": "\n"},
}


def records(
    predictor: Predictor, rows: Iterable[Row], *, threshold: float = 0.5, **options: Any
) -> Iterator[dict[str, Any]]:
    """Predict rows and yield each with its answer, by column.

    A classifier's columns are text, label, score, and the probability of each label `x` as "p_x";
    of several labels "labels" has those at least as probable as `threshold`. Other tasks: score,
    entities, fills or vector; the fields of an `Answer` or a `Choice`.

    Args:
        predictor: with the model.
        rows: see `predict_rows`.
        threshold: of a model with several labels.
        options: of the predictor's method.

    Raises:
        DataError: a row that is not what the model needs; names its place.
    """
    task, keys = predictor.task, keys_of(predictor.task)
    is_labelled = features.LABEL in task.output
    problem = task.options.get("problem", "single_label") if is_labelled else None
    method = None
    if is_labelled and problem != REGRESSION:
        method, options = predictor.predict_scores, {}
    for row, answer in predict_rows(predictor, rows, method, **options):
        named = dict(zip(keys, row.values, strict=True))
        given = {name: value for name, value in named.items() if value is not None}
        if method is None:
            yield {**given, **_columns(answer)}
        else:
            yield {**given, **_labelled(answer, predictor.label_names, problem, threshold)}


def _labelled(scores: Any, names: list[str], problem: str | None, threshold: float) -> dict:
    """Return the columns of a classifier's answer."""
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
        return {"fills": values}  # of several masks
    return {"score": values[0]} if len(values) == 1 else {"vector": values}


def require_new(path: Path, *, overwrite: bool) -> None:
    """Refuse a file that cannot be written, or that is there already.

    Raises:
        UsageError: so it is.
    """
    if path.suffix.lower() not in ENDINGS:
        raise UsageError(f"out= must end with {', '.join(ENDINGS)}. Received: out={path}")
    if path.is_dir():
        raise UsageError(f"{path} is a folder. Choose a file with out=FILE.")
    if path.is_file() and not overwrite:
        raise UsageError(f"{path} exists. Choose another file, or give overwrite=true.")


def write(path: Path, rows: Iterable[dict[str, Any]]) -> int:
    """Write records to a file by its ending: .csv, .tsv or .jsonl, in UTF-8; return their number.

    A table's columns are those of the first record; lists in it are JSON. The file appears when
    all is written.
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
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value
