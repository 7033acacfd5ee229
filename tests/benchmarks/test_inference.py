"""Who is measured, how they are compared, and what is said of what was aimed at."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from benchmarks import inference
from benchmarks.contest import summary
from benchmarks.embedders import ENCODERS, Case
from benchmarks.inference import OURS, REFERENCE, contenders, vectors_of, writers

CASES = [
    Case("sentences", ["a b"] * 4, 2, tokens=16, longest=4),
    Case("single texts", ["a"] * 2, 1, tokens=6, longest=3, one_by_one=True),
]
# Texts a second, and milliseconds.
SPEEDS = {
    f"{OURS}, torch": (30.0, 4.0),
    f"{OURS}, jax": (20.0, 6.0),
    "sentence-transformers": (16.0, 10.0),
    REFERENCE: (10.0, 8.0),
    "onnxruntime": (20.0, 5.0),
}


_PLACES = {"file", "folder"}


@pytest.fixture
def results(tmp_path: Path) -> dict[str, Any]:
    rounds = {}
    for number, (name, (rate, late)) in enumerate(SPEEDS.items()):
        figures = {"sentences/texts_per_second": rate, "sentences/tokens_per_second": 4 * rate}
        latency = {"single texts/p50": late, "single texts/p99": 2 * late}
        rounds[name] = [{**figures, **latency, "gigabytes": 0.5}]
        gap = 0.001 * abs(number - 3)  # none of the reference itself
        vectors: dict[str, Any] = {case.name: np.full((len(case.texts), 3), gap) for case in CASES}
        np.savez(vectors_of(tmp_path, name), **vectors)
    return inference.by_case(summary(rounds), CASES, tmp_path)


def test_every_contender_has_a_way_and_its_file(tmp_path: Path) -> None:
    found = contenders("preset", 256, tmp_path)
    assert len({each.name for each in found}) == len(found)
    assert {each.arguments["encoder"] for each in found} == set(ENCODERS)
    assert set(inference.QUICK) <= {each.name for each in found}
    written = writers(found, "preset", 256, tmp_path)
    read, made = (
        {Path(path) for each in some for key, path in each.arguments.items() if key in _PLACES}
        for some in (found, written)
    )
    # Of an ONNX model of ours, the folder is written and the file is read.
    assert {path.parent if path.name == "model.onnx" else path for path in read} == made
    assert writers(found[:1], "preset", 256, tmp_path) == []


def test_by_case(results: dict[str, Any]) -> None:
    assert set(results) == {"sentences", "single texts"}
    row = results["sentences"][f"{OURS}, torch"]
    assert set(row) == {"texts_per_second", "tokens_per_second", "gigabytes", "difference"}
    assert row["tokens_per_second"]["median"] == 120
    assert row["difference"] == pytest.approx(0.003)
    assert results["single texts"][REFERENCE]["difference"] == 0
    assert set(results["single texts"][REFERENCE]) == {"p50", "p99", "gigabytes", "difference"}


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


def test_peers_that_are_missing_are_not_compared_with(results: dict[str, Any]) -> None:
    for rows in results.values():
        mine = {name: row for name, row in rows.items() if name.startswith(OURS)}
        assert inference.ratios(mine) == {name: {} for name in mine}
        assert inference.targets(inference.ratios(mine)) == []


def test_show(results: dict[str, Any]) -> None:
    console = Console(file=io.StringIO(), width=160)
    inference.show(results, [*CASES, Case("batch 1", ["a"], 1, 3, 3)], console)
    told = console.file.getvalue()
    assert "4 sentences, 4 tokens, batches of 2" in told
    assert "3.0e-03" in told
    assert told.count("Target") == 3
