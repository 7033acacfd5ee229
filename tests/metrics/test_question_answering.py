"""Scores of answers, and inputs that are refused before scoring."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_keras.metrics import question_answering
from bert_keras.metrics.question_answering import normalized_answer, squad_scores


def test_answers_are_kept_by_id_in_order() -> None:
    questions: Any = [("b", ["x", "y"]), ("a", ()), ("c", iter(["z"]))]
    found = question_answering.answers_by_id(questions)
    assert found == {"b": ("x", "y"), "a": (), "c": ("z",)}
    assert list(found) == ["b", "a", "c"]
    assert question_answering.missing({"a": 1}, found) == ["b", "c"]
    assert question_answering.missing(found, found) == []


@pytest.mark.parametrize(
    ("questions", "message"),
    [
        ([], "at least one question"),
        ([("a", ["x"]), ("a", ["y"])], "'a'.*unique"),
        ([("a", "one text")], "'a' must be a list of texts"),
        ([("a", [{"text": "x"}])], "'a' must be a list of texts"),
    ],
)
def test_questions_that_are_refused(questions: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        question_answering.answers_by_id(questions)


def test_predictions_that_are_refused() -> None:
    known = {"a": ("x",), "b": ("y",)}
    question_answering.require_texts(known, {"a": ""})
    with pytest.raises(ValueError, match=r"`predictions`: 1 of 2 ids .* 2 questions.*'z'"):
        question_answering.require_texts(known, {"a": "x", "z": "x"})
    nothing: Any = {"a": None}
    with pytest.raises(ValueError, match=r"'a' must have a text, '' for no answer.*None"):
        question_answering.require_texts(known, nothing)


def test_known_ids_are_wanted_of_any_values() -> None:
    """Unknown ids are refused for scores as they are for texts."""
    question_answering.require_known("scores", {"a": 1.0}, {"a": ()})
    with pytest.raises(ValueError, match=r"scores`: 2 of 2 ids .* first is 'y'"):
        question_answering.require_known("scores", {"y": 1.0, "z": 2.0}, {"a": ()})


def test_missing_predictions_are_counted() -> None:
    text = question_answering.describe_missing(["b", "c"], {"a": (), "b": (), "c": ()})
    assert text == "2 of 3 questions have no prediction, the first is 'b'"


# === SQuAD scores: cases computed by hand, and a second program on real predictions ===


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The  Denver\tBroncos!", "denver broncos"),
        ("an apple a day", "apple day"),
        # Articles are removed only as whole words.
        ("Athena, theatre and another", "athena theatre and another"),
        ("u.s.a.", "usa"),  # Punctuation is removed without a space in its place.
        ("a.m.", "am"),
        ("A-the", "athe"),  # Punctuation is removed before articles.
        ("“the” — cat’s", "“ ” — cat’s"),  # Other Unicode punctuation stays and separates words.
        ("$1,000 (about)", "1000 about"),
        ("ÉCOLE\u00a0the\u3000ИВАН", "école иван"),
        ("the", ""),
        ("", ""),
    ],
)
def test_normalization(text: str, expected: str) -> None:
    assert normalized_answer(text) == expected


def score(answers: list[str], prediction: str, **options: Any) -> tuple[float, float]:
    found = squad_scores([("q", answers)], {"q": prediction}, **options)
    return found["exact"], found["f1"]


def test_a_question_scores_its_best_answer() -> None:
    assert score(["Denver Broncos", "The Broncos"], "broncos!") == (100, 100)
    # Two of three predicted tokens are right, and both answer tokens are found. A repeated token
    # counts once.
    exact, f1 = score(["Denver Broncos", "Colts"], "the Denver Denver Broncos")
    assert (exact, f1) == (0, pytest.approx(100 * 2 * (2 / 3) / (2 / 3 + 1)))
    assert score(["Denver"], "Seattle") == (0, 0)


def test_the_versions_differ_where_nothing_is_left_of_an_answer() -> None:
    assert score(["the"], "a") == (100, 0)
    assert score(["the"], "a", version="2.0") == (100, 100)
    # Version 2.0 drops an answer without words if there are other answers.
    assert score(["the", "cat"], "a") == (100, 0)
    assert score(["the", "cat"], "a", version="2.0") == (0, 0)


def test_missing_predictions_score_zero_by_1() -> None:
    questions = [("a", ["x"]), ("b", ["y"]), ("c", ["z"]), ("d", ["z"])]
    with pytest.warns(UserWarning, match="2 of 4 questions have no prediction.*'b'.*score 0"):
        found = squad_scores(questions, {"a": "x", "d": "no"})
    assert found == {"exact": 25, "f1": 25, "total": 4}


QUESTIONS = [("h1", ["big cat"]), ("h2", ["dog"]), ("n1", []), ("n2", [])]


def test_questions_without_answers() -> None:
    found = squad_scores(QUESTIONS, {"h1": "cat", "h2": "", "n1": "", "n2": "mouse"})
    assert found == {
        "exact": 25,
        "f1": pytest.approx(100 * (2 / 3 + 1) / 4),
        "total": 4,
        "HasAns_exact": 0,
        "HasAns_f1": pytest.approx(100 / 3),
        "HasAns_total": 2,
        "NoAns_exact": 50,
        "NoAns_f1": 50,
        "NoAns_total": 2,
    }
    only = squad_scores(QUESTIONS[2:], {"n1": "", "n2": "mouse"})
    assert set(only) == {"exact", "f1", "total", "NoAns_exact", "NoAns_f1", "NoAns_total"}


TEXTS = {"h1": "cat", "h2": "dog", "n1": "bird", "n2": "mouse"}


def test_questions_above_the_threshold_have_no_answer() -> None:
    doubts = {"h1": 0.4, "h2": 0.1, "n1": 0.5, "n2": 0.9}
    # Only a higher value than the threshold means "no answer", so that h1 keeps its answer.
    found = squad_scores(QUESTIONS, TEXTS, doubts, threshold=0.4)
    assert (found["exact"], found["HasAns_exact"], found["NoAns_exact"]) == (75, 50, 100)
    assert found["HasAns_f1"] == pytest.approx(100 * (2 / 3 + 1) / 2)
    # The default threshold, 1, is for probabilities. None of these exceeds it.
    assert squad_scores(QUESTIONS, TEXTS, doubts)["NoAns_exact"] == 0
    # Sums of the scores when the threshold rises to the next value, in the order h2, h1, n1, n2.
    # Exact: 2, 3, 3, 2, 1. F1: 2, 3, 3 2/3, 2 2/3, 1 2/3.
    assert (found["best_exact"], found["best_exact_thresh"]) == (75, 0.1)
    assert (found["best_f1"], found["best_f1_thresh"]) == (pytest.approx(100 * 11 / 12), 0.4)


def test_the_best_threshold_as_officially() -> None:
    def best(doubts: dict[str, float], texts: dict[str, str] = TEXTS) -> tuple[float, float]:
        found = squad_scores(QUESTIONS, texts, doubts)
        return found["best_exact"], found["best_exact_thresh"]

    # No threshold is better than answering no question, so that the threshold stays 0.
    assert best({"h1": -3.0, "h2": -2.0, "n1": -9.0, "n2": -8.0}) == (50, 0.0)
    # An empty answer is right for a question without an answer.
    doubts = {"h1": -1.0, "h2": -2.0, "n1": -9.0, "n2": -8.0}
    assert best(doubts, TEXTS | {"n1": "", "n2": ""}) == (75, -2.0)
    # Equal values keep the order in which they are given.
    assert best({"h2": 1.0, "n1": 1.0, "n2": 1.0, "h1": 1.0}) == (75, 1.0)
    assert best({"n1": 1.0, "n2": 1.0, "h2": 1.0, "h1": 1.0}) == (50, 0.0)


@settings(deadline=None, derandomize=True, max_examples=300)
@given(
    st.lists(
        st.tuples(st.booleans(), st.sampled_from(["", "cat", "big cat"]), st.integers(0, 99)),
        min_size=1,
        max_size=8,
        unique_by=lambda each: each[2],
    )
)
def test_no_threshold_is_better_than_the_best(
    rows: list[tuple[bool, str, int]],
) -> None:
    questions = [(str(n), ["big cat"] if has else []) for n, (has, _, __) in enumerate(rows)]
    texts = {str(n): text for n, (_, text, __) in enumerate(rows)}
    doubts = {str(n): doubt + 1.0 for n, (_, __, doubt) in enumerate(rows)}
    found = squad_scores(questions, texts, doubts)
    for name in ("exact", "f1"):
        by_threshold = {
            threshold: squad_scores(questions, texts, doubts, threshold=threshold)[name]
            for threshold in (0.0, *doubts.values())
        }
        assert found[f"best_{name}"] == pytest.approx(max(by_threshold.values()))
        assert by_threshold[found[f"best_{name}_thresh"]] == pytest.approx(found[f"best_{name}"])


@pytest.mark.parametrize(
    ("questions", "texts", "doubts", "options", "message"),
    [
        (QUESTIONS, {"h1": "cat"}, None, {}, "3 of 4 questions have no prediction.*'h2'.*''"),
        (QUESTIONS, TEXTS | {"z": ""}, None, {}, "predictions`: 1 of 5 ids.*'z'"),
        (QUESTIONS, TEXTS, {"h1": 0.0}, {}, "no_answer_scores`: 3 of 4 questions have none.*'h2'"),
        (QUESTIONS, TEXTS, {"z": 0.0}, {}, "no_answer_scores`: 1 of 1 ids.*'z'"),
        (QUESTIONS, TEXTS, dict.fromkeys(TEXTS, float("nan")), {}, "'h1' must have a number.*nan"),
        (QUESTIONS, TEXTS, dict.fromkeys(TEXTS, "0.5"), {}, "'h1' must have a number.*'0.5'"),
        (QUESTIONS, TEXTS, None, {"version": "1.1"}, "1.1: question 'n1' has no answer"),
        ([("a", ["x"])], {"a": "x"}, {"a": 0.0}, {"version": "1.1"}, "are for SQuAD 2"),
        ([("a", ["x"])], {"a": "x"}, None, {"version": "2"}, "must be one of .*version='2'"),
    ],
)
def test_what_is_refused(
    questions: Any, texts: Any, doubts: Any, options: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        squad_scores(questions, texts, doubts, **options)


def second_program(data: dict[str, Any], predictions: dict[str, str]) -> dict[str, float]:
    """Return the SQuAD 1.1 scores, computed without the module under test."""

    def words(text: str) -> list[str]:
        marks = {chr(code) for code in range(33, 127) if not chr(code).isalnum()}
        kept = "".join(character for character in text.lower() if character not in marks)
        parts = re.split(r"(\w+)", kept)
        return "".join(" " if part in ("a", "an", "the") else part for part in parts).split()

    def overlap(gold: list[str], predicted: list[str]) -> float:
        left, common = list(gold), 0
        for word in predicted:
            if word in left:
                left.remove(word)
                common += 1
        # F1 is 2PR / (P + R), where P = common / predicted and R = common / gold.
        return 2 * common / (len(gold) + len(predicted)) if common else 0.0

    exact = f1 = total = 0.0
    for page in data["data"]:
        for question in (each for part in page["paragraphs"] for each in part["qas"]):
            total += 1
            if question["id"] in predictions:
                predicted = words(predictions[question["id"]])
                golds = [words(answer["text"]) for answer in question["answers"]]
                exact += predicted in golds
                f1 += max(overlap(gold, predicted) for gold in golds)
    return {"exact": 100 * exact / total, "f1": 100 * f1 / total, "total": total}


@pytest.mark.data
def test_stored_predictions(shared_data: Path) -> None:
    """The stored predictions of a logistic regression get the scores of the second program.

    They are those of the SQuAD paper on 35 of the 48 articles in the development set. On all 48
    articles the official program gives 40.142 and 50.982.
    """
    folder = shared_data / "squad"
    data = json.loads((folder / "split_share_35articles_v1.1.json").read_text(encoding="utf-8"))
    (path,) = (folder / "predictions").glob("1.1__Logistic_Regression*.json")
    stored = json.loads(path.read_text(encoding="utf-8"))
    questions = [
        (question["id"], [answer["text"] for answer in question["answers"]])
        for page in data["data"]
        for part in page["paragraphs"]
        for question in part["qas"]
    ]
    ids = {question for question, _ in questions}
    predictions = {question: text for question, text in stored.items() if question in ids}
    with pytest.warns(UserWarning, match="9 of 6013 questions have no prediction"):
        found = squad_scores(questions, predictions)
    assert found == pytest.approx(second_program(data, predictions), abs=1e-9)
    assert found == {
        "exact": pytest.approx(40.0632, abs=1e-4),
        "f1": pytest.approx(50.9144, abs=1e-4),
        "total": 6013,
    }
