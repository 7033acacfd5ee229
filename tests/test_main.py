"""`python -m bert_keras` runs the command `bert-keras`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import bert_keras


def test_the_module_is_the_command() -> None:
    command = [sys.executable, "-m", "bert_keras", "--version"]
    run = subprocess.run(
        command, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout) == (0, f"bert-keras {bert_keras.__version__}\n")
