"""Answers for lines of text, as lines of JSON: what `bert-keras predict` reads and writes."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np

from bert_keras.errors import DataError
from bert_keras.models import (
    MultipleChoice,
    QuestionAnswerer,
    SentenceEncoder,
    SentencePairs,
    SequenceClassifier,
)
from bert_keras.predictor.predictor import Predictor

_OBJECT = re.compile(r'\s*\{(\s*["}]|.*\}\s*$)')  # "{sic} and more" is a text
_AT_ONCE = 1024  # lines, which bounds the memory
# Keys of a line that is an object: those that must be there, by the class of the task.
_KEYS = {QuestionAnswerer: ("question", "context"), MultipleChoice: ("prompt", "options")}
_TEXT = ("text", "pair")  # of the others; the second may be missing in all lines
_OF_PAIRS = (SequenceClassifier, SentencePairs, SentenceEncoder)


def predict_lines(
    predictor: Predictor, lines: Iterable[str], name: str, **options: Any
) -> Iterator[str]:
    """Answers each line, in order, with a line of JSON.

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
    keys = _KEYS.get(type(predictor.task), _TEXT)
    numbered = enumerate(lines, 1)
    first: tuple[Any, ...] = ()  # line of all: whether it has a pair counts for the others
    while part := list(islice(numbered, _AT_ONCE)):
        places = [f"{name}:{number}" for number, _ in part]
        rows = [
            _parse(line.rstrip("\r\n"), keys, place)
            for (_, line), place in zip(part, places, strict=True)
        ]
        first = first or rows[0]
        if keys is _TEXT:
            rows = [
                _paired(row, first, predictor, place)
                for row, place in zip(rows, places, strict=True)
            ]
        for answer in _answered(predictor, rows, places, options):
            yield json.dumps(_plain(answer), ensure_ascii=False, allow_nan=False)


def _paired(
    row: tuple[Any, ...], first: tuple[Any, ...], predictor: Predictor, place: str
) -> tuple[Any, ...]:
    """The texts of a line: two where the first line has two, else one."""
    has_pair, is_paired = row[1] is not None, first[1] is not None
    if has_pair and not isinstance(predictor.task, _OF_PAIRS):
        kind = type(predictor.task).__name__
        raise DataError(f'{place}: a "pair", but a {kind} reads one text at a time.')
    if has_pair != is_paired:
        raise DataError(
            f'{place}: {"a" if has_pair else "no"} "pair", unlike the first line. Of a file all '
            "lines have one, or none."
        )
    return row if is_paired else row[:1]


def _answered(
    predictor: Predictor, rows: list[Any], places: list[str], options: Mapping[str, Any]
) -> Iterator[Any]:
    """Answers for lines together; where that fails, one by one up to the line that is at fault."""
    try:
        answers = predictor(*map(list, zip(*rows, strict=True)), **options)
    except (TypeError, ValueError):
        for row, place in zip(rows, places, strict=True):
            try:
                (answer,) = predictor(*([value] for value in row), **options)
            except (TypeError, ValueError) as error:
                raise DataError(f"{place}: {error}") from error
            yield answer
    else:
        yield from answers


def _parse(line: str, keys: tuple[str, ...], place: str) -> tuple[Any, ...]:
    if not _OBJECT.match(line):
        if keys is _TEXT:
            return line, None
        raise DataError(
            f"{place}: expected a JSON object with {', '.join(keys)}. Received: {line:.80}"
        )
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place}: not JSON: {error}. Received: {line:.80}") from None
    needed = keys[:1] if keys is _TEXT else keys
    if missing := [key for key in needed if key not in values]:
        raise DataError(f"{place}: no {missing[0]!r}. Received: {list(values)}")
    found = tuple(values.get(key) for key in keys)
    for key, value in zip(keys, found, strict=True):
        is_texts = isinstance(value, list) and all(isinstance(each, str) for each in value)
        is_right = is_texts if key == "options" else isinstance(value, str)
        if not is_right and not (key == "pair" and value is None):
            raise DataError(f"{place}: {key!r} must be text. Received: {value!r:.80}")
    return found


def _plain(answer: Any) -> Any:
    """An answer in JSON's own kinds."""
    if isinstance(answer, list):
        return [_plain(each) for each in answer]
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
