"""The commands of `bert-keras` that are programs of `bert_keras.training`."""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path

import pytest

from bert_keras import cli
from bert_keras.cli_programs import PROGRAMS

_ROOT = Path(__file__).parents[1]


def _call(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> object:
    monkeypatch.setattr(sys, "argv", ["bert-keras", *arguments])
    with pytest.raises(SystemExit) as end:
        cli.main()
    return end.value.code or 0


@pytest.mark.parametrize("command", PROGRAMS)
def test_every_program_has_its_own_help(command: str, monkeypatch, capsys) -> None:
    assert _call(monkeypatch, command, "--help") == 0
    shown = capsys.readouterr().out
    assert f"bert-keras {command} " in " ".join(shown.split())


def test_every_program_is_a_command() -> None:
    """A module of bert_keras.training with a `main` is called by a name."""
    modules = {module for module, _, _ in PROGRAMS.values()}
    found = set()
    for path in (_ROOT / "bert_keras" / "training").glob("*.py"):
        if "\nif __name__ ==" in path.read_text(encoding="utf-8"):
            found.add(path.stem)
    assert found == modules


@pytest.mark.parametrize("module", sorted({module for module, _, _ in PROGRAMS.values()}))
def test_a_clone_runs_the_same_program(module: str) -> None:
    """`python -m training.X` forwards: its `main` is that of bert_keras.training, no copy."""
    forwarded = importlib.import_module(f"training.{module}")
    own = importlib.import_module(f"bert_keras.training.{module}")
    assert forwarded.main is own.main
    assert len(inspect.getsource(forwarded).splitlines()) <= 10


def test_errors_and_exit_codes_reach_the_command(monkeypatch, capsys) -> None:
    assert _call(monkeypatch, "pretrain", "demmo") == 2
    assert "Did you mean 'demo'?" in capsys.readouterr().err
    assert _call(monkeypatch, "evaluate", "data=a.csv") == 2
    assert "Name a run: bert-keras evaluate RUN" in capsys.readouterr().err
