"""Extractive question answering: the best span of a context (Devlin et al., 2019, §4.2, §4.3).

A long context is read in several overlapping windows, each in a row of its own. Answers from
several contexts are compared by their logits, as answers from several windows are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bert_keras import features
from bert_keras.data.columns import texts_of
from bert_keras.data.examples import Question
from bert_keras.data.model_inputs import EncodedTexts
from bert_keras.data.question_answering import question_rows
from bert_keras.data.sliding_windows import Pieces, Window
from bert_keras.inference.base import Answer, TextMethods, one_or_many
from bert_keras.inference.batching import Runner, check_texts, softmax

_STRIDE, MAX_QUESTION = 128, 64  # pieces
_N_BEST = 20  # spans of a window


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
    top_k: int | None = None,
) -> list[Any]:
    """Return the answers to each question; see `AnswerMethods.predict_answers`."""
    check_texts(questions=questions, contexts=contexts)
    if len(questions) != len(contexts):
        raise ValueError(
            "Every question needs one context. Pass columns of the same length. "
            f"Received: {len(questions)} questions, {len(contexts)} contexts"
        )
    _check_counts(max_pieces=max_pieces, n_best=n_best, top_k=top_k)
    sizes = {"stride": stride, "max_question": max_question, "max_pieces": max_pieces}
    found = _candidates(runner, questions, contexts, n_best=n_best, **sizes)
    ranked = [
        ranked_answers(context, *each, n_best=n_best, null_threshold=null_threshold)
        for context, each in zip(contexts, found, strict=True)
    ]
    return [row[0] if top_k is None else row[:top_k] for row in ranked]


def _check_counts(**counts: int | None) -> None:
    """Raise `ValueError` if a number is below 1. None stands for no number."""
    for name, value in counts.items():
        if value is not None and value < 1:
            raise ValueError(f"`{name}` must be at least 1. Received: {name}={value}")


def _candidates(
    runner: Runner,
    questions: Sequence[str],
    contexts: Sequence[str],
    *,
    stride: int,
    max_question: int,
    max_pieces: int,
    n_best: int,
) -> list[_Candidates]:
    """Return for each question the pieces of its context, its best spans and its null logit.

    The spans are the `n_best` best of each window. The span from [CLS] to [CLS] means "no answer";
    the null logit is the lowest one of all windows.
    """
    rows, windows, pieces = _rows(runner, questions, contexts, stride, max_question)
    spans: list[list[Span]] = [[] for _ in questions]
    null_logits = [float("inf")] * len(questions)
    for batch, outputs in runner.run(rows):
        for row, index in enumerate(batch):
            window = windows[index]
            start, end = (outputs[name][row] for name in (features.START, features.END))
            spans[window.source] += best_spans(
                window, start, end, n_best=n_best, max_pieces=max_pieces
            )
            null_logit = float(start[0]) + float(end[0])
            null_logits[window.source] = min(null_logits[window.source], null_logit)
    return list(zip(pieces, spans, null_logits, strict=True))


def _rows(
    runner: Runner,
    questions: Sequence[str],
    contexts: Sequence[str],
    stride: int,
    max_question: int,
) -> tuple[EncodedTexts, list[Window], list[Pieces]]:
    """Encode questions with their contexts; `question_rows` describes the result."""
    examples = [Question("", q, context) for q, context in zip(questions, contexts, strict=True)]
    encoded = question_rows(
        runner.tokenizer,
        examples,
        max_length=runner.max_length,
        stride=stride,
        max_question=max_question,
    )
    words = {"noun": "questions", "advice": "A larger max_question reads more."}
    runner.tell_cut(encoded[0].num_cut, len(examples), max_question, **words)
    return encoded


def row_logits(
    runner: Runner, questions: Sequence[str], contexts: Sequence[str]
) -> list[dict[str, list[np.ndarray]]]:
    """Return the logits of each question.

    Returns:
        For each question: "start" and "end" -> an array float32 [tokens] for each of its rows.
    """
    rows, windows, _ = _rows(runner, questions, contexts, _STRIDE, MAX_QUESTION)
    names = (features.START, features.END)
    logits = {name: [np.zeros(0, np.float32)] * len(rows) for name in names}
    for batch, outputs in runner.run(rows):
        for row, index in enumerate(batch):
            for name in names:
                values = outputs[name][row, : rows.lengths[index]]
                logits[name][index] = values.astype(np.float32)
    results: list[dict[str, list[np.ndarray]]] = [{name: [] for name in names} for _ in questions]
    for index, window in enumerate(windows):
        for name in names:
            results[window.source][name].append(logits[name][index])
    return results


@dataclass(frozen=True, slots=True)
class Span:
    """A candidate answer: its first and last piece in the context, and its logit."""

    first: int
    last: int
    logit: float


_Candidates = tuple[Pieces, Sequence[Span], float]  # of a context; the last is its null logit


def best_spans(
    window: Window, start: np.ndarray, end: np.ndarray, *, n_best: int, max_pieces: int
) -> list[Span]:
    """Return the best spans of one row.

    Rows overlap. A span counts only in the row that shows its first piece with the most context, so
    that no span is scored twice.

    Args:
        window: the part of the context in this row.
        start: logits that an answer starts at each token, [tokens].
        end: logits that an answer ends at each token, [tokens].
        n_best: number of spans to return.
        max_pieces: maximum number of pieces of a span.
    """
    text = slice(window.offset, window.offset + window.count)
    firsts = np.flatnonzero(window.central)
    if not len(firsts):
        return []
    width = min(max_pieces, window.count)
    ends = np.append(end[text].astype(np.float64), np.full(width, -np.inf))
    # [firsts, width]: all spans are scored. The best starts and ends alone might not fit together.
    scores = start[text].astype(np.float64)[firsts, None] + ends[firsts[:, None] + np.arange(width)]
    flat = scores.ravel()
    best = np.argpartition(-flat, min(n_best, len(flat)) - 1)[:n_best]
    best = best[np.lexsort((best, -flat[best]))]
    spans = []
    for place in best[np.isfinite(flat[best])].tolist():
        row, more = divmod(place, width)
        first = window.first + int(firsts[row])
        spans.append(Span(first, first + more, float(flat[place])))
    return spans


def ranked_answers(
    context: str,
    pieces: Pieces,
    spans: Sequence[Span],
    null_logit: float,
    *,
    n_best: int,
    null_threshold: float | None,
) -> list[Answer]:
    """Return the best answers among the spans of all rows of a question, the best first.

    Args:
        context: text of the context.
        pieces: pieces of the context with their character positions.
        spans: best spans of all rows.
        null_logit: lowest logit of "no answer" over all rows.
        n_best: number of spans in the softmax that gives the probability.
        null_threshold: begin with no answer if its logit exceeds that of the best span by more than
            this. None leaves it out, if there is a span.
    """
    ranked = _ranked([context], [(pieces, spans, null_logit)], n_best, null_threshold)
    return [Answer(a.text, a.start, a.end, a.score, a.null_score) for a in ranked]


@dataclass(frozen=True, slots=True)
class RankedAnswer(Answer):
    """An answer that was found in one of several contexts.

    Attributes:
        index: index of its context; None for no answer.
    """

    index: int | None


def _ranked(
    contexts: Sequence[str],
    candidates: Sequence[_Candidates],
    n_best: int,
    null_threshold: float | None,
) -> list[RankedAnswer]:
    """Return the `n_best` best answers from each context, the best of all first.

    Their probabilities, and that of no answer, are one softmax of the logits.
    """
    best = [
        (logit, index, place)
        for index, (pieces, spans, _) in enumerate(candidates)
        for place, logit in _best_places(pieces, spans, n_best).items()
    ]
    if not best:
        return [RankedAnswer("", 0, 0, 1.0, float("inf"), None)]
    best.sort(key=lambda candidate: -candidate[0])
    null_logit = min(logit for _, _, logit in candidates)
    shares = softmax(np.array([*(logit for logit, _, _ in best), null_logit])).tolist()
    null_score = null_logit - best[0][0]
    ranked = [
        RankedAnswer(contexts[index][start:end], start, end, share, null_score, index)
        for (_, index, (start, end)), share in zip(best, shares[:-1], strict=True)
    ]
    if null_threshold is not None and null_score > null_threshold:
        return [RankedAnswer("", 0, 0, shares[-1], null_score, None), *ranked]
    return ranked


def _best_places(
    pieces: Pieces, spans: Sequence[Span], n_best: int
) -> dict[tuple[int, int], float]:
    """Return (start, end) in characters -> logit of the best different spans, the best first."""
    best: dict[tuple[int, int], float] = {}
    for span in sorted(spans, key=lambda span: (-span.logit, span.first, span.last)):
        place = int(pieces.starts[span.first]), int(pieces.ends[span.last])
        if place[0] < place[1]:  # a piece of white space is empty
            best.setdefault(place, span.logit)
        if len(best) == n_best:
            break
    return best


class AnswerMethods(TextMethods):
    """Prediction methods of question answering models."""

    @one_or_many("questions", "contexts")
    def predict_answers(
        self,
        questions: str | Sequence[str],
        contexts: str | Sequence[str],
        *,
        null_threshold: float | None = None,
        stride: int = _STRIDE,
        max_question: int = MAX_QUESTION,
        max_pieces: int = 30,
        n_best: int = _N_BEST,
        top_k: int | None = None,
    ) -> Any:
        """Return the answer to each question: a span of its context, or no answer.

        Lengths are in pieces, the tokens of the tokenizer. The logit of a span is the sum of its
        start and end logits. The logit of "no answer" is that sum at [CLS], the lowest of all
        windows.

        Args:
            questions: questions, or one question.
            contexts: contexts of any length, as many as questions, or one context.
            null_threshold: return no answer ("") if `Answer.null_score` exceeds this. None returns
                the best span, if there is one.
            stride: doc stride: number of pieces from the start of one window of a long context
                to the start of the next. In Hugging Face the stride is the overlap instead.
            max_question: maximum number of pieces of a question; the rest is truncated.
            max_pieces: maximum number of pieces of an answer.
            n_best: number of best spans in the softmax that gives `Answer.score`.
            top_k: number of answers to each question, the best first; None for one.

        Returns:
            An `Answer` for each question, or with `top_k` a list of them; for one question, its
            entry alone. An answer has `text`, `start`
            and `end` (characters of the context), and `score` (a probability). `null_score` is
            the logit of "no answer" minus the logit of the best span.

        Raises:
            ValueError: if the model has no span head, a question leaves no room for the context,
                a value is out of range, or the columns differ in length.
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
            top_k=top_k,
        )

    def rank_answers(
        self,
        question: str,
        contexts: Sequence[str],
        *,
        per_context: int = 1,
        top_k: int | None = None,
        null_threshold: float | None = None,
        stride: int = _STRIDE,
        max_question: int = MAX_QUESTION,
        max_pieces: int = 30,
    ) -> list[RankedAnswer]:
        """Return the best answers to one question from several contexts, the best first.

        The answers from a context are those of `predict_answers`. Answers from different contexts
        are compared by their logits, without a softmax in each context (Yang et al., 2019, §3.2).

        Args:
            question: the question.
            contexts: texts of any length, such as the best documents of `rank`.
            per_context: number of best answers from each context.
            top_k: number of answers to return; None for all.
            null_threshold: begin with no answer ("") if `RankedAnswer.null_score` exceeds this.
                None leaves it out, if there is an answer.
            stride: doc stride; see `predict_answers`.
            max_question: maximum number of pieces of the question; the rest is truncated.
            max_pieces: maximum number of pieces of an answer.

        Returns:
            A list of `RankedAnswer`, with `index` of the context. `score` is the probability among
            the answers from all contexts and no answer. `null_score` is the lowest logit of "no
            answer" in all contexts minus the logit of the best answer.

        Raises:
            TypeError: the question is not one text.
            ValueError: see `predict_answers`.
        """
        self._require(features.START, "rank_answers")
        if not isinstance(question, str):
            raise TypeError(
                "`question` must be one text, and `contexts` a list of them. Call `rank_answers` "
                f"for each question. Received: a {type(question).__name__}"
            )
        _check_counts(max_pieces=max_pieces, per_context=per_context, top_k=top_k)
        contexts = texts_of("contexts", contexts)
        if not contexts:
            return []
        sizes = {"stride": stride, "max_question": max_question, "max_pieces": max_pieces}
        questions = [question] * len(contexts)
        n_best = max(per_context, _N_BEST)  # spans of white space do not count
        found = _candidates(self._runner(), questions, contexts, n_best=n_best, **sizes)
        return _ranked(contexts, found, per_context, null_threshold)[:top_k]
