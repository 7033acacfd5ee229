"""Fine-tuning of multiple choice: the best of several continuations of a prompt."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from bert_keras import metrics
from bert_keras.data import Choices, SupervisedExamples, choice_examples, read_choices
from bert_keras.errors import DataError
from bert_keras.models import BertEncoder, MultipleChoice, Task
from bert_keras.predictor import Predictor, column_of
from bert_keras.tokenizers import Tokenizer
from bert_keras.training.tasks.task import (
    BAD,
    GOOD,
    Evaluation,
    FinetuningTask,
    HardExample,
    lengths_of,
    table_options,
    text_head,
    write_glue,
    write_rows,
)


class MultipleChoiceTask(FinetuningTask):
    """Task of a `MultipleChoice`."""

    packages: ClassVar[tuple[str, ...]] = ("sklearn",)

    def read(self, path: str, *, labelled: bool = True) -> Choices:
        """Read a table with a list of options, or with a column for each option."""
        recipe = self.recipe
        options = [column_of(name.strip()) for name in recipe.options.split(",")]
        return read_choices(
            path,
            prompt=column_of(recipe.prompt) if recipe.prompt else None,
            options=options if len(options) > 1 else options[0],
            answer=column_of(recipe.answer) if labelled else None,
            lead=column_of(recipe.lead) if recipe.lead else None,
            **table_options(recipe),
        )

    def check(self, data: Choices, labels: list[str] | None) -> None:
        """Check that the right choices are known."""
        del labels
        if data.answers is None:
            raise DataError(
                f"The choices have no right answers to compare with. Received: {len(data)} rows "
                "without an answer. Name the column of the right choice with answer=."
            )

    @property
    def has_confidences(self) -> bool:
        """True: the best choice has a probability."""
        return True

    def row_lengths(self, tokenizer: Tokenizer, data: Choices) -> np.ndarray:
        """Return the number of tokens of each prompt with each of its options."""
        prompts = [
            prompt
            for prompt, options in zip(data.prompts, data.options, strict=True)
            for _ in options
        ]
        return lengths_of(tokenizer, prompts, [text for row in data.options for text in row])

    def build(self, encoder: BertEncoder, labels: list[str] | None) -> Task:
        """Return a model that scores every choice."""
        del labels
        head = text_head(MultipleChoice, encoder)
        return MultipleChoice(encoder, dropout=self.recipe.dropout, **head)

    def examples(
        self, tokenizer: Tokenizer, data: Choices, labels: Any, **options: Any
    ) -> SupervisedExamples:
        """Return a row for every choice."""
        del labels
        return choice_examples(tokenizer, data, max_length=self.recipe.max_length, **options)

    def evaluate(self, predictor: Predictor, data: Choices) -> Evaluation:
        """Compute the accuracy."""
        choices = predictor.predict_choices(data.prompts, data.options)
        right = list(data.answers or ())
        answered = [choice.index for choice in choices]
        worst = [
            HardExample(choice.score, prompt, options[index], choice.text)
            for choice, prompt, options, index in zip(
                choices, data.prompts, data.options, right, strict=True
            )
            if choice.index != index
        ]
        measured = {"accuracy": metrics.accuracy(right, answered)}
        confidences = (
            np.array([choice.score for choice in choices]),
            np.array(right) == np.array(answered),
        )
        return Evaluation(measured, list(map(str, answered)), worst, confidences=confidences)

    def predict(self, predictor: Predictor, data: Choices) -> list[str]:
        """Return the index of the best choice of each row, from 0."""
        return [
            str(choice.index) for choice in predictor.predict_choices(data.prompts, data.options)
        ]

    def quicktest_data(self, folder: Path) -> dict[str, str]:
        """Write prompts with two options each."""
        rows = [
            {"prompt": "the film was", "options": [a, b], "answer": 0} for a in GOOD for b in BAD
        ]
        return {"train": write_rows(folder, rows)}

    def write(self, path: Path, data: Any, predictions: Sequence[Any]) -> None:
        """Write a table of index and prediction."""
        del data
        write_glue(path, predictions)
