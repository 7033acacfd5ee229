"""Answers of a predictor: values that compare, print and do not change."""

from __future__ import annotations

import dataclasses

import pytest

from bert_keras.predictor import Answer, Choice, Entity, Fill, Label

VALUES = [
    Fill("##s", 3, 0.5),
    Label("good", 0.5),
    Entity("PER", "Ann", 0, 3, 0.5),
    Answer("Ann", 0, 3, 0.5, -1.0),
    Choice(1, "Ann", 0.5),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_answers_are_values(value) -> None:
    fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    assert type(value)(**fields) == value
    assert len({value, type(value)(**fields)}) == 1
    assert dataclasses.replace(value, score=0.25) != value
    with pytest.raises(dataclasses.FrozenInstanceError):
        value.score = 1.0
    assert "score=0.5" in repr(value)
