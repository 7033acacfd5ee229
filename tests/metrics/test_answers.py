"""What is refused before anything is scored."""

from __future__ import annotations

from typing import Any

import pytest

from bert_keras.metrics import answers


def test_answers_are_kept_by_id_in_order() -> None:
    questions: Any = [("b", ["x", "y"]), ("a", ()), ("c", iter(["z"]))]
    found = answers.answers_by_id(questions)
    assert found == {"b": ("x", "y"), "a": (), "c": ("z",)}
    assert list(found) == ["b", "a", "c"]
    assert answers.missing({"a": 1}, found) == ["b", "c"]
    assert answers.missing(found, found) == []


@pytest.mark.parametrize(
    ("questions", "message"),
    [
        ([], "no questions"),
        ([("a", ["x"]), ("a", ["y"])], "'a'.*unique"),
        ([("a", "one text")], "'a'.*sequence of texts"),
        ([("a", [{"text": "x"}])], "'a'.*sequence of texts"),
    ],
)
def test_questions_that_are_refused(questions: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        answers.answers_by_id(questions)


def test_predictions_that_are_refused() -> None:
    known = {"a": ("x",), "b": ("y",)}
    answers.require_texts(known, {"a": ""})
    with pytest.raises(ValueError, match=r"predictions: 1 of 2 ids .* 2 questions.*'z'"):
        answers.require_texts(known, {"a": "x", "z": "x"})
    nothing: Any = {"a": None}
    with pytest.raises(ValueError, match=r"'a' has None.*'' for no answer"):
        answers.require_texts(known, nothing)


def test_known_ids_are_wanted_of_any_values() -> None:
    answers.require_known("scores", {"a": 1.0}, {"a": ()})
    with pytest.raises(ValueError, match=r"scores: 2 of 2 ids .* first is 'y'"):
        answers.require_known("scores", {"y": 1.0, "z": 2.0}, {"a": ()})


def test_missing_predictions_are_counted() -> None:
    text = answers.describe_missing(["b", "c"], {"a": (), "b": (), "c": ()})
    assert text == "2 of 3 questions have no prediction, the first is 'b'"
