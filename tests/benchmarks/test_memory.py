"""Peak memory is compared with the peer that needs the least with the same option."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from benchmarks import memory
from benchmarks.train_steppers import at_length


def _figures(peak: float) -> dict[str, Any]:
    spread = {"median": peak, "least": peak, "most": peak}
    return dict.fromkeys(("beyond", "prepared", "seconds_per_step"), spread)


def test_ratios() -> None:
    by_option = memory.programs("training", at_length("small", 128))
    assert set(by_option) == set(memory.OPTIONS["training"])
    checkpointed = "gradients checkpointed"
    found = {
        "bert_keras, jax": _figures(3.0),
        "KerasHub, jax": _figures(4.0),
        "transformers": _figures(6.0),
        f"bert_keras, torch, {checkpointed}": _figures(1.0),
        f"transformers, {checkpointed}": _figures(2.0),
        "bert_keras, torch, mixed_bfloat16": _figures(1.0),
    }
    compared = memory.ratios(found, by_option)
    assert compared == {
        "bert_keras, jax": 0.75,
        "KerasHub, jax": 1.0,
        "transformers": 1.5,
        f"bert_keras, torch, {checkpointed}": 0.5,
        f"transformers, {checkpointed}": 1.0,
    }
    screen = io.StringIO()
    console = Console(file=screen, width=200)
    memory.show(found, compared, "peaks", console)
    assert "0.75" in screen.getvalue()


def test_ours_is_asked_to_checkpoint_gradients() -> None:
    members = memory.programs("training", at_length("small", 128))["gradients checkpointed"]
    assert all(each.arguments["checkpointed"] for each in members)
    assert sum(each.name.startswith(memory.OURS) for each in members) == 3


def test_the_vocabulary_in_parts_is_ours_alone() -> None:
    members = memory.programs("training", at_length("small", 128))["vocabulary in 8 parts"]
    assert [each.arguments["chunks"] for each in members] == [8, 8, 8]
    assert all(each.name.startswith(memory.OURS) for each in members)
