"""From questions with answers, and with choices, to what tasks train on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_keras.data.examples import Choices, Question
from bert_keras.data.labels import place_of
from bert_keras.data.rows import Rows, encode
from bert_keras.data.supervised import SupervisedExamples
from bert_keras.data.windows import Pieces, Window, question_windows
from bert_keras.errors import DataError
from bert_keras.features import CHOICE, END, START
from bert_keras.tokenizers import Tokenizer


def question_rows(
    tokenizer: Tokenizer,
    questions: Sequence[Question],
    *,
    max_length: int,
    stride: int,
    max_question: int,
) -> tuple[Rows, list[Window], list[Pieces]]:
    """Questions before the parts of their texts.

    Returns:
        The rows, what each of them shows, and the pieces of each question's text.
    """
    pieces: dict[str, Pieces] = {}
    windows: list[Window] = []
    for number, question in enumerate(questions):
        if question.context not in pieces:
            pieces[question.context] = Pieces.of(tokenizer, question.context)
        windows += question_windows(
            tokenizer,
            number,
            Pieces.of(tokenizer, question.question).ids[:max_question],
            pieces[question.context],
            max_length=max_length,
            stride=stride,
        )
    rows = Rows.of([w.ids for w in windows], [w.segments for w in windows], tokenizer.pad_id)
    return rows, windows, [pieces[question.context] for question in questions]


def question_examples(
    tokenizer: Tokenizer,
    questions: Sequence[Question],
    *,
    max_length: int = 384,
    stride: int = 128,
    max_question: int = 64,
    **options: Any,
) -> SupervisedExamples:
    """For a `QuestionAnswerer`: {"start", "end": int [B]}, 0 ([CLS]) where a row has no answer.

    Args:
        tokenizer: the model's.
        questions: with answers, of which the first counts. One without that is not impossible
            says nothing, and is left out.
        max_length: tokens of a row at most; a longer text becomes several rows.
        stride: pieces from one part of a text to the next.
        max_question: a longer question is cut.
        options: those of `SupervisedExamples`.

    Raises:
        DataError: no question has an answer or is impossible.
        ValueError: a question leaves no room for the text.
    """
    questions = [each for each in questions if each.answers or each.is_impossible]
    if not questions:
        raise DataError("The questions have no answers to train on.")
    rows, windows, pieces = question_rows(
        tokenizer, questions, max_length=max_length, stride=stride, max_question=max_question
    )
    spans = np.zeros((len(windows), 2), np.int32)
    for index, window in enumerate(windows):
        question = questions[window.source]
        if question.answers:
            spans[index] = _span(window, pieces[window.source], question)
    labels = {START: spans[:, 0], END: spans[:, 1]}
    return SupervisedExamples(rows, labels, **{"max_length": max_length, **options})


def _span(window: Window, pieces: Pieces, question: Question) -> tuple[int, int]:
    """Return the place of the answer in the row; (0, 0) where not all of it is there."""
    for answer in question.answers:
        stop = answer.start + len(answer.text)
        within = np.flatnonzero((pieces.ends > answer.start) & (pieces.starts < stop))
        if len(within):  # else it has only what the tokenizer leaves out
            break
    else:
        return 0, 0
    first, last = (int(piece) - window.first for piece in (within[0], within[-1]))
    if first < 0 or last >= window.count:
        return 0, 0
    return window.offset + first, window.offset + last


def choice_examples(
    tokenizer: Tokenizer, examples: Choices, *, max_length: int = 128, **options: Any
) -> SupervisedExamples:
    """For a `MultipleChoice`: {"choice": int [B]}; inputs [B, choices, T].

    Raises:
        DataError: no answers, or questions of unequally many choices.
    """
    if examples.answers is None or not len(examples):
        raise DataError("The choices have no answers to train on.")
    rows, size = choice_rows(tokenizer, examples, max_length=max_length)
    labels = {CHOICE: np.array(examples.answers, np.int32)}
    options = {"max_length": max_length, **options}
    return SupervisedExamples(rows, labels, group=size, **options)


def choice_rows(tokenizer: Tokenizer, examples: Choices, *, max_length: int) -> tuple[Rows, int]:
    """A row for every choice, and how many there are for each question, of which there is one.

    Without a prompt ("") the choice stands alone, not behind an empty text.

    Raises:
        DataError: questions of unequally many choices.
    """
    size = len(examples.options[0])
    for index, options in enumerate(examples.options):
        if len(options) != size:
            raise DataError(
                f"{place_of(examples.places, index)}: {len(options)} choices, where others have "
                f"{size}: all need equally many."
            )
    choices = [option for options in examples.options for option in options]
    prompts = [prompt for prompt in examples.prompts for _ in range(size)]
    alone = [number for number, prompt in enumerate(prompts) if not prompt]
    paired = [number for number, prompt in enumerate(prompts) if prompt]
    firsts, seconds = [prompts[n] for n in paired], [choices[n] for n in paired]
    rows = encode(tokenizer, firsts, seconds, max_length=max_length)
    if alone:
        single = encode(tokenizer, [choices[n] for n in alone], max_length=max_length)
        rows = rows.merged(single, np.argsort([*paired, *alone]))
    return rows, size
