"""Answers to questions, as callers of `fit` hand them over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

from bert_keras.data import Answer
from bert_keras.errors import DataError


def answers_from(y: Any, contexts: Sequence[str]) -> list[tuple[Answer, ...]]:
    """Return the answers of each question; () where it has none.

    Args:
        y: for each question its answer: the text, which is looked for in the context; a pair
            (text, first character); a `data.Answer`; {"text": [...], "answer_start": [...]} of
            Hugging Face's SQuAD; a list of these; or "" for none.
        contexts: of the questions.

    Raises:
        DataError: no answers, not one for each question, or one that is not in its context at its
            place; names the row.
    """
    if y is None:
        raise DataError("The questions have no answers. Pass y, one answer for each question.")
    rows = list(y)
    if len(rows) != len(contexts):
        raise DataError(f"y: {len(rows)} answers for {len(contexts)} questions.")
    return [
        _answers(value, context, row)
        for row, (value, context) in enumerate(zip(rows, contexts, strict=True))
    ]


def _answers(value: Any, context: str, row: int) -> tuple[Answer, ...]:
    if isinstance(value, Answer):
        return (_placed(value.text, value.start, context, row),)
    if isinstance(value, str):
        if not value:
            return ()
        start = context.find(value)
        if start < 0:
            raise DataError(f"y: row {row} has the answer {value!r}, which its context has not.")
        return (Answer(value, start),)
    if isinstance(value, Mapping) and {"text", "answer_start"} <= set(value):
        texts, starts = value["text"], value["answer_start"]
        if isinstance(texts, str) or not hasattr(starts, "__len__") or len(texts) != len(starts):
            raise DataError(
                f"y: row {row} needs as many answers as places, in lists. Received: {value!r:.100}"
            )
        pairs = zip(texts, starts, strict=True)
        return tuple(_placed(text, start, context, row) for text, start in pairs)
    if isinstance(value, tuple) and len(value) == 2 and not isinstance(value[1], str | tuple):
        return (_placed(*value, context, row),)
    if isinstance(value, Sequence):
        return tuple(answer for each in value for answer in _answers(each, context, row))
    raise DataError(
        f"y: row {row} is no answer. Received: {value!r:.100}. Pass the text of the answer, or "
        "(text, first character)."
    )


def _placed(text: Any, start: Any, context: str, row: int) -> Answer:
    """Return an answer that stands in its context at its place."""
    is_whole = isinstance(start, Integral) and not isinstance(start, bool)
    if not isinstance(text, str) or not is_whole:
        raise DataError(
            f"y: row {row} needs an answer and its first character, a whole number. "
            f"Received: {text!r:.100}, {start!r:.100}"
        )
    begin = int(start)
    if begin < 0 or not text or not context.startswith(text, begin):
        there = context[max(0, begin) : max(0, begin) + len(text)]
        raise DataError(
            f"y: row {row} has the answer {text!r:.100} at character {begin}, where its context "
            f"has {there!r:.100}."
        )
    return Answer(text, begin)
