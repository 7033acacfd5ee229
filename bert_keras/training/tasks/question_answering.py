"""Fine-tuning of question answering: spans of a text that answer questions about it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from bert_keras import file_io, metrics
from bert_keras.data import (
    CutTexts,
    Question,
    SupervisedExamples,
    num_training_rows,
    question_examples,
    read_squad,
)
from bert_keras.errors import DataError
from bert_keras.models import BertEncoder, QuestionAnswerer, Task
from bert_keras.predictor import Answer, Predictor
from bert_keras.tokenizers import Tokenizer
from bert_keras.training.tasks.task import GOOD, Evaluation, FinetuningTask, HardExample, lengths_of

# Value of a recipe -> option of `Predictor.predict_answers`.
_OPTIONS = {"stride": "stride", "max_question": "max_question", "max_answer": "max_pieces"}
_STRIDE = 128  # default doc stride
_NULL, _THRESHOLD = "null_threshold", "best_f1_thresh"
_NEVER = -1e9  # a threshold so low that no question has an answer
_COUNTS = ("total", "skipped")  # ends of the names of counts, which are no metrics


class QuestionAnsweringTask(FinetuningTask):
    """Task of a `QuestionAnswerer`."""

    extension: ClassVar[str] = "json"

    @property
    def options(self) -> dict[str, Any]:
        """Options of the search for answers.

        With `no_answer`, a question has no answer if that is more likely than the best span by more
        than a threshold. This is the best threshold on the validation examples. It is 0 if the
        model was not measured.
        """
        options = {theirs: getattr(self.recipe, ours) for ours, theirs in _OPTIONS.items()}
        options["stride"] = options["stride"] or _STRIDE
        if self.recipe.no_answer:
            options[_NULL] = 0.0 if self._threshold is None else self._threshold
        return options

    def read(self, path: str, *, labelled: bool = True) -> list[Question]:
        """Read a JSON file in the format of SQuAD, and print the faults that it has."""
        del labelled  # questions without answers are read too
        questions, report = read_squad(path)
        if text := str(report):
            print(text)
        return list(questions)

    def split(self, data: list[Question], share: float) -> tuple[list[Question], list[Question]]:
        """Split by whole articles, so that the model has learned no part of their texts."""
        articles = list(dict.fromkeys(_article(question) for question in data))
        first = set(articles[: num_training_rows(len(articles), share)])
        return (
            [question for question in data if _article(question) in first],
            [question for question in data if _article(question) not in first],
        )

    def trainable_examples(self, data: list[Question]) -> list[Question]:
        """Return the questions with an answer, or with `no_answer` all; print how many are not."""
        if self.recipe.no_answer:
            return data
        answerable = [question for question in data if not question.is_impossible]
        if count := len(data) - len(answerable):
            print(f"{count:,} questions without an answer are not learned from; see no_answer")
        return answerable

    def take(self, data: list[Question], numbers: Sequence[int]) -> list[Question]:
        """Return the questions of these numbers."""
        return [data[number] for number in numbers]

    def check(self, data: list[Question], labels: list[str] | None) -> None:
        """Check that a question can be measured, and print how many cannot."""
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
        """Return the questions with a known answer, and with `no_answer` the impossible ones."""
        none = self.recipe.no_answer
        return [q for q in data if q.accepted or (none and q.is_impossible)]

    def row_lengths(self, tokenizer: Tokenizer, data: list[Question]) -> np.ndarray:
        """Return the number of tokens of each question with its whole text."""
        questions = [question.question for question in data]
        return lengths_of(tokenizer, questions, [question.context for question in data])

    def cut_texts(self, examples: SupervisedExamples, data: list[Question]) -> CutTexts:
        """Return how many questions are cut; contexts are read whole, in windows."""
        limit, advice = self.recipe.max_question, "max_question= reads more."
        return CutTexts(examples.rows.num_cut, len(data), limit, "questions", advice)

    def build(self, encoder: BertEncoder, labels: list[str] | None) -> Task:
        """Return a model that finds start and end of an answer."""
        del labels
        return QuestionAnswerer(encoder, dropout=self.recipe.dropout)

    def examples(
        self, tokenizer: Tokenizer, data: list[Question], labels: Any, **options: Any
    ) -> SupervisedExamples:
        """Return a row for each window of a text, `stride` tokens apart."""
        del labels
        recipe = self.recipe
        return question_examples(
            tokenizer,
            data,
            max_length=recipe.max_length,
            stride=recipe.stride or _STRIDE,
            max_question=recipe.max_question,
            **options,
        )

    def evaluate(self, predictor: Predictor, data: list[Question]) -> Evaluation:
        """Compute exact match and F1 by the official rules of SQuAD or CMRC.

        With `no_answer` (SQuAD 2.0) the validation threshold is used. If the model was not
        measured, the best threshold for these questions is used.
        """
        recipe = self.recipe
        spans = self._answers(predictor, data, null_threshold=None)
        best_spans = {question.id: span for question, span in zip(data, spans, strict=True)}
        answers = {key: span.text for key, span in best_spans.items()}
        measured_on = self._measured(data)
        right = [(question.id, question.accepted) for question in measured_on]

        def of_measured(values: Mapping[str, Any]) -> dict[str, Any]:
            """Return the values of the questions that are measured."""
            return {question.id: values[question.id] for question in measured_on}

        if recipe.language == "zh":
            measured = metrics.cmrc_scores(right, of_measured(answers))
        elif recipe.no_answer:
            nulls = {key: span.null_score for key, span in best_spans.items()}
            scores = metrics.squad_scores(
                right, of_measured(answers), of_measured(nulls), version="2.0"
            )
            best = {name: value for name, value in scores.items() if name.startswith("best_")}
            if best["best_f1"] <= 100.0 * sum(not texts for _, texts in right) / len(right):
                # The official script gives 0, which is the lowest value only of probabilities.
                best[_THRESHOLD] = _NEVER
            threshold = self._threshold
            if threshold is None:
                threshold = best[_THRESHOLD]
            answers = {key: "" if nulls[key] > threshold else text for key, text in answers.items()}
            # These metrics share one threshold; those in `best` have the best one for each metric.
            scores = metrics.squad_scores(right, of_measured(answers), version="2.0")
            measured = {**scores, **best}
        else:
            measured = metrics.squad_scores(right, of_measured(answers))
        measured = {"f1": measured["f1"], **measured}
        measured = {k: v for k, v in measured.items() if not k.endswith(_COUNTS)}
        worst = [
            HardExample(
                _confidence(best_spans[q.id], answers[q.id]),
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
        right, answers = [(question.id, question.accepted)], {question.id: answer}
        if self.recipe.language == "zh":
            return metrics.cmrc_scores(right, answers)["exact"] > 0
        return metrics.squad_scores(right, answers)["exact"] > 0

    def predict(self, predictor: Predictor, data: list[Question]) -> list[tuple[str, str]]:
        """Return the id and the answer of each question; "" for no answer."""
        spans = self._answers(predictor, data)
        return [(question.id, span.text) for question, span in zip(data, spans, strict=True)]

    @property
    def _threshold(self) -> float | None:
        """Best validation threshold of "no answer"; None if it is not known or not used."""
        return self.measured.get(_THRESHOLD) if self.recipe.no_answer else None

    def _answers(
        self, predictor: Predictor, data: list[Question], **options: Any
    ) -> Sequence[Answer]:
        """Return the best span of each question; `options` replace those of the task."""
        return predictor.predict_answers(
            [question.question for question in data],
            [question.context for question in data],
            **{**self.options, **options},
        )

    def quicktest_data(self, folder: Path) -> dict[str, str]:
        """Write two questions about each of three texts."""
        context = "the film was good ? Ada is in Rome"
        known = [("who is in Rome ?", "Ada"), ("where is Ada ?", "Rome")]
        paragraphs = []
        for number, word in enumerate(GOOD):
            questions = [
                {
                    "id": f"{number} {question}",
                    "question": question,
                    "answers": [{"text": answer, "answer_start": context.index(answer)}],
                }
                for question, answer in known
            ]
            paragraphs.append({"context": f"{context} {word}", "qas": questions})
        content = {"version": "1.1", "data": [{"title": "A", "paragraphs": paragraphs}]}
        path = folder / "train.json"
        file_io.write_text(path, json.dumps(content))
        return {"train": str(path)}

    def write(self, path: Path, data: Any, predictions: Sequence[Any]) -> None:
        """Write a JSON object {id: answer}, the official format of SQuAD."""
        del data
        file_io.write_text(path, json.dumps(dict(predictions), ensure_ascii=False) + "\n")


def _confidence(span: Answer, answer: str) -> float:
    """Return the probability of the best span; for answer "", that of no answer against it."""
    return span.score if answer else (1 + math.tanh(span.null_score / 2)) / 2


def values_of(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return values of a recipe, and metrics, that give these options of a saved predictor.

    It is the inverse of `QuestionAnsweringTask.options`.
    """
    values = {ours: options[theirs] for ours, theirs in _OPTIONS.items() if theirs in options}
    threshold = options.get(_NULL)
    values["no_answer"] = threshold is not None
    return values, {} if threshold is None else {_THRESHOLD: threshold}


def _article(question: Question) -> str:
    """Return the place of a question's article in its file; without a place, its text."""
    return question.place.partition(".paragraphs")[0] or question.context
