"""Errors for earlier names of arguments and methods, and saved files that have such names."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import bert_keras as bk
from bert_keras import data, optimization
from bert_keras.checkpoints.manifest import MANIFEST
from bert_keras.earlier_names import METHODS_OF_TASKS, EarlierNames, renamed

_TINY = bk.BertConfig(
    vocab_size=30,
    hidden_size=8,
    num_layers=1,
    num_heads=2,
    intermediate_size=16,
    max_positions=16,
)
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
        {
            "max_predictions": "max_predictions_per_seq",
            "objective": "loss",
            "short_probability": "short_seq_prob",
        },
    ),
    (data.pair_examples, "pair_examples", {"highest": "max_score", "objective": "loss"}),
    (bk.Pretrainer, "Pretrainer", {"objective": "loss"}),
    (bk.SentencePairs, "SentencePairs", {"objective_name": "loss"}),
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
    # Keras uses this function to read signatures
    assert inspect.getfullargspec(scaled).kwonlyargs == ["scale"]


@pytest.mark.parametrize("view", [None, "packed", "chunked"])
def test_the_earlier_name_of_a_method_is_answered(view: str | None) -> None:
    task: Any = bk.MaskedLM(bk.BertEncoder(_TINY))
    task = {None: task, "packed": task.packed(), "chunked": task.loss_chunks(2)}[view]
    for old, new in METHODS_OF_TASKS.items():
        message = f"`{type(task).__name__}.{old}` is called `{new}` now."
        with pytest.raises(AttributeError, match=re.escape(message)):
            getattr(task, old)
        assert hasattr(task, new) or (view, old) == ("chunked", "in_chunks")
        assert not hasattr(task, old)
    with pytest.raises(AttributeError, match="no attribute 'objectives'"):
        _ = task.objectives


def test_an_error_within_a_property_keeps_its_message() -> None:
    class Plain(EarlierNames):
        @property
        def broken(self) -> int:
            return self.not_there

    with pytest.raises(AttributeError, match="no attribute 'not_there'"):
        _ = Plain().broken


@pytest.mark.parametrize(
    ("task", "old"),
    [
        (lambda: bk.Pretrainer(bk.BertEncoder(_TINY), loss="sop"), "objective"),
        (lambda: bk.SentencePairs(bk.BertEncoder(_TINY), loss="similarity"), "objective_name"),
    ],
)
def test_models_saved_with_earlier_names_open(task: Any, old: str, tmp_path: Path) -> None:
    made = task()
    config = made.get_config()
    config[old] = config.pop("loss")
    assert type(made).from_config(config).options == made.options
    made.save_to_preset(tmp_path)
    manifest = json.loads((tmp_path / MANIFEST).read_text())
    manifest["options"][old] = manifest["options"].pop("loss")
    (tmp_path / MANIFEST).write_text(json.dumps(manifest))
    assert type(made).from_preset(tmp_path).options == made.options
