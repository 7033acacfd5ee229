"""The best answer among the logits of a question's rows (Devlin et al., 2019, §4.2 and §4.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bert_keras import features
from bert_keras.data.examples import Question
from bert_keras.data.model_inputs import EncodedTexts
from bert_keras.data.question_answering import question_rows
from bert_keras.data.sliding_windows import Pieces, Window
from bert_keras.inference.base import Answer, TextMethods, one_or_many
from bert_keras.inference.batching import Runner, check_texts, softmax

_STRIDE, _MAX_QUESTION = 128, 64  # pieces


def answers(
    runner: Runner,
    questions: Sequence[str],
    contexts: Sequence[str],
    *,
    null_threshold: float | None,
    stride: int,
    max_question: int,
    max_pieces: int,
    n_best: int,
) -> list[Answer]:
    """See `AnswerMethods.predict_answers`."""
    check_texts(questions=questions, contexts=contexts)
    if len(questions) != len(contexts):
        raise ValueError(
            "Every question needs one context. "
            f"Received: {len(questions)} questions, {len(contexts)} contexts"
        )
    for name, value in (("max_pieces", max_pieces), ("n_best", n_best)):
        if value < 1:
            raise ValueError(f"`{name}` must be at least 1. Received: {name}={value}")
    rows, windows, pieces = _rows(runner, questions, contexts, stride, max_question)
    found: list[list[Span]] = [[] for _ in questions]
    nulls = [float("inf")] * len(questions)
    for batch, outputs in runner.run(rows):
        for row, index in enumerate(batch):
            window = windows[index]
            start, end = (outputs[name][row] for name in (features.START, features.END))
            found[window.source] += best_spans(
                window, start, end, n_best=n_best, max_pieces=max_pieces
            )
            null = float(start[0]) + float(end[0])
            nulls[window.source] = min(nulls[window.source], null)
    return [
        best_answer(
            context,
            pieces[number],
            found[number],
            nulls[number],
            n_best=n_best,
            null_threshold=null_threshold,
        )
        for number, context in enumerate(contexts)
    ]


def _rows(
    runner: Runner,
    questions: Sequence[str],
    contexts: Sequence[str],
    stride: int,
    max_question: int,
) -> tuple[EncodedTexts, list[Window], list[Pieces]]:
    """Return the rows of questions with the parts of their contexts; see `question_rows`."""
    asked = [Question("", q, context) for q, context in zip(questions, contexts, strict=True)]
    return question_rows(
        runner.tokenizer,
        asked,
        max_length=runner.max_length,
        stride=stride,
        max_question=max_question,
    )


def row_logits(
    runner: Runner, questions: Sequence[str], contexts: Sequence[str]
) -> list[dict[str, list[np.ndarray]]]:
    """Return the logits of each question: {"start", "end": float32 [tokens] for each row}."""
    rows, windows, _ = _rows(runner, questions, contexts, _STRIDE, _MAX_QUESTION)
    names = (features.START, features.END)
    found = {name: [np.zeros(0, np.float32)] * len(rows) for name in names}
    for batch, outputs in runner.run(rows):
        for row, index in enumerate(batch):
            for name in names:
                values = outputs[name][row, : rows.lengths[index]]
                found[name][index] = values.astype(np.float32)
    results: list[dict[str, list[np.ndarray]]] = [{name: [] for name in names} for _ in questions]
    for index, window in enumerate(windows):
        for name in names:
            results[window.source][name].append(found[name][index])
    return results


@dataclass(frozen=True, slots=True)
class Span:
    """Pieces of a text, both ends included, and what they score."""

    first: int
    last: int
    logit: float


def best_spans(
    window: Window, start: np.ndarray, end: np.ndarray, *, n_best: int, max_pieces: int
) -> list[Span]:
    """The best spans of one row.

    A span begins where this row shows the most context, so that no piece is judged twice.

    Args:
        window: what the row shows.
        start: logits of the row;
        end: likewise.
        n_best: how many spans.
        max_pieces: of a span.
    """
    text = slice(window.offset, window.offset + window.count)
    firsts = np.flatnonzero(window.central)
    if not len(firsts):
        return []
    width = min(max_pieces, window.count)
    ends = np.append(end[text].astype(np.float64), np.full(width, -np.inf))
    # All spans, not those of the best starts and ends only, of which none may fit together.
    scores = start[text].astype(np.float64)[firsts, None] + ends[firsts[:, None] + np.arange(width)]
    flat = scores.ravel()
    best = np.argpartition(-flat, min(n_best, len(flat)) - 1)[:n_best]
    best = best[np.lexsort((best, -flat[best]))]
    found = []
    for place in best[np.isfinite(flat[best])].tolist():
        row, more = divmod(place, width)
        first = window.first + int(firsts[row])
        found.append(Span(first, first + more, float(flat[place])))
    return found


def best_answer(
    context: str,
    pieces: Pieces,
    spans: Sequence[Span],
    null_logit: float,
    *,
    n_best: int,
    null_threshold: float | None,
) -> Answer:
    """The best answer of all rows of a question.

    Args:
        context: the text.
        pieces: of the text.
        spans: of all its rows.
        null_logit: of no answer, the least of its rows.
        n_best: how many spans a probability is shared among.
        null_threshold: no answer is given where its logit is higher by more than this than the
            best span's; None always gives one where there is a span.
    """
    best: dict[tuple[int, int], float] = {}
    for span in sorted(spans, key=lambda span: (-span.logit, span.first, span.last)):
        place = int(pieces.starts[span.first]), int(pieces.ends[span.last])
        if place[0] < place[1]:  # else a piece of white space
            best.setdefault(place, span.logit)
        if len(best) == n_best:
            break
    shares = softmax(np.array([*best.values(), null_logit]))
    if not best:
        return Answer("", 0, 0, 1.0, float("inf"))
    (start, end), logit = next(iter(best.items()))
    null_score = null_logit - logit
    if null_threshold is not None and null_score > null_threshold:
        return Answer("", 0, 0, float(shares[-1]), null_score)
    return Answer(context[start:end], start, end, float(shares[0]), null_score)


class AnswerMethods(TextMethods):
    """Methods of models that find answers in texts."""

    @one_or_many("questions", "contexts")
    def predict_answers(
        self,
        questions: str | Sequence[str],
        contexts: str | Sequence[str],
        *,
        null_threshold: float | None = None,
        stride: int = _STRIDE,
        max_question: int = _MAX_QUESTION,
        max_pieces: int = 30,
        n_best: int = 20,
    ) -> Any:
        """Return the answer to each question in its context: context[start:end].

        Args:
            questions: the questions, or one question.
            contexts: the texts, of any length, or one text.
            null_threshold: no answer ("") is given where its logit is higher by more than this
                than that of the best span; None always gives a span.
            stride: pieces from one part of a context to the next.
            max_question: pieces of a question; the rest is cut.
            max_pieces: of an answer.
            n_best: answers that share a probability.

        Returns:
            An `Answer` for each question; without the list for one question.

        Raises:
            ValueError: a question leaves no room for the text, or a value is out of range.
        """
        self._require(features.START, "predict_answers")
        return answers(
            self._runner(),
            questions,
            contexts,
            null_threshold=null_threshold,
            stride=stride,
            max_question=max_question,
            max_pieces=max_pieces,
            n_best=n_best,
        )
