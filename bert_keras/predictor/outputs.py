"""Predictions as tables: the values of a row, the answer and its probabilities, in CSV or JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from bert_keras import atomic
from bert_keras.errors import UsageError
from bert_keras.inference import Fill, Label
from bert_keras.inference.text_classification import REGRESSION, labels
from bert_keras.models import SentencePairs, SequenceClassifier
from bert_keras.predictor.inputs import Row, keys_of
from bert_keras.predictor.lines import plain, predict_rows
from bert_keras.predictor.predictor import Predictor

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
    is_labelled = isinstance(task, SequenceClassifier | SentencePairs) and "label" in task.output
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
    with atomic.new_file(path) as file:
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
