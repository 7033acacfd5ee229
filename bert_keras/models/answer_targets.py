"""Answers to questions, as callers of `fit` hand them over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
        DataError: no answers, not one for each question, or one that is not in its context.
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
        return (value,)
    if isinstance(value, str):
        if not value:
            return ()
        start = context.find(value)
        if start < 0:
            raise DataError(f"y: row {row} has the answer {value!r}, which its context has not.")
        return (Answer(value, start),)
    if isinstance(value, Mapping) and {"text", "answer_start"} <= set(value):
        pairs = zip(value["text"], value["answer_start"], strict=True)
        return tuple(Answer(str(text), int(start)) for text, start in pairs)
    if isinstance(value, tuple) and len(value) == 2 and not isinstance(value[1], str):
        return (Answer(str(value[0]), int(value[1])),)
    if isinstance(value, Sequence):
        return tuple(answer for each in value for answer in _answers(each, context, row))
    raise DataError(
        f"y: row {row} is no answer. Received: {value!r:.100}. Pass the text of the answer, or "
        "(text, first character)."
    )
