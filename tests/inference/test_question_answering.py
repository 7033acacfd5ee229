"""Question answering: the best answer is the best span over all windows of a context."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_keras.data.examples import Question
from bert_keras.data.question_answering import question_rows
from bert_keras.data.sliding_windows import Pieces, Window
from bert_keras.errors import DataError
from bert_keras.inference.question_answering import (
    RankedAnswer,
    Span,
    best_spans,
    ranked_answers,
)
from bert_keras.predictor import Answer, Predictor
from tests.contracts import MAY_CUT

CONTEXT = "the world wanted 中国 and hello unaffable, the un wanted mask. Ünñ a world"
QUESTIONS = ["hello mask?", "a", "un wanted world the hello a b c", ""]
CONTEXTS = [CONTEXT, "un", CONTEXT[::-1] + CONTEXT, "Hello\u3000wanted!"]


def window_of(central: list[bool], offset: int = 0, first: int = 0) -> Window:
    return Window(0, [], [], offset, first, len(central), np.array(central, bool))


@settings(max_examples=300, deadline=None)
@given(data=st.data(), count=st.integers(0, 9), n_best=st.integers(1, 90))
def test_spans_are_the_best_of_all(data: st.DataObject, count: int, n_best: int) -> None:
    max_pieces = data.draw(st.integers(1, 12))
    central = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
    seed = data.draw(st.integers(0, 99))
    start, end = np.random.default_rng(seed).normal(size=(2, count + 5)).astype(np.float32)
    window = window_of(central, offset=3, first=40)
    found = best_spans(window, start, end, n_best=n_best, max_pieces=max_pieces)
    every = [
        Span(40 + i, 40 + j, float(start[3 + i]) + float(end[3 + j]))
        for i in range(count)
        for j in range(i, min(i + max_pieces, count))
        if central[i]
    ]
    assert found == sorted(every, key=lambda span: -span.logit)[:n_best]


def test_a_span_is_found_where_the_best_starts_and_ends_do_not_fit() -> None:
    # Each of the best starts comes after each of the best ends.
    start = np.arange(60, dtype=np.float32)
    found = best_spans(window_of([True] * 60), start, -start, n_best=5, max_pieces=2)
    assert len(found) == 5
    assert {span.logit for span in found} == {0.0}


PIECES = Pieces(np.arange(4), np.array([0, 4, 8, 9]), np.array([3, 7, 8, 12]))
WORDS = "one two thr."


def answer(spans: list[Span], null: float, threshold: float | None = None, n_best: int = 9):
    return ranked_answers(WORDS, PIECES, spans, null, n_best=n_best, null_threshold=threshold)[0]


def test_the_best_span_of_all_rows() -> None:
    spans = [Span(0, 0, 1.0), Span(0, 1, 2.0), Span(0, 1, 1.5), Span(3, 3, -1.0)]
    found = answer(spans, 0.5)
    shares = np.exp([2.0, 1.0, -1.0, 0.5])  # a span found in two windows counts once
    assert (found.text, found.start, found.end) == ("one two", 0, 7)
    assert found.score == pytest.approx(shares[0] / shares.sum(), abs=1e-6)
    assert found.null_score == -1.5
    few = answer(spans, 0.5, n_best=1)
    assert few.score == pytest.approx(1 / (1 + np.exp(-1.5)), abs=1e-6)


def test_no_answer_where_its_logit_is_higher_by_more_than_the_threshold() -> None:
    spans = [Span(0, 0, 1.0)]
    assert answer(spans, 1.5, threshold=0.5).text == "one"
    none = answer(spans, 1.5, threshold=0.25)
    assert (none.text, none.start, none.end, none.null_score) == ("", 0, 0, 0.5)
    assert none.score == pytest.approx(1 / (1 + np.exp(-0.5)), abs=1e-6)
    assert answer(spans, 9.0).text == "one"


def test_no_spans_and_white_space() -> None:
    nothing = Answer("", 0, 0, 1.0, float("inf"))
    assert answer([], 3.0) == answer([Span(2, 2, 9.0)], 3.0) == nothing
    assert answer([Span(2, 2, 9.0), Span(1, 1, 0.0)], 3.0).text == "two"


def brute_force(task, tokenizer, question: str, context: str, **options: Any):
    """Score every span of every window by itself.

    Return the best two, and the logit of no answer.
    """
    sizes = {"max_length": 32, "max_question": options["max_question"]}
    rows, windows, (pieces,) = question_rows(
        tokenizer, [Question("", question, context)], stride=options["stride"], **sizes
    )
    scores: dict[tuple[int, int], float] = {}
    nulls = []
    for number, window in enumerate(windows):
        outputs = task.predict_on_batch(rows.inputs(np.array([number]), len(rows[number])))
        start, end = (outputs[name][0].astype(np.float64) for name in ("start", "end"))
        nulls.append(start[0] + end[0])
        for i in range(window.count):
            for j in range(i, min(window.count, i + options["max_pieces"])):
                if window.central[i]:
                    score = start[window.offset + i] + end[window.offset + j]
                    scores[window.first + i, window.first + j] = score
    best = sorted(scores, key=lambda place: -scores[place])[:2]
    return [(pieces.starts[i], pieces.ends[j], scores[i, j]) for i, j in best], min(nulls)


@pytest.mark.parametrize("max_pieces", [1, 4, 30])
@pytest.mark.parametrize("stride", [5, 128])
@MAY_CUT
def test_answers_are_the_best_of_all(task, tokenizer, max_pieces: int, stride: int) -> None:
    model = task("answers")
    options = {"stride": stride, "max_question": 6, "max_pieces": max_pieces}
    predictor = Predictor(model, tokenizer, batch_size=3)
    found = predictor.predict_answers(QUESTIONS, CONTEXTS, **options)
    for question, context, each in zip(QUESTIONS, CONTEXTS, found, strict=True):
        best, null = brute_force(model, tokenizer, question, context, **options)
        # Otherwise both answers would be correct.
        assert len(best) < 2 or best[0][2] - best[1][2] > 1e-4
        assert (each.start, each.end) == best[0][:2]
        assert each.text == context[each.start : each.end] != ""
        assert each.null_score == pytest.approx(null - best[0][2], abs=1e-4)
        assert 0 < each.score < 1


def test_a_threshold_between_two_scores_parts_them(task, tokenizer) -> None:
    """A question has no answer if its `null_score` exceeds the threshold."""
    predictor = Predictor(task("answers"), tokenizer)
    scores = [each.null_score for each in predictor(QUESTIONS, CONTEXTS)]
    threshold = sum(sorted(scores)[1:3]) / 2
    found = predictor.predict_answers(QUESTIONS, CONTEXTS, null_threshold=threshold)
    assert [each.text == "" for each in found] == [score > threshold for score in scores]
    assert [each.null_score for each in found] == scores


def logit_of(task, tokenizer, question: str, context: str, best: Answer) -> float:
    """Return the logit of the best span of a context, scored by itself."""
    options = {"stride": 128, "max_question": 64, "max_pieces": 30}
    ((start, end, logit), *_), _ = brute_force(task, tokenizer, question, context, **options)
    assert (start, end) == (best.start, best.end)
    return logit


def test_answers_from_several_contexts(task, tokenizer) -> None:
    """The best answer of each context is its own, and all are ordered by their logits."""
    model, question = task("answers"), "un wanted"
    contexts = ["", *CONTEXTS, "the mask", "a world"]
    predictor = Predictor(model, tokenizer, batch_size=3)
    found = predictor.rank_answers(question, contexts)
    places = [-1 if answer.index is None else answer.index for answer in found]
    assert sorted(places) == [1, 2, 3, 4, 5, 6]
    alone = predictor.predict_answers([question] * len(contexts), contexts)
    for place, answer in zip(places, found, strict=True):
        expected = alone[place]
        assert (answer.text, answer.start, answer.end) == (
            expected.text,
            expected.start,
            expected.end,
        )
    logits = [
        logit_of(model, tokenizer, question, contexts[place], answer)
        for place, answer in zip(places, found, strict=True)
    ]
    assert logits == sorted(logits, reverse=True)
    nulls = [alone[a.index].null_score + logit for a, logit in zip(found, logits, strict=True)]
    shares = np.exp([*logits, min(nulls)])
    np.testing.assert_allclose([a.score for a in found], shares[:-1] / shares.sum(), atol=1e-5)
    assert {answer.null_score for answer in found} == {found[0].null_score}
    assert found[0].null_score == pytest.approx(min(nulls) - logits[0], abs=1e-4)
    assert predictor.rank_answers(question, contexts, top_k=2) == found[:2]


def test_several_answers_from_each_context(task, tokenizer) -> None:
    predictor = Predictor(task("answers"), tokenizer)
    question, contexts = "a", CONTEXTS[::-1]
    found = predictor.rank_answers(question, contexts, per_context=3)
    alone = predictor.predict_answers([question] * len(contexts), contexts, top_k=3)
    for index, expected in enumerate(alone):
        own = [answer for answer in found if answer.index == index]
        assert [(a.text, a.start) for a in own] == [(a.text, a.start) for a in expected]
        # Scores of one context have the same ratios as without the others.
        np.testing.assert_allclose(
            [a.score / own[0].score for a in own],
            [a.score / expected[0].score for a in expected],
            rtol=1e-4,
        )
    assert [a.score for a in found] == sorted((a.score for a in found), reverse=True)


def test_no_answer_in_any_context(task, tokenizer) -> None:
    """No answer comes first if its `null_score` exceeds the threshold, and has no context."""
    predictor = Predictor(task("answers"), tokenizer)
    best, *others = predictor.rank_answers("un", CONTEXTS)
    none, *rest = predictor.rank_answers("un", CONTEXTS, null_threshold=best.null_score - 0.1)
    assert (none.text, none.start, none.end, none.index) == ("", 0, 0, None)
    assert none.score == pytest.approx(1 - sum(a.score for a in (best, *others)), abs=1e-5)
    assert rest == [best, *others]
    same = predictor.rank_answers("un", CONTEXTS, null_threshold=best.null_score + 0.1)
    assert same == [best, *others]
    nothing = RankedAnswer("", 0, 0, 1.0, float("inf"), None)
    assert predictor.rank_answers("un", ["", " \u3000"]) == [nothing]
    assert predictor.rank_answers("un", []) == []


def test_contexts_of_nothing(task, tokenizer) -> None:
    """An empty context gives the empty answer with probability 1."""
    predictor = Predictor(task("answers"), tokenizer)
    assert predictor([], []) == []
    nothing = Answer("", 0, 0, 1.0, float("inf"))
    assert predictor.predict_answers(["un", "un"], ["", " \u3000"]) == [nothing] * 2


def test_what_cannot_be_asked(task, tokenizer) -> None:
    """Questions and options that cannot be used are refused."""
    predictor = Predictor(task("answers"), tokenizer)
    with pytest.raises(ValueError, match="1 questions, 2 contexts"):
        predictor.predict_answers(["a"], ["a", "b"])
    with pytest.raises(TypeError, match="`questions` is one text or row"):
        predictor.predict_answers("un", ["a", "b"])
    with pytest.raises(ValueError, match=r"leaves no room .* question of 40"):
        predictor.predict_answers(["un " * 40], ["a"])
    for name in ("max_pieces", "n_best", "stride"):
        with pytest.raises(ValueError, match=f"{name}.* must be at least 1"):
            predictor.predict_answers(["un"], ["a"], **{name: 0})
    with pytest.raises(ValueError, match=r"`predict_answers` needs .*'start'.*TokenClassifier"):
        Predictor(task("tags"), tokenizer).predict_answers(["a"], ["b"])
    with pytest.raises(TypeError, match=r"`question` must be one text.* a list"):
        predictor.rank_answers(["un"], ["a"])  # type: ignore[arg-type]
    with pytest.raises(DataError, match="contexts"):
        predictor.rank_answers("un", "a")
    for name in ("per_context", "top_k", "max_pieces", "stride"):
        with pytest.raises(ValueError, match=f"{name}.* must be at least 1"):
            predictor.rank_answers("un", ["a"], **{name: 0})
    with pytest.raises(ValueError, match=r"`rank_answers` needs .*'start'"):
        Predictor(task("tags"), tokenizer).rank_answers("a", ["b"])
