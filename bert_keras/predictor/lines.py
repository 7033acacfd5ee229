"""Answers for lines of text, as lines of JSON: what `bert-keras predict` reads and writes."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np

from bert_keras.errors import DataError
from bert_keras.models import MultipleChoice, QuestionAnswerer
from bert_keras.predictor.predictor import Predictor

_AT_ONCE = 1024  # lines, which bounds the memory
# Keys of a line that is an object: those that must be there, by the class of the task.
_KEYS = {QuestionAnswerer: ("question", "context"), MultipleChoice: ("prompt", "options")}
_TEXT = ("text", "pair")  # of the others; the second may be missing in all lines


def predict_lines(predictor: Predictor, lines: Iterable[str], name: str) -> Iterator[str]:
    """Answers each line, in order, with a line of JSON.

    Args:
        predictor: with the model.
        lines: a text each, or a JSON object: {"text", "pair"}, which a `SentencePairs` labels and
            whose similarity a `SentenceEncoder` gives; {"question", "context"} for a
            `QuestionAnswerer`; {"prompt", "options"} for a `MultipleChoice`.
        name: of the file, for messages.

    Raises:
        DataError: a line that is not what the model needs; names it.
    """
    keys = _KEYS.get(type(predictor.task), _TEXT)
    numbered = enumerate(lines, 1)
    while part := list(islice(numbered, _AT_ONCE)):
        rows = [_parse(line.rstrip("\r\n"), keys, f"{name}:{number}") for number, line in part]
        columns: list[Any] = [list(column) for column in zip(*rows, strict=True)]
        if keys is _TEXT:
            missing = [
                number for (number, _), row in zip(part, rows, strict=True) if row[1] is None
            ]
            if 0 < len(missing) < len(rows):
                raise DataError(f'{name}:{missing[0]}: no "pair", which other lines have.')
            if missing:
                del columns[1]
        try:
            answers = predictor(*columns)
        except (TypeError, ValueError) as error:
            raise DataError(f"{name}, lines {part[0][0]} to {part[-1][0]}: {error}") from error
        for answer in answers:
            yield json.dumps(_plain(answer), ensure_ascii=False, allow_nan=False)


def _parse(line: str, keys: tuple[str, ...], place: str) -> tuple[Any, ...]:
    if not line.lstrip().startswith("{"):
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
