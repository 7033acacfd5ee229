"""Memory is counted from before the model is made, for its preparation and for its steps."""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import pytest

from benchmarks import peak_memory
from benchmarks.contest import Contender

HERE = "tests.benchmarks.test_peak_memory"
_GIB = 2**30

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="this platform has no /proc")


def ours(kept: int, passing: int, stepping: int) -> Callable[[], dict[str, float]]:
    """Return a function that allocates memory in each round.

    `kept` bytes stay allocated, and `passing` bytes are used during the preparation alone.
    """
    held = np.ones(kept, np.uint8)
    np.ones(passing, np.uint8)

    def run() -> dict[str, float]:
        return {"sum": float(held[0] + np.ones(stepping, np.uint8)[0])}

    return run


def test_two_peaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Peak memory is measured for the preparation, and for the steps above what it keeps."""
    monkeypatch.setattr(peak_memory, "_device_peak", lambda: None)
    mib = 2**20
    sizes = {"kept": 64 * mib, "passing": 256 * mib, "stepping": 128 * mib}
    contender = peak_memory.with_memory(Contender("one", f"{HERE}:ours", sizes))
    assert contender.function == "benchmarks.peak_memory:measured"
    found = peak_memory.measured(**contender.arguments)()
    assert found["sum"] == 2
    # The system counts whole pages, and other threads may free memory meanwhile.
    assert found["prepared"] == pytest.approx(320 * mib / _GIB, abs=24 * mib / _GIB)
    assert found["beyond"] == pytest.approx(192 * mib / _GIB, abs=24 * mib / _GIB)


def test_a_device_tells_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """On an accelerator, the peak is the one that the device reports."""
    monkeypatch.setattr(peak_memory, "_device_peak", lambda: 3 * _GIB)
    found = peak_memory.measured(f"{HERE}:ours", {"kept": 1, "passing": 1, "stepping": 1})()
    assert found == {"sum": 2.0, "beyond": 3.0, "prepared": 3.0}


def test_a_processor_has_no_device() -> None:
    peak = peak_memory._device_peak()
    assert peak is None or peak >= 0
