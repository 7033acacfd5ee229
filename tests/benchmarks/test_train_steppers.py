"""Measured steps train on the right rows, on this backend and in PyTorch."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from benchmarks import train_steppers
from benchmarks.train_steppers import MASK_ID, SIZES, VOCABULARY, rows, sizes_of

TINY = {"layers": 1, "width": 8, "heads": 2, "batch": 2, "length": 20, "steps": 2}
TINY |= {"vocabulary": 50, "positions": 32}


def test_rows() -> None:
    for size in (sizes_of("small"), TINY):
        found = rows(size, 2)
        count, predictions = 2 * size["batch"], round(0.15 * size["length"])
        assert found["ids"].shape == (count, size["length"])
        assert found["places"].shape == found["labels"].shape == (count, predictions)
        assert found["ids"].max() < size["vocabulary"]
        masked = np.take_along_axis(found["ids"], found["places"], axis=1)
        assert len(np.unique(masked)) == 1
        assert (found["ids"] == masked[0, 0]).sum() == masked.size
    assert rows(SIZES["small"], 1)["ids"].min() == MASK_ID


def test_sizes() -> None:
    assert sizes_of("base") == {**SIZES["base"], "vocabulary": VOCABULARY, "positions": 512}
    assert sizes_of({**SIZES["base"], "length": 1024})["positions"] == 1024
    assert sizes_of(TINY) == TINY


@pytest.mark.parametrize("options", [{}, {"attention_dropout": 0.0}])
def test_ours(options: dict[str, Any]) -> None:
    figures = train_steppers.ours(TINY, "float32", **options)()
    assert figures["tokens_per_second"] == pytest.approx(40 / figures["seconds_per_step"])


@pytest.mark.filterwarnings("ignore:Gradients do not exist")  # the pooler is not used
def test_keras_hub(keras_hub) -> None:
    assert train_steppers.keras_hub(TINY, "float32", dropout=0.0)()["seconds_per_step"] > 0


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="the peer's backend is torch")
@pytest.mark.parametrize(
    "options", [{}, {"checkpointed": True, "attention_dropout": 0.0}, {"masked": False}]
)
def test_transformers(options: dict[str, Any], transformers) -> None:
    figures = train_steppers.transformers(TINY, "mixed_bfloat16", **options)()
    assert figures["seconds_per_step"] > 0
