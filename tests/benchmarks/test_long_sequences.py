"""The report of long sequences has a ratio in each row, and a picture."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from benchmarks import long_sequences
from benchmarks.pictures import length_picture


def _summary(seconds: float, peak: float) -> dict[str, Any]:
    values = {"seconds_per_step": seconds, "beyond": peak}
    return {
        name: {"median": value, "least": value, "most": 2 * value} for name, value in values.items()
    }


FOUND = {
    "bert_keras, jax": _summary(1.0, 4.0),
    "KerasHub, jax": _summary(2.0, 2.0),
    "transformers": _summary(4.0, 1.0),
}


def _rows() -> list[dict[str, Any]]:
    return [
        row
        for mode in long_sequences.MODES
        for length in (128, 512)
        for row in long_sequences.rows_of(mode, length, FOUND)
    ]


def test_ratios_are_to_the_best_peer_of_each_kind() -> None:
    rows = long_sequences.rows_of("inference", 128, FOUND)
    ratios = {row["program"]: (row["time_ratio"], row["memory_ratio"]) for row in rows}
    assert ratios == {
        "bert_keras, jax": (2.0, 0.25),
        "KerasHub, jax": (1.0, 0.5),
        "transformers": (0.5, 1.0),
    }
    alone = long_sequences.rows_of("inference", 128, {"bert_keras, jax": FOUND["bert_keras, jax"]})
    assert alone[0]["time_ratio"] is None
    screen = io.StringIO()
    console = Console(file=screen, width=200)
    long_sequences.show([*rows, *alone], "rows of 128", console)
    assert "0.25" in screen.getvalue()


def test_the_picture_is_drawn_from_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "long.json"
    path.write_text(json.dumps({"results": _rows()}), encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["long_sequences", "--drawn-from", str(path)])
    long_sequences.main()
    assert (tmp_path / "long.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("rows", [_rows()[:1], []], ids=["one", "none"])
def test_few_figures_make_a_picture_too(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    assert length_picture(rows, tmp_path / "few.png") == tmp_path / "few.png"
