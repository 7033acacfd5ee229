"""Dropout whose randomness is a variable of the model, and initial weights."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import keras


def seeded_dropout(rate: float, name: str, dtype: Any) -> keras.layers.Dropout:
    """A Dropout layer with a seed of its own, drawn from Python's generator.

    `keras.utils.set_random_seed` makes the seeds, and so a run, repeatable. Without an explicit
    seed the PyTorch backend draws from its global generator, which no checkpoint holds.
    """
    seed = random.randint(1, 2**31 - 1)
    return keras.layers.Dropout(rate, seed=seed, dtype=dtype, name=name)


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
