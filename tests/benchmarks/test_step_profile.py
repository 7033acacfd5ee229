"""The table shows the time of each program by kind of operation, and the sum."""

from __future__ import annotations

import importlib
import inspect
import io

from rich.console import Console

from benchmarks import step_profile
from benchmarks.step_profilers import CLOCK, KINDS


def test_functions_take_their_arguments() -> None:
    assert len(step_profile.contenders("small")) == 6
    found = step_profile.contenders("small", "elsewhere")
    assert len({each.name for each in found}) == 9
    assert [each.place for each in found] == ["", "elsewhere", ""] * 3
    for each in found:
        module, _, name = each.function.partition(":")
        inspect.signature(getattr(importlib.import_module(module), name)).bind(**each.arguments)


def test_table() -> None:
    figures = {kind: {"median": 10.0 + number} for number, kind in enumerate((*KINDS, CLOCK))}
    screen = io.StringIO()
    console = Console(file=screen, width=200)
    step_profile.show({"one": figures}, "a step", console)
    told = screen.getvalue()
    assert all(kind in told for kind in KINDS)
    assert " 75 " in told  # sum of all kinds, and not the measured time of the step
    assert CLOCK in told
