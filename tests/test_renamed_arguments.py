"""An earlier name of an argument is answered with the name of today."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest

import bert_keras as bk
from bert_keras import data, optimization
from bert_keras.renamed_arguments import renamed

CALLS: list[tuple[Callable[..., Any], str, dict[str, str]]] = [
    (
        bk.optimizer,
        "optimizer",
        {
            "accumulate": "gradient_accumulation_steps",
            "accumulation_steps": "gradient_accumulation_steps",
            "ema": "ema_momentum",
        },
    ),
    (optimization.WarmupDecay, "WarmupDecay", {"accumulate": "gradient_accumulation_steps"}),
    (
        data.PretrainingExamples,
        "PretrainingExamples",
        {"max_predictions": "max_predictions_per_seq", "short_probability": "short_seq_prob"},
    ),
    (data.pair_examples, "pair_examples", {"highest": "max_score"}),
]


@pytest.mark.parametrize(
    ("call", "caller", "old", "new"),
    [(call, caller, old, new) for call, caller, names in CALLS for old, new in names.items()],
)
def test_the_earlier_name_is_answered(call: Any, caller: str, old: str, new: str) -> None:
    message = f"`{old}` of `{caller}` is called `{new}` now. Received: {old}=2"
    with pytest.raises(TypeError, match=re.escape(message)):
        call(**{old: 2})
    assert new in inspect.signature(call).parameters


def test_another_unknown_name_is_pythons_error() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'emma'"):
        bk.optimizer(2e-5, emma=0.9)  # pyright: ignore[reportCallIssue]


def test_the_function_is_called_with_its_arguments() -> None:
    @renamed("scaled", factor="scale")
    def scaled(value: int, *, scale: int = 2) -> int:
        """Return a multiple."""
        return value * scale

    assert (scaled(3), scaled(3, scale=5), scaled.__doc__) == (6, 15, "Return a multiple.")
