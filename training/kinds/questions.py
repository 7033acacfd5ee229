"""Answers to questions, as pieces of a text; and choices among several."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from bert_keras import atomic, metrics
from bert_keras.data import (
    Choices,
    Question,
    SupervisedExamples,
    choice_examples,
    question_examples,
    read_choices,
    read_squad,
)
from bert_keras.errors import DataError
from bert_keras.models import BertEncoder, MultipleChoice, QuestionAnswerer, Task
from bert_keras.predictor import Answer, Predictor
from bert_keras.tokenizers import Tokenizer
from training.kinds.kind import Evaluation, Kind, Worst, last_share
from training.kinds.texts import write_glue

_THRESHOLD = "best_f1_thresh"
_NEVER = -1e9  # a threshold so low that no question has an answer
_COUNTS = ("total", "skipped")  # no measures


class Questions(Kind):
    """A `QuestionAnswerer`."""

    extension: ClassVar[str] = "json"

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
        first = set(articles[: last_share(len(articles), share)])
        return (
            [question for question in data if _article(question) in first],
            [question for question in data if _article(question) not in first],
        )

    def take(self, data: list[Question], numbers: Sequence[int]) -> list[Question]:
        """Some questions."""
        return [data[number] for number in numbers]

    def check(self, data: list[Question], labels: list[str] | None) -> None:
        """There is something to measure; says what is not measured."""
        del labels
        count = len(self._measured(data))
        if not count:
            raise DataError("No question has an answer to compare with.")
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
        found = {q.id: each for q, each in zip(data, self._answers(predictor, data), strict=True)}
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
            Worst(found[q.id].score, f"{q.question} [{q.context[:200]}]", texts[0], answers[q.id])
            for q in measured_on
            if answers[q.id] not in (texts := q.accepted or ("",))
        ]
        predictions = [(question.id, answers[question.id]) for question in data]
        return Evaluation(measured, predictions, worst)

    def predict(self, predictor: Predictor, data: list[Question]) -> list[tuple[str, str]]:
        """(id, answer) of each; "" where no answer is likelier by more than on dev was best.

        Of a model of which that is not known, where no answer is likelier at all.
        """
        threshold = 0.0 if self.recipe.no_answer and self._threshold is None else self._threshold
        found = self._answers(predictor, data, null_threshold=threshold)
        return [(question.id, answer.text) for question, answer in zip(data, found, strict=True)]

    @property
    def _threshold(self) -> float | None:
        return self.measured.get(_THRESHOLD) if self.recipe.no_answer else None

    def _answers(
        self, predictor: Predictor, data: list[Question], **options: Any
    ) -> Sequence[Answer]:
        recipe = self.recipe
        return predictor.answers(
            [question.question for question in data],
            [question.context for question in data],
            stride=recipe.stride,
            max_question=recipe.max_question,
            max_pieces=recipe.max_answer,
            **options,
        )

    def write(self, path: Path, data: Any, predictions: Sequence[Any]) -> None:
        """SQuAD's form: {id: answer}."""
        del data
        atomic.write_text(path, json.dumps(dict(predictions), ensure_ascii=False) + "\n")


class MultipleChoices(Kind):
    """A `MultipleChoice`."""

    reads_pooler: ClassVar[bool] = True
    packages: ClassVar[tuple[str, ...]] = ("sklearn",)

    def read(self, path: str, *, labelled: bool = True) -> Choices:
        """JSON lines or Parquet with "prompt", "options" (a list) and "answer"."""
        return read_choices(
            path,
            answer="answer" if labelled else None,
            format=self.recipe.format or None,
            encoding=self.recipe.encoding,
        )

    def check(self, data: Choices, labels: list[str] | None) -> None:
        """The right choices are known."""
        del labels
        if data.answers is None:
            raise DataError("The choices have no answers to compare with.")

    def build(self, encoder: BertEncoder, labels: list[str] | None) -> Task:
        """A score for every choice."""
        del labels
        activation = None if encoder.config.pooler else "tanh"
        return MultipleChoice(encoder, hidden_activation=activation, dropout=self.recipe.dropout)

    def examples(
        self, tokenizer: Tokenizer, data: Choices, labels: Any, **options: Any
    ) -> SupervisedExamples:
        """A row for every choice."""
        del labels
        return choice_examples(tokenizer, data, max_length=self.recipe.max_length, **options)

    def evaluate(self, predictor: Predictor, data: Choices) -> Evaluation:
        """The share of right choices."""
        found = predictor.choices(data.prompts, data.options)
        right = list(data.answers or ())
        answered = [choice.index for choice in found]
        worst = [
            Worst(choice.score, prompt, options[index], choice.text)
            for choice, prompt, options, index in zip(
                found, data.prompts, data.options, right, strict=True
            )
            if choice.index != index
        ]
        measured = {"accuracy": metrics.accuracy(right, answered)}
        return Evaluation(measured, list(map(str, answered)), worst)

    def predict(self, predictor: Predictor, data: Choices) -> list[str]:
        """The number of the best choice, from 0."""
        return [str(choice.index) for choice in predictor.choices(data.prompts, data.options)]

    def write(self, path: Path, data: Any, predictions: Sequence[Any]) -> None:
        """A table: index, prediction."""
        del data
        write_glue(path, predictions)


def _article(question: Question) -> str:
    """Where its article stands; without a place the text itself."""
    return question.place.partition(".paragraphs")[0] or question.context
