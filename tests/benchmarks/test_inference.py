"""Contenders of the inference benchmark, and the figures that are kept of each case."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import inference
from benchmarks.contest import summary
from benchmarks.embedders import ENCODERS, Case
from benchmarks.inference import OURS, REFERENCE, contenders, vectors_of, writers
from benchmarks.report import PEAK

CASES = [
    Case("sentences", ["a b"] * 4, 2, tokens=16, longest=4, operations=1_000),
    Case("single texts", ["a"] * 2, 1, tokens=6, longest=3, operations=1_000, one_by_one=True),
]
# Texts per second, milliseconds, and the largest difference of the vectors.
FIGURES = {f"{OURS}, torch": (30.0, 4.0, 0.003), REFERENCE: (10.0, 8.0, 0.0)}


_PLACES = {"file", "folder"}


@pytest.fixture
def results(tmp_path: Path) -> dict[str, Any]:
    rounds = {}
    for name, (rate, late, gap) in FIGURES.items():
        figures = {"sentences/texts_per_second": rate, "sentences/tokens_per_second": 4 * rate}
        latency = {"single texts/p50": late, "single texts/p99": 2 * late}
        rounds[name] = [{**figures, **latency, "gigabytes": 0.5}]
        vectors: dict[str, Any] = {case.name: np.full((len(case.texts), 3), gap) for case in CASES}
        np.savez(vectors_of(tmp_path, name), **vectors)
    return inference.by_case(summary(rounds), CASES, tmp_path)


def test_every_contender_has_a_way_and_its_file(tmp_path: Path) -> None:
    found = contenders("preset", 256, tmp_path)
    assert len({each.name for each in found}) == len(found)
    encoders = [each for each in found if not each.name.startswith(PEAK)]
    assert {each.arguments["encoder"] for each in encoders} == set(ENCODERS)
    assert set(inference.QUICK) <= {each.name for each in found}
    written = writers(encoders, "preset", 256, tmp_path)
    read, made = (
        {Path(path) for each in some for key, path in each.arguments.items() if key in _PLACES}
        for some in (encoders, written)
    )
    # The folder of our ONNX model is written, but the contender reads the file in it.
    assert {path.parent if path.name == "model.onnx" else path for path in read} == made
    assert writers(found[:1], "preset", 256, tmp_path) == []


def test_every_contender_takes_its_arguments(tmp_path: Path) -> None:
    programs = contenders("preset", 256, tmp_path)
    for each in (*programs, *writers(programs, "preset", 256, tmp_path)):
        module, _, name = each.function.partition(":")
        function = getattr(importlib.import_module(module), name)
        inspect.signature(function).bind(**each.arguments)


def test_by_case(results: dict[str, Any]) -> None:
    """Results are grouped by case, each with its own figures."""
    assert set(results) == {"sentences", "single texts"}
    row = results["sentences"][f"{OURS}, torch"]
    assert set(row) == {"texts_per_second", "tokens_per_second", "gigabytes", "difference"}
    assert row["tokens_per_second"]["median"] == 120
    assert row["difference"] == pytest.approx(0.003)
    assert results["single texts"][REFERENCE]["difference"] == 0
    assert set(results["single texts"][REFERENCE]) == {"p50", "p99", "gigabytes", "difference"}
