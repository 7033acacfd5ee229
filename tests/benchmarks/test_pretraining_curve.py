"""Pretraining curves are read from run folders, and compared at the steps of both runs."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from benchmarks.pictures import curve_picture
from benchmarks.pretraining_curve import middle, points, seconds_to, show


def _curve(*pairs: tuple[float, float]) -> list[dict[str, float]]:
    return [
        {"step": 50.0 * (number + 1), "seconds": seconds, "loss": loss}
        for number, (seconds, loss) in enumerate(pairs)
    ]


BEFORE = _curve((10, 9.0), (20, 8.0), (30, 7.0))
AFTER = _curve((5, 9.0), (10, 8.0), (15, 6.5))


def test_points_of_a_run(tmp_path: Path) -> None:
    def write(name: str, records: list[dict[str, Any]]) -> None:
        (tmp_path / name).write_text("".join(json.dumps(record) + "\n" for record in records))

    write("speed.jsonl", [{"step": step, "seconds": 2.5} for step in (25, 50, 75, 100)])
    losses = [{"step": 25}, {"step": 50, "val_mlm_loss": 9.0}]
    write("metrics.jsonl", [*losses, {"step": 75}, {"step": 100, "val_mlm_loss": 8.0}])
    assert points(tmp_path) == [
        {"step": 50, "seconds": 5.0, "loss": 9.0},
        {"step": 100, "seconds": 10.0, "loss": 8.0},
    ]


def test_medians_of_rounds() -> None:
    rounds = [_curve((seconds, 9.0)) for seconds in (3.0, 1.0, 8.0)]
    assert middle(rounds) == _curve((3.0, 9.0))


@pytest.mark.parametrize(
    ("loss", "seconds"), [(9.5, 10), (9.0, 10), (8.25, 17.5), (7.0, 30), (6.0, None)]
)
def test_when_a_curve_comes_down(loss: float, seconds: float | None) -> None:
    """`seconds_to` returns when a curve first reaches a loss."""
    assert seconds_to(BEFORE, loss) == seconds


def test_the_comparison_is_at_the_lowest_loss_of_both() -> None:
    screen = io.StringIO()
    curves = {"before": BEFORE, "after": AFTER}
    ratio = show(curves, Console(file=screen, width=200))
    assert ratio == pytest.approx(30 / (10 + 5 * 2 / 3))
    assert (
        "Validation loss 7.000: 30 s before, 13 s after, 2.25 times as fast." in screen.getvalue()
    )


def test_the_picture(tmp_path: Path) -> None:
    path = tmp_path / "pictures" / "curve.png"
    curve_picture({"before": BEFORE, "after": AFTER}, path)
    assert path.read_bytes().startswith(b"\x89PNG")
