"""Processes that run client programs without this package."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_OURS = ("PYTHONPATH", "KERAS_BACKEND")


def run_client(program: str, *arguments: str, folder: Path, **environment: str) -> str:
    """Run a Python program in a folder and return its output; fail the test if it fails."""
    return run_outside(sys.executable, "-c", program, *arguments, folder=folder, **environment)


def run_outside(*command: str, folder: Path, **environment: str) -> str:
    """Run a command in a folder and return its output; fail the test if it fails."""
    kept = {name: value for name, value in os.environ.items() if name not in _OURS}
    kept |= {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    done = subprocess.run(
        command, cwd=folder, env=kept | environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
