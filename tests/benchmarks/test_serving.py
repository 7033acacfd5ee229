"""Contenders of the benchmark of serving, its ratios, goals and tables."""

from __future__ import annotations

import importlib
import inspect
import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from benchmarks import serving
from benchmarks.contest import summary
from benchmarks.http_servers import BATCHES, LOOP, MANY, ONE
from benchmarks.serving import BARE, PEER, SERVED, contenders, costs, goals, ratios, writers

SIZES: dict[str, Any] = {"clients": 2, "seconds": 1.0, "calls": 3}


def _many(rate: float, p50: float) -> dict[str, float]:
    names = ("answered", "busy", "failed", "client_cores", "server_cores", "server_gigabytes")
    return {
        **{f"{MANY}/{name}": 1.0 for name in names},
        f"{MANY}/texts_per_second": rate,
        f"{MANY}/p50": 9.0,
        f"{MANY}/p99": 9.0,
        f"{ONE}/p50": p50,
        f"{ONE}/p99": p50 + 1,
        "difference": 1e-6,
    }


@pytest.fixture
def results() -> Any:
    loops = {f"{LOOP}/texts_per_second": 100.0, f"{BATCHES}/texts_per_second": 400.0}
    return summary(
        {
            f"{BARE}, torch": [{**loops, f"{ONE}/p50": 8.0, f"{ONE}/p99": 9.0, "difference": 0.0}],
            f"{SERVED}, torch": [_many(300.0, 9.5)],
            f"{SERVED}, onnx": [_many(110.0, 4.5)],
            PEER: [_many(100.0, 11.0)],
        }
    )


def test_every_contender_takes_its_arguments(tmp_path: Path) -> None:
    chosen = contenders("p", tmp_path, backends=["torch", "jax"], exports=["onnx"], **SIZES)
    files = writers("p", 256, tmp_path, ["onnx"])
    for each in (*chosen, *files):
        module, _, name = each.function.partition(":")
        function = getattr(importlib.import_module(module), name)
        inspect.signature(function).bind(**each.arguments)
    assert len({each.name for each in chosen}) == len(chosen) == 6
    assert str(tmp_path / "onnx") in " ".join(chosen[4].arguments["command"])
    assert Path(files[0].arguments["folder"]) == tmp_path / "onnx" / "1"


def test_ratios_and_costs(results: Any) -> None:
    assert ratios(results) == {f"{SERVED}, torch": 3.0, f"{SERVED}, onnx": pytest.approx(1.1)}
    assert costs(results) == {f"{SERVED}, torch": 1.5}  # there is no bare call of the export
    lines = goals(ratios(results), costs(results))
    assert [line.split(": ")[1].split()[0] for line in lines] == ["reached", "missed", "reached"]
    assert ratios({name: row for name, row in results.items() if name != PEER}) == {}


def test_show(results: Any) -> None:
    screen = io.StringIO()
    serving.show(results, 50, Console(file=screen, width=100))
    told = screen.getvalue()
    for part in ("50 clients", "3.00", "+1.50 ms", "400", "1.0e-06", PEER):
        assert part in told


def test_show_memory() -> None:
    screen = io.StringIO()
    memory = {"bytes": {0: 2**20, 1000: 3 * 2**20}, "growth_bytes": 2**21, "failed": 0}
    serving.show_memory(memory, Console(file=screen, width=100))
    assert "Growth: 2.0 MiB; failed: 0." in screen.getvalue()
    assert "1,000" in screen.getvalue()


def test_the_command_of_the_report_has_no_paths() -> None:
    words = ["--data", "a/b", "--swap", "--rounds", "2", "--sentences=c/d", "--out", "e.json"]
    assert serving.command_line(words) == (
        "python -m benchmarks.serving --data DIR --swap --rounds 2 --sentences PRESET"
    )
    assert serving.command_line(["--swap", "x"]).endswith("--swap EXPORT")


@pytest.mark.data
def test_real_texts(shared_data: Path) -> None:
    assert len(serving.sent_texts(shared_data)) == 872


def test_texts_without_data() -> None:
    assert len(serving.sent_texts(None)) > 100
