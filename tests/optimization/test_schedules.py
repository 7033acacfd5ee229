"""Every rate of every schedule."""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras import optimizer as make_optimizer
from bert_keras.optimization import SCHEDULES, WarmupDecay
from tests.contracts import numpy


def _plain_rate(
    step: int, rate: float, total: int, warmup: int, schedule: str, final: float, power: float
) -> float:
    """The rate of update number `step`, from 0, as one would write it down."""
    if step < warmup:
        return rate * (step + 1) / warmup
    left = 1.0 - min((step - warmup) / max(total - warmup, 1), 1.0)
    factor = {
        "linear": left,
        "cosine": (1.0 + math.cos(math.pi * (1.0 - left))) / 2.0,
        "polynomial": left**power,
        "constant": 1.0,
    }[schedule]
    return final + (rate - final) * factor


@pytest.mark.parametrize("gradient_accumulation_steps", [1, 3])
@pytest.mark.parametrize(("total", "warmup"), [(20, 5), (20, 0), (20, 20), (1, 0), (1, 1)])
@pytest.mark.parametrize("schedule", ["linear", "cosine", "polynomial", "constant"])
def test_schedule(schedule: str, total: int, warmup: int, gradient_accumulation_steps: int):
    values = {"schedule": schedule, "power": 3.0, "final_rate": 0.01}
    rate = WarmupDecay(
        0.5, total, warmup, gradient_accumulation_steps=gradient_accumulation_steps, **values
    )
    rebuilt = WarmupDecay.from_config(rate.get_config())
    batches = np.arange(gradient_accumulation_steps * (total + 3))
    expected = [
        _plain_rate(
            int(batch) // gradient_accumulation_steps, 0.5, total, warmup, schedule, 0.01, 3.0
        )
        for batch in batches
    ]
    for each in (rate, rebuilt):
        # Schedules are elementwise: all steps at once.
        found = numpy(each(keras.ops.convert_to_tensor(batches, "int32")))
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


def test_schedule_by_hand():
    rate = WarmupDecay(1.0, total_steps=6, warmup_steps=2)
    found = [float(numpy(rate(step))) for step in range(8)]
    np.testing.assert_allclose(found, [0.5, 1.0, 1.0, 0.75, 0.5, 0.25, 0.0, 0.0], atol=1e-7)


def _paper_s_rate(step: int, rate: float, total: int, cut_frac: float, ratio: float) -> float:
    """Howard & Ruder (2018), equation 3."""
    cut = math.floor(total * cut_frac)
    p = step / cut if step < cut else 1 - (step - cut) / (cut * (1 / cut_frac - 1))
    return rate * (1 + p * (ratio - 1)) / ratio


@pytest.mark.parametrize("gradient_accumulation_steps", [1, 3])
@pytest.mark.parametrize(("cut_frac", "ratio"), [(0.1, 32.0), (0.5, 4.0), (0.25, 1.0)])
def test_slanted_triangular(cut_frac: float, ratio: float, gradient_accumulation_steps: int):
    values = {"schedule": "slanted_triangular", "cut_frac": cut_frac, "ratio": ratio}
    rate = WarmupDecay(0.5, 20, gradient_accumulation_steps=gradient_accumulation_steps, **values)
    rebuilt = WarmupDecay.from_config(rate.get_config())
    batches = np.arange(gradient_accumulation_steps * 21)
    expected = [
        _paper_s_rate(int(b) // gradient_accumulation_steps, 0.5, 20, cut_frac, ratio)
        for b in batches
    ]
    optimizer = make_optimizer(
        0.5, total_steps=20, gradient_accumulation_steps=gradient_accumulation_steps, **values
    )
    assert optimizer.get_config()["learning_rate"]["config"] == rate.get_config()
    for each in (rate, rebuilt):
        found = numpy(each(keras.ops.convert_to_tensor(batches, "int32")))
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert max(expected) == 0.5


@pytest.mark.parametrize("total", [1, 5, 19, 29])
def test_slanted_triangular_of_any_length(total: int):
    """If the cut falls between two steps, the paper's formula goes below zero."""
    rate = WarmupDecay(1.0, total, schedule="slanted_triangular", ratio=10.0)
    found = numpy(rate(keras.ops.arange(total + 5)))
    cut = max(total // 10, 1)
    assert (np.diff(found[: cut + 1]) > 0).all()
    assert (np.diff(found[cut:]) <= 0).all()
    np.testing.assert_allclose(found[cut], 1.0, rtol=1e-6)
    np.testing.assert_allclose(found[[0, *range(max(total, 2), total + 5)]], 0.1, rtol=1e-5)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"schedule": "step"},
            f"one of {', '.join(SCHEDULES)}. Received: schedule='step'",
        ),
        ({"warmup_steps": 11}, r"in \[0, total_steps\]. Received: warmup_steps=11, total_steps=10"),
        ({"warmup_steps": -1}, "Received: warmup_steps=-1"),
        ({"gradient_accumulation_steps": 0}, "at least 1. Received: gradient_accumulation_steps=0"),
        ({"cut_frac": 0.0}, r"in \(0, 1\). Received: cut_frac=0.0"),
        ({"cut_frac": 1.0}, r"in \(0, 1\). Received: cut_frac=1.0"),
        ({"ratio": 0.5}, "at least 1. Received: ratio=0.5"),
        (
            {"schedule": "slanted_triangular", "warmup_steps": 2},
            "leave `warmup_steps` and `final_rate` at 0. Received: warmup_steps=2",
        ),
        ({"schedule": "slanted_triangular", "final_rate": 0.1}, "final_rate=0.1"),
    ],
)
def test_bad_values(values: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        WarmupDecay(1e-3, **{"total_steps": 10, **values})
