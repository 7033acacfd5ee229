"""Questions, their right answers and the predicted ones, before anything is scored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def answers_by_id(questions: Iterable[tuple[str, Sequence[str]]]) -> dict[str, tuple[str, ...]]:
    """The right answers of each question.

    Args:
        questions: (id, answers) of each; no answers where a text does not answer its question.

    Raises:
        ValueError: there are no questions, an id comes twice, or answers are not texts.
    """
    answers: dict[str, tuple[str, ...]] = {}
    for question, texts in questions:
        if question in answers:
            raise ValueError(f"two questions have the id {question!r}: ids must be unique")
        # One text is a sequence of texts to Python, each a character long.
        every = () if isinstance(texts, str) else tuple(texts)
        if isinstance(texts, str) or not all(isinstance(text, str) for text in every):
            raise ValueError(
                f"question {question!r}: answers must be a sequence of texts, not {texts!r}"
            )
        answers[question] = every
    if not answers:
        raise ValueError("there are no questions to score")
    return answers


def require_texts(answers: Mapping[str, Any], predictions: Mapping[str, str]) -> None:
    """Refuses predictions for other questions, and predictions that are no texts.

    Args:
        answers: of each question, by id.
        predictions: one text per question, by id; some may be missing.

    Raises:
        ValueError: an id is not among the questions, or a prediction is not a text.
    """
    require_known("predictions", predictions, answers)
    for question, text in predictions.items():
        if not isinstance(text, str):
            raise ValueError(
                f"predictions: question {question!r} has {text!r}; give a text, '' for no answer"
            )


def require_known(what: str, values: Mapping[str, Any], answers: Mapping[str, Any]) -> None:
    """Refuses `values` with ids that are not among the questions.

    Args:
        what: the name of `values`, for the message.
        values: anything by id.
        answers: of each question, by id.

    Raises:
        ValueError: an id is not among the questions.
    """
    unknown = [question for question in values if question not in answers]
    if unknown:
        raise ValueError(
            f"{what}: {len(unknown)} of {len(values)} ids are not among the {len(answers)} "
            f"questions, the first is {unknown[0]!r}; leave out what is not to be scored"
        )


def missing(values: Mapping[str, Any], answers: Mapping[str, Any]) -> list[str]:
    """The ids of the questions that `values` says nothing about, in the order of the questions."""
    return [question for question in answers if question not in values]


def describe_missing(ids: Sequence[str], answers: Mapping[str, Any]) -> str:
    """Says how many questions have no prediction, for a warning or an error."""
    return f"{len(ids)} of {len(answers)} questions have no prediction, the first is {ids[0]!r}"
