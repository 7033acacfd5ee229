"""Targets of question answering in the forms that callers pass to `fit`."""

from __future__ import annotations

from typing import Any

import pytest

from bert_keras import QuestionAnswerer
from bert_keras.data import Answer
from bert_keras.errors import DataError
from bert_keras.models.question_answering import answers_from
from tests import contracts
from tests.contracts import TINY

CONTEXT = "Ann saw Bob, and Bob saw Ann."


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("Bob", [Answer("Bob", 8)]),
        (("Bob", 17), [Answer("Bob", 17)]),
        (Answer("Ann", 0), [Answer("Ann", 0)]),
        ({"text": ["Bob", "Ann"], "answer_start": [8, 0]}, [Answer("Bob", 8), Answer("Ann", 0)]),
        ({"text": [], "answer_start": []}, []),
        (["Ann", ("Bob", 17)], [Answer("Ann", 0), Answer("Bob", 17)]),
        ("", []),
        ([], []),
    ],
)
def test_every_form_is_read(value: Any, expected: list[Answer]) -> None:
    assert answers_from([value], [CONTEXT]) == [tuple(expected)]


def test_bad_answers_are_named() -> None:
    with pytest.raises(DataError, match=r"row 1 has the answer 'Cat', which its context does not"):
        answers_from(["Ann", "Cat"], [CONTEXT] * 2)
    with pytest.raises(DataError, match="row 0 is no answer"):
        answers_from([3], [CONTEXT])
    with pytest.raises(DataError, match="1 answers for 2 questions"):
        answers_from(["Ann"], [CONTEXT] * 2)
    with pytest.raises(DataError, match="no answers"):
        answers_from(None, [CONTEXT])


@pytest.mark.parametrize(
    "value",
    [
        ("Bob", 0),
        ("Bob", -1),
        ("Bob", None),
        (3, 4),
        Answer("Bob", 0),
        {"text": ["Bob"], "answer_start": [0]},
        {"text": ["Bob"], "answer_start": [8, 9]},
        {"text": "Bob", "answer_start": 8},
    ],
)
def test_an_answer_that_is_not_at_its_place_is_named(value: Any) -> None:
    with pytest.raises(DataError, match="y: row 1 "):
        answers_from(["Ann", value], [CONTEXT] * 2)


# === Answers as spans ===


def test_contract(tmp_path):
    config = TINY.replace(num_layers=1, pooler=False)
    contracts.check_task(QuestionAnswerer, config, tmp_path)
