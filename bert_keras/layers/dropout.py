"""Dropout whose randomness is a variable of the model, and initial weights."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import keras

from bert_keras.layers import kernels


@keras.saving.register_keras_serializable(package="bert_keras")
class SeededDropout(keras.layers.Dropout):
    """Keras's layer, whose seed can be drawn apart from what it drops.

    What is computed again for its gradient must drop the same again, and Keras allows no change of
    a variable there.
    """

    def next_seed(self):
        """A seed for one call; None where nothing is dropped."""
        return self.seed_generator.next() if self.rate else None

    def call(self, inputs, training=False, seed=None):
        """Drops in training.

        Args:
            inputs: of any shape.
            training: whether dropout is active.
            seed: one of `next_seed`; None to draw one.
        """
        if not training or not self.rate:
            return inputs
        if self.rate == 1:
            return keras.ops.zeros_like(inputs)
        return kernels.dropped(inputs, self.rate, self.next_seed() if seed is None else seed)


def seeded_dropout(rate: float, name: str, dtype: Any) -> SeededDropout:
    """A Dropout layer with a seed of its own, drawn from Python's generator.

    `keras.utils.set_random_seed` makes the seeds, and so a run, repeatable. Without an explicit
    seed the PyTorch backend draws from its global generator, which no checkpoint holds.
    """
    seed = random.randint(1, 2**31 - 1)
    return SeededDropout(rate, seed=seed, dtype=dtype, name=name)


_is_to_be_filled: ContextVar[bool] = ContextVar("is_to_be_filled", default=False)


@contextmanager
def to_be_filled() -> Iterator[None]:
    """While it lasts, new weights are zeros: a checkpoint's take their place.

    Random numbers for all weights would cost time, and more memory than the weights.
    """
    token = _is_to_be_filled.set(True)
    try:
        yield
    finally:
        _is_to_be_filled.reset(token)


def truncated_normal(standard_deviation: float) -> keras.initializers.Initializer:
    """BERT's initial weights: normal, cut at two standard deviations."""
    if _is_to_be_filled.get():
        return keras.initializers.Zeros()
    return keras.initializers.TruncatedNormal(stddev=standard_deviation)
