"""Ratios between sentence encoders, and the report of the targets."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from benchmarks import inference
from benchmarks.embedders import Case
from benchmarks.inference import OURS, operations_of

CASES = [
    Case("sentences", ["a b"] * 4, 2, tokens=16, longest=4, operations=1_000),
    Case("single texts", ["a"] * 2, 1, tokens=6, longest=3, operations=1_000, one_by_one=True),
]
# Texts per second, and milliseconds.
SPEEDS = {
    f"{OURS}, torch": (30.0, 4.0),
    f"{OURS}, jax": (20.0, 6.0),
    "sentence-transformers": (16.0, 10.0),
    "onnxruntime": (15.0, 5.0),
    "onnxruntime, sorted": (20.0, 5.5),
}


def _spread(value: float) -> dict[str, float]:
    return dict.fromkeys(("median", "least", "most"), value)


@pytest.fixture
def results() -> dict[str, Any]:
    found: dict[str, Any] = {case.name: {} for case in CASES}
    for name, (rate, late) in SPEEDS.items():
        common = {"gigabytes": _spread(0.5), "difference": 0.003}
        speeds = {"texts_per_second": _spread(rate), "tokens_per_second": _spread(4 * rate)}
        found["sentences"][name] = {**speeds, **common}
        found["single texts"][name] = {"p50": _spread(late), "p99": _spread(2 * late), **common}
    return found


def test_ratios_and_targets(results: dict[str, Any]) -> None:
    rates = inference.ratios(results["sentences"])
    assert rates[f"{OURS}, torch"] == {"sentence-transformers": 1.875, "onnxruntime": 1.5}
    assert inference.targets(rates) == [
        "Target, at least 1.5 x sentence-transformers: "
        "reached by bert_keras, torch, missed by bert_keras, jax.",
        "Target, at least 1.1 x onnxruntime: "
        "reached by bert_keras, torch, missed by bert_keras, jax.",
    ]
    latencies = inference.ratios(results["single texts"])
    assert latencies[f"{OURS}, torch"] == {"best peer": 0.8}
    assert inference.targets(latencies) == [
        "Target, no later than the best peer: "
        "reached by bert_keras, torch, missed by bert_keras, jax."
    ]


def test_share_of_the_peak(results: dict[str, Any]) -> None:
    config = {"num_hidden_layers": 2, "hidden_size": 8, "intermediate_size": 32}
    assert operations_of(config, 3) == 2 * 3 * 8 * (24 * 8 + 12)
    config["intermediate_size"] = 16
    assert operations_of(config, 3) == 2 * 3 * 8 * (16 * 8 + 12)
    gated = {**config, "model_type": "modernbert"}
    assert operations_of(gated, 3) == 2 * 3 * 8 * (20 * 8 + 12)
    row = results["single texts"][f"{OURS}, torch"]
    assert inference.share_of_peak(CASES[1], row, 1e6) == pytest.approx(250 * 500 / 1e6)


def test_peers_that_are_missing_are_not_compared_with(results: dict[str, Any]) -> None:
    for rows in results.values():
        mine = {name: row for name, row in rows.items() if name.startswith(OURS)}
        assert inference.ratios(mine) == {name: {} for name in mine}
        assert inference.targets(inference.ratios(mine)) == []


def test_show(results: dict[str, Any]) -> None:
    screen = io.StringIO()
    console = Console(file=screen, width=160)
    inference.show(results, [*CASES, Case("batch 1", ["a"], 1, 3, 3, 1)], console, 10_000)
    told = screen.getvalue()
    assert "4 sentences, 4 tokens, batches of 2" in told
    assert "3.0e-03" in told
    # 30 texts with 250 operations each, per second, of 10,000 operations
    assert told.count("75%") == 1
    assert told.count("Target") == 3
