"""Answers to questions, as pieces of a text."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from bert_keras import file_io, metrics
from bert_keras.data import (
    Question,
    SupervisedExamples,
    question_examples,
    read_squad,
    rows_to_learn,
)
from bert_keras.errors import DataError
from bert_keras.models import BertEncoder, QuestionAnswerer, Task
from bert_keras.predictor import Answer, Predictor
from bert_keras.tokenizers import Tokenizer
from bert_keras.training.tasks.task import GOOD, Evaluation, FinetuningTask, HardExample

# Our values, and the options of `Predictor.predict_answers` that they are.
_OPTIONS = {"stride": "stride", "max_question": "max_question", "max_answer": "max_pieces"}
_NULL, _THRESHOLD = "null_threshold", "best_f1_thresh"
_NEVER = -1e9  # a threshold so low that no question has an answer
_COUNTS = ("total", "skipped")  # no measures


class QuestionAnsweringTask(FinetuningTask):
    """A `QuestionAnswerer`."""

    extension: ClassVar[str] = "json"

    @property
    def options(self) -> dict[str, Any]:
        """Options of the search for answers.

        There is none where that is likelier by more than on dev was best; with a model of which
        this is not known, where it is likelier at all.
        """
        options = {theirs: getattr(self.recipe, ours) for ours, theirs in _OPTIONS.items()}
        if self.recipe.no_answer:
            options[_NULL] = 0.0 if self._threshold is None else self._threshold
        return options

    def read(self, path: str, *, labelled: bool = True) -> list[Question]:
        """SQuAD's JSON; prints what is wrong with it."""
        del labelled  # answers may be missing
        questions, report = read_squad(path)
        if text := str(report):
            print(text)
        return list(questions)

    def split(self, data: list[Question], share: float) -> tuple[list[Question], list[Question]]:
        """By articles, of which no part may be seen while learning."""
        articles = list(dict.fromkeys(_article(question) for question in data))
        first = set(articles[: rows_to_learn(len(articles), share)])
        return (
            [question for question in data if _article(question) in first],
            [question for question in data if _article(question) not in first],
        )

    def learned(self, data: list[Question]) -> list[Question]:
        """Without those that have no answer, where the model always gives one; says how many."""
        if self.recipe.no_answer:
            return data
        answerable = [question for question in data if not question.is_impossible]
        if count := len(data) - len(answerable):
            print(f"{count:,} questions without an answer are not learned from; see no_answer")
        return answerable

    def take(self, data: list[Question], numbers: Sequence[int]) -> list[Question]:
        """Some questions."""
        return [data[number] for number in numbers]

    def check(self, data: list[Question], labels: list[str] | None) -> None:
        """There is something to measure; says what is not measured."""
        del labels
        count = len(self._measured(data))
        if not count:
            raise DataError(
                f"No question has an answer to compare with. Received: {len(data)} questions. Use "
                "a file with answers; no_answer=true also measures impossible questions."
            )
        if count < len(data):
            why = (
                "without an answer" if self.recipe.no_answer else "without an answer, or impossible"
            )
            print(f"{len(data) - count:,} questions of {len(data):,} are not measured: {why}")

    def _measured(self, data: list[Question]) -> list[Question]:
        """Those whose right answer is known; of SQuAD 2.0 it may be none."""
        none = self.recipe.no_answer
        return [each for each in data if each.accepted or (none and each.is_impossible)]

    def build(self, encoder: BertEncoder, labels: list[str] | None) -> Task:
        """Start and end of an answer."""
        del labels
        return QuestionAnswerer(encoder, dropout=self.recipe.dropout)

    def examples(
        self, tokenizer: Tokenizer, data: list[Question], labels: Any, **options: Any
    ) -> SupervisedExamples:
        """A row for each part of a text."""
        del labels
        recipe = self.recipe
        return question_examples(
            tokenizer,
            data,
            max_length=recipe.max_length,
            stride=recipe.stride,
            max_question=recipe.max_question,
            **options,
        )

    def evaluate(self, predictor: Predictor, data: list[Question]) -> Evaluation:
        """Exact match and F1 by the official rules.

        Of version 2.0 with the threshold of dev; while there is none, with the best one.
        """
        recipe = self.recipe
        spans = self._answers(predictor, data, null_threshold=None)
        found = {question.id: span for question, span in zip(data, spans, strict=True)}
        answers = {key: answer.text for key, answer in found.items()}
        measured_on = self._measured(data)
        right = [(question.id, question.accepted) for question in measured_on]

        def given(values: Mapping[str, Any]) -> dict[str, Any]:
            return {question.id: values[question.id] for question in measured_on}

        if recipe.language == "zh":
            measured = metrics.cmrc_scores(right, given(answers))
        elif recipe.no_answer:
            nulls = {key: answer.null_score for key, answer in found.items()}
            scores = metrics.squad_scores(right, given(answers), given(nulls), version="2.0")
            best = {name: value for name, value in scores.items() if name.startswith("best_")}
            if best["best_f1"] <= 100.0 * sum(not texts for _, texts in right) / len(right):
                best[_THRESHOLD] = _NEVER  # officially 0, which fits probabilities alone
            threshold = self._threshold
            if threshold is None:
                threshold = best[_THRESHOLD]
            answers = {key: "" if nulls[key] > threshold else text for key, text in answers.items()}
            # All of one threshold: what each would be with its own best one stands beside it.
            measured = {**metrics.squad_scores(right, given(answers), version="2.0"), **best}
        else:
            measured = metrics.squad_scores(right, given(answers))
        measured = {"f1": measured["f1"], **measured}
        measured = {k: v for k, v in measured.items() if not k.endswith(_COUNTS)}
        worst = [
            HardExample(
                _sureness(found[q.id], answers[q.id]),
                f"{q.question} [{q.context[:200]}]",
                q.accepted[0] if q.accepted else "",
                answers[q.id],
            )
            for q in measured_on
            if not self._is_right(q, answers[q.id])
        ]
        predictions = [(question.id, answers[question.id]) for question in data]
        return Evaluation(measured, predictions, worst)

    def _is_right(self, question: Question, answer: str) -> bool:
        """Return whether an answer is right by the official rules."""
        right, given = [(question.id, question.accepted)], {question.id: answer}
        if self.recipe.language == "zh":
            return metrics.cmrc_scores(right, given)["exact"] > 0
        return metrics.squad_scores(right, given)["exact"] > 0

    def predict(self, predictor: Predictor, data: list[Question]) -> list[tuple[str, str]]:
        """(id, answer) of each; "" where there is none."""
        found = self._answers(predictor, data)
        return [(question.id, answer.text) for question, answer in zip(data, found, strict=True)]

    @property
    def _threshold(self) -> float | None:
        return self.measured.get(_THRESHOLD) if self.recipe.no_answer else None

    def _answers(
        self, predictor: Predictor, data: list[Question], **options: Any
    ) -> Sequence[Answer]:
        return predictor.predict_answers(
            [question.question for question in data],
            [question.context for question in data],
            **{**self.options, **options},
        )

    def quicktest_data(self, folder: Path) -> dict[str, str]:
        """Two questions about each of three texts."""
        context = "the film was good ? Ada is in Rome"
        asked = [("who is in Rome ?", "Ada"), ("where is Ada ?", "Rome")]
        paragraphs = []
        for number, word in enumerate(GOOD):
            questions = [
                {
                    "id": f"{number} {question}",
                    "question": question,
                    "answers": [{"text": answer, "answer_start": context.index(answer)}],
                }
                for question, answer in asked
            ]
            paragraphs.append({"context": f"{context} {word}", "qas": questions})
        content = {"version": "1.1", "data": [{"title": "A", "paragraphs": paragraphs}]}
        path = folder / "train.json"
        file_io.write_text(path, json.dumps(content))
        return {"train": str(path)}

    def write(self, path: Path, data: Any, predictions: Sequence[Any]) -> None:
        """SQuAD's form: {id: answer}."""
        del data
        file_io.write_text(path, json.dumps(dict(predictions), ensure_ascii=False) + "\n")


def _sureness(span: Answer, answer: str) -> float:
    """The probability of the best span; of no answer, that against this span."""
    return span.score if answer else (1 + math.tanh(span.null_score / 2)) / 2


def values_of(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The values of a recipe, and the metrics, of which `Questions.options` would be these."""
    values = {ours: options[theirs] for ours, theirs in _OPTIONS.items() if theirs in options}
    threshold = options.get(_NULL)
    values["no_answer"] = threshold is not None
    return values, {} if threshold is None else {_THRESHOLD: threshold}


def _article(question: Question) -> str:
    """Return the place of its article; without a place the text itself."""
    return question.place.partition(".paragraphs")[0] or question.context
