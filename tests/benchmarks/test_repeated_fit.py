"""Each run of `fit` is compared with the second one, when everything is compiled."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from benchmarks.repeated_fit import NEW, SAME, growth, measure, show


def _row(seconds: float, mebibytes: float) -> dict[str, float]:
    return {
        "seconds": seconds,
        "processor_seconds": 2 * seconds,
        "mebibytes": mebibytes,
        "loss": 0.5,
    }


def test_growth_is_beside_the_second_run() -> None:
    rows = [_row(9.0, 100.0), _row(2.0, 200.0), _row(3.0, 201.5)]
    assert growth(rows) == (1.5, 1.5)
    screen = io.StringIO()
    console = Console(file=screen, width=100)
    show({"jax": {NEW: rows}}, console)
    assert "1.50 times the processor seconds, +1.5 MiB" in screen.getvalue()


@pytest.mark.slow
def test_runs_of_a_new_task_are_alike() -> None:
    results = measure(2, (16, 32))
    assert set(results) == {NEW, SAME}
    first, second = results[NEW]
    assert first["loss"] == pytest.approx(second["loss"], abs=1e-4)
    assert all(row["mebibytes"] > 0 for rows in results.values() for row in rows)
