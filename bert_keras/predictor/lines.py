"""Answers for rows, in order and in parts; lines of text to lines of JSON."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np

from bert_keras.errors import DataError
from bert_keras.models import SentenceEncoder, SentencePairs, SequenceClassifier
from bert_keras.predictor.inputs import Row, keys_of, line_rows
from bert_keras.predictor.predictor import Predictor

_AT_ONCE = 1024  # rows, which bounds the memory
_OF_PAIRS = (SequenceClassifier, SentencePairs, SentenceEncoder)


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
    if has_pair and not isinstance(predictor.task, _OF_PAIRS):
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
