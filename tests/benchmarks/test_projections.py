"""One product with concatenated weights equals three products."""

from __future__ import annotations

import io
import math

import numpy as np
import pytest
from keras import ops
from rich.console import Console

from benchmarks import projections
from tests.contracts import numpy


def test_both_ways_are_the_same() -> None:
    found = {}
    for way, (function, arguments) in projections._ways(5, 8).items():
        found[way] = [numpy(each) for each in function(*map(ops.convert_to_tensor, arguments))]
    assert [each.shape for each in found["apart"]] == [(5, 8)] * 3
    np.testing.assert_allclose(found["together"], found["apart"], atol=1e-5)


def test_they_are_measured_and_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projections, "SHAPES", {"few rows": (4, 8)})
    figures = projections.measured(0.001)()
    names = [f"few rows/{way}{kind}" for kind in ("", ", gradients") for way in projections.WAYS]
    assert sorted(figures) == sorted(names)
    assert all(math.isfinite(value) and value > 0 for value in figures.values())
    told = {name: {"median": number} for number, name in enumerate(names, start=2)}
    screen = io.StringIO()
    console = Console(file=screen, width=160)
    projections.show({"jax": told}, console)
    assert "0.67" in screen.getvalue()  # 2 with separate weights, 3 with concatenated weights
    assert "0.80" in screen.getvalue()  # 4 and 5, with gradients
