"""Long rows are measured with attention in blocks, and without where a backend has no kernel."""

from __future__ import annotations

import io

import keras
import pytest
from rich.console import Console

from benchmarks import long_rows
from bert_keras.kernels import query_blocks

SIZE = {"layers": 2, "width": 16, "heads": 2, "batch": 1, "vocabulary": 50, "steps": 1}


def test_programs() -> None:
    names = [each.name for each in long_rows.programs("training", long_rows.SIZES)]
    assert len(set(names)) == len(names)
    assert "bert_keras, torch" in names
    assert "bert_keras, tensorflow, all queries at once" in names
    assert "bert_keras, torch, all queries at once" not in names


@pytest.mark.parametrize("mode", long_rows.MODES)
def test_a_round(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_blocks, "LONG", 2048)  # and restore it
    run = long_rows.ours(mode, {**SIZE, "length": 20}, in_blocks=False, jit_compile=False)
    assert set(run()) == {"seconds_per_step"}
    assert query_blocks.LONG == 20
    assert keras.backend.backend() in long_rows.BACKENDS


def test_the_table() -> None:
    spread = {"median": 1.5, "least": 1.0, "most": 2.0}
    figures = dict.fromkeys(("beyond", "prepared", "seconds_per_step"), spread)
    screen = io.StringIO()
    long_rows.show({"bert_keras, jax": figures}, "training", Console(file=screen, width=120))
    assert screen.getvalue().count("1.500") == 3
