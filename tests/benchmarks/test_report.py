"""Reports say with what they were measured, and no path of a machine."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from benchmarks import report
from benchmarks.report import circumstances, command
from bert_keras.training import machine


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


def test_a_report_that_cannot_be_written_is_one_message(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"missing.*x\.json: cannot be written: No such file"):
        report.write(tmp_path / "missing" / "x.json", "python -m benchmarks.memory", [])


def test_an_earlier_report_outlives_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.json"
    path.write_text("earlier")

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SystemExit, match="No space left on device"):
        report.write(path, "python -m benchmarks.memory", [])
    assert path.read_text() == "earlier"


def test_a_report_is_written_where_a_file_is_named(tmp_path: Path) -> None:
    report.write(None, "python -m benchmarks.memory", ["keras"], results={"a": 1})
    assert not list(tmp_path.iterdir())
    report.write(tmp_path / "memory.json", "python -m benchmarks.memory", ["keras"], results=[1.5])
    found = json.loads((tmp_path / "memory.json").read_text(encoding="utf-8"))
    assert found["results"] == [1.5]
    assert found["command"] == "python -m benchmarks.memory"
    assert found["versions"].keys() == {"keras"}
