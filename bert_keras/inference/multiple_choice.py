"""Choice of the best of several options for a prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_keras import features
from bert_keras.data.examples import Choices
from bert_keras.data.multiple_choice import choice_rows
from bert_keras.inference.base import Choice, TextMethods, one_or_many
from bert_keras.inference.batching import Runner, softmax

ROWS = "rows of a prompt with an option"  # in messages


def choices(
    runner: Runner, prompts: Sequence[str], options: Sequence[Sequence[str]]
) -> list[Choice]:
    """Return the best option for each prompt; see `ChoiceMethods.predict_choices`.

    Prompts with equally many options run together.
    """
    Choices(prompts, options)  # checks all prompts before the first batch runs
    results: dict[int, Choice] = {}
    cut = 0
    for size in sorted({len(row) for row in options}):
        indices = [index for index, row in enumerate(options) if len(row) == size]
        examples = Choices([prompts[i] for i in indices], [options[i] for i in indices])
        rows, _ = choice_rows(runner.tokenizer, examples, max_length=runner.max_length)
        cut += rows.num_cut
        logits = runner.per_example(features.CHOICE, rows, group=size)
        probabilities = softmax(logits)
        for row, index in enumerate(indices):
            best = int(logits[row].argmax())
            score = float(probabilities[row, best])
            results[index] = Choice(best, str(options[index][best]), score)
    runner.tell_cut(cut, sum(map(len, options)), noun=ROWS)
    return [results[index] for index in range(len(prompts))]


def choice_logits(
    runner: Runner, prompts: Sequence[str], options: Sequence[Sequence[str]]
) -> np.ndarray:
    """Return logits float32 [prompts, options]. All prompts must have equally many options."""
    rows, size = choice_rows(
        runner.tokenizer, Choices(prompts, options), max_length=runner.max_length
    )
    runner.tell_cut(rows.num_cut, len(rows), noun=ROWS)
    return runner.per_example(features.CHOICE, rows, group=size)


class ChoiceMethods(TextMethods):
    """Prediction methods of multiple-choice models."""

    @one_or_many("prompts", words="options")
    def predict_choices(
        self, prompts: str | Sequence[str], options: Sequence[str] | Sequence[Sequence[str]]
    ) -> Any:
        """Return the best option for each prompt.

        Args:
            prompts: prompts, or one prompt.
            options: a list of options for each prompt, or the list of one prompt.

        Returns:
            A `Choice` for each prompt; a single one for one prompt.

        Raises:
            ValueError: if the model has no multiple-choice head.
        """
        self._require(features.CHOICE, "predict_choices")
        return choices(self._runner(), prompts, options)
