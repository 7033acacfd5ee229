"""Reports say with what they were measured, and no path of a machine."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks import report
from benchmarks.report import circumstances, command
from training import machine


def test_the_command_without_files() -> None:
    arguments = ["--size", "base", "--out", "a/b.json", "--only", "jax", "a b", "--plot", "c.png"]
    found = command("memory", arguments)
    assert found == "python -m benchmarks.memory --size base --only jax 'a b'"
    assert command("memory", []) == "python -m benchmarks.memory"


def test_what_is_not_installed_has_no_version() -> None:
    found = circumstances(["keras", "no-such-package"])
    assert found["versions"]["no-such-package"] is None
    assert found["versions"]["keras"]
    assert found["machine"] == machine.facts()


def test_the_environment_is_told(monkeypatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--a=1")
    found = circumstances([])
    assert found["environment"]["XLA_FLAGS"] == "--a=1"
    assert set(found["environment"]) <= set(report.VARIABLES)
    assert found["commit"] is None or found["commit"].strip()


def test_a_report_is_written_where_a_file_is_named(tmp_path: Path) -> None:
    report.write(None, "python -m benchmarks.memory", ["keras"], results={"a": 1})
    assert not list(tmp_path.iterdir())
    report.write(tmp_path / "memory.json", "python -m benchmarks.memory", ["keras"], results=[1.5])
    found = json.loads((tmp_path / "memory.json").read_text(encoding="utf-8"))
    assert found["results"] == [1.5]
    assert found["command"] == "python -m benchmarks.memory"
    assert found["versions"].keys() == {"keras"}
