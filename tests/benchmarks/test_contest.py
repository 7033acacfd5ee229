"""Contenders take turns in their own processes. One that fails is reported and left out."""

from __future__ import annotations

import io
import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.contest import Contender, contest, summary

_ROOT = Path(__file__).parents[2]
HERE = "tests.benchmarks.test_contest"


def counting(first: int) -> Callable[[], dict[str, float]]:
    """Return a function that reports its round, its process and its backend."""
    print("libraries print")
    numbers = itertools.count(first)
    is_jax = os.environ.get("KERAS_BACKEND") == "jax"
    return lambda: {"number": next(numbers), "process": os.getpid(), "is_jax": is_jax}


def failing() -> Callable[[], dict[str, float]]:
    """Raise an error during the preparation."""
    raise ValueError("no such library")


@pytest.mark.parametrize("together", [True, False])
def test_turns(together: bool) -> None:
    """Contenders run their rounds in turn, on their own backends. One that fails is left out."""
    told = io.StringIO()
    contenders = [
        Contender("one", f"{HERE}:counting", {"first": 1}, backend="jax"),
        Contender("none", f"{HERE}:failing"),
        Contender("two", f"{HERE}:counting", {"first": 10}, backend="torch"),
    ]
    found = contest(contenders, 2, Console(file=told), together=together)
    assert list(found) == ["one", "two"]
    assert [each["is_jax"] for each in found["one"] + found["two"]] == [True, True, False, False]
    numbers = [[each["number"] for each in found[name]] for name in ("one", "two")]
    assert numbers == ([[1, 2], [10, 11]] if together else [[1, 1], [10, 10]])
    processes = {each["process"] for figures in found.values() for each in figures}
    assert len(processes) == (2 if together else 4)
    assert all(each["gigabytes"] > 0 for figures in found.values() for each in figures)
    assert told.getvalue().count("none: not measured: ValueError: no such library") == 1


def whose_package() -> Callable[[], dict[str, float]]:
    """Return a function that reports which `bert_keras` it imports."""
    import bert_keras

    return lambda: {"age": getattr(bert_keras, "AGE", 0)}


def test_an_earlier_package(tmp_path: Path) -> None:
    (tmp_path / "bert_keras").mkdir()
    (tmp_path / "bert_keras" / "__init__.py").write_text("AGE = 3\n", encoding="utf-8")
    here = Contender("here", f"{HERE}:whose_package")
    earlier = Contender("earlier", f"{HERE}:whose_package", place=str(tmp_path))
    found = contest([here, earlier], 1, Console(file=io.StringIO()))
    assert [each["age"] for name in ("here", "earlier") for each in found[name]] == [0, 3]


_PARTS = ("contest", "mean_vectors", "peak_memory", "starters", "train_steppers")


def test_the_process_of_a_peer_has_nothing_of_ours() -> None:
    """The process of a peer imports nothing of this package.

    `import bert_keras` would register layers there, and would count in its memory and time.
    """
    code = f"import {', '.join(f'benchmarks.{part}' for part in _PARTS)}, sys\n"
    code += "print([name for name in sys.modules if name.startswith('bert_keras')])"
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    assert run.stdout == "[]\n", run.stdout + run.stderr


def test_summary() -> None:
    found = summary({"one": [{"seconds": 3.0}, {"seconds": 1.0}, {"seconds": 2.0}]})
    assert found == {"one": {"seconds": {"median": 2.0, "least": 1.0, "most": 3.0}}}
