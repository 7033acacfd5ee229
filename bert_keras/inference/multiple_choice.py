"""The best of several options for a prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_keras import features
from bert_keras.data.examples import Choices
from bert_keras.data.multiple_choice import choice_rows
from bert_keras.inference.base import Choice, TextMethods, one_or_many
from bert_keras.inference.batching import Runner, softmax


def choices(
    runner: Runner, prompts: Sequence[str], options: Sequence[Sequence[str]]
) -> list[Choice]:
    """See `ChoiceMethods.predict_choices`."""
    Choices(prompts, options)  # checks them, all together
    found: dict[int, Choice] = {}
    for size in sorted({len(each) for each in options}):
        numbers = [number for number, each in enumerate(options) if len(each) == size]
        some = Choices([prompts[n] for n in numbers], [options[n] for n in numbers])
        rows, _ = choice_rows(runner.tokenizer, some, max_length=runner.max_length)
        logits = runner.per_example(features.CHOICE, rows, group=size)
        shares = softmax(logits)
        for row, number in enumerate(numbers):
            best = int(logits[row].argmax())
            found[number] = Choice(best, str(options[number][best]), float(shares[row, best]))
    return [found[number] for number in range(len(prompts))]


def choice_logits(
    runner: Runner, prompts: Sequence[str], options: Sequence[Sequence[str]]
) -> np.ndarray:
    """Return the logits of equally many options for each prompt: float32 [prompts, options]."""
    rows, size = choice_rows(
        runner.tokenizer, Choices(prompts, options), max_length=runner.max_length
    )
    return runner.per_example(features.CHOICE, rows, group=size)


class ChoiceMethods(TextMethods):
    """Methods of models that choose between options."""

    @one_or_many("prompts", words="options")
    def predict_choices(
        self, prompts: str | Sequence[str], options: Sequence[str] | Sequence[Sequence[str]]
    ) -> Any:
        """Return the best option for each prompt.

        Args:
            prompts: the prompts, or one prompt.
            options: a list of options for each prompt, or that of one prompt.

        Returns:
            A `Choice` for each prompt; without the list for one prompt.
        """
        self._require(features.CHOICE, "predict_choices")
        return choices(self._runner(), prompts, options)
