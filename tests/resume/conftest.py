"""Fixtures: a tiny model with each kind of state, and a snapshot of all its bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import pytest

SIZE = 4


def _build(seed: int = 0, optimizer: Any = None, **compile_options: Any) -> keras.Model:
    """Return a compiled model with dropout seeds, moving statistics and automatic names."""
    start = [keras.initializers.GlorotUniform(seed=n) for n in range(2)]
    inputs = keras.Input((SIZE,))
    x = keras.layers.Dense(6, activation="relu", kernel_initializer=start[0])(inputs)
    x = keras.layers.Dropout(0.5, seed=100 + seed)(x)
    x = keras.layers.BatchNormalization(momentum=0.9)(x)
    x = keras.layers.Dropout(0.2, seed=200 + seed)(x)
    head = keras.layers.Dense(2, kernel_initializer=start[1], dtype="float32", name="head")
    outputs = head(x)
    model = keras.Model(inputs, outputs)
    options = {"loss": "mse", "metrics": ["mae"], **compile_options}
    model.compile(optimizer or keras.optimizers.AdamW(0.01), **options)
    return model


def _train(model: keras.Model, first: int, last: int) -> None:
    """Run the steps `first + 1` to `last`. Step n has the same batch in every run."""
    for step in range(first, last):
        generator = np.random.default_rng(step)
        x = generator.normal(size=(4, SIZE)).astype("float32")
        model.train_on_batch(x, x[:, :2] * 2)


def _snapshot(model: keras.Model) -> list[tuple[tuple[int, ...], str, bytes]]:
    """Return the shape, dtype and bytes of each variable of a model and its optimizer."""
    variables = [*model.variables, *model.optimizer.variables]
    arrays = [keras.ops.convert_to_numpy(variable.value) for variable in variables]
    return [(array.shape, str(array.dtype), array.tobytes()) for array in arrays]


@pytest.fixture
def build() -> Callable[..., keras.Model]:
    return _build


@pytest.fixture
def train() -> Callable[[keras.Model, int, int], None]:
    return _train


@pytest.fixture
def snapshot() -> Callable[[keras.Model], list[tuple[tuple[int, ...], str, bytes]]]:
    return _snapshot


@pytest.fixture
def mixed_float16() -> Iterator[None]:
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_float16")
    yield
    keras.config.set_dtype_policy(policy)
