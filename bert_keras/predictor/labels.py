"""Probabilities of labels and choices, and the best of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from bert_keras import features
from bert_keras.data.examples import Choices
from bert_keras.data.question_targets import choice_rows
from bert_keras.predictor.answers import Choice, Label
from bert_keras.predictor.running import Runner, sigmoid, softmax


def probabilities(logits: np.ndarray, problem: str | None) -> np.ndarray:
    """Return the probabilities of a `SequenceClassifier`'s logits; of a regression the numbers."""
    if problem == "regression":
        return logits
    return softmax(logits) if problem == "single_label" else sigmoid(logits)


def activated(logits: np.ndarray, activation: str) -> np.ndarray:
    """Return logits through an activation of Keras, by its name: float32."""
    found = keras.activations.get(activation)(keras.ops.convert_to_tensor(logits))
    return np.asarray(keras.ops.convert_to_numpy(found), np.float32)


def labels(
    scores: np.ndarray,
    names: Sequence[str],
    problem: str | None,
    *,
    top_k: int | None,
    threshold: float,
) -> list[Any]:
    """See `Predictor.predict_labels`."""
    if problem == "regression" or (top_k is not None and top_k < 1):
        raise ValueError(
            "`predict_labels` needs a model with labels (of a regression: `predict_scores`), and "
            f"of at least 1. Received: problem={problem!r}, top_k={top_k}"
        )
    found = [
        [
            Label(names[int(number)], float(row[number]))
            for number in np.argsort(-row, kind="stable")
        ]
        for row in scores
    ]
    if top_k is not None:
        return [row[:top_k] for row in found]
    if problem == "multi_label":
        return [[label for label in row if label.score >= threshold] for row in found]
    return [row[0] for row in found]


def choices(
    runner: Runner, prompts: Sequence[str], options: Sequence[Sequence[str]]
) -> list[Choice]:
    """See `Predictor.predict_choices`."""
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
