"""Processes: client programs without this package, and programs of this package to kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

_OURS = ("PYTHONPATH", "KERAS_BACKEND")
_ROOT = Path(__file__).parents[1]
_SECONDS = 300.0  # time limit for a program to make progress


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


def start_training(program: str, *arguments: str, folder: Path) -> subprocess.Popen[bytes]:
    """Start a program of `bert_keras.training` in a folder; its output is not kept."""
    return subprocess.Popen(
        [sys.executable, "-m", f"bert_keras.training.{program}", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
        stdout=subprocess.DEVNULL,
    )


def wait_until(process: subprocess.Popen[bytes], condition: Callable[[], bool]) -> None:
    """Wait for a condition; fail the test if the process ends before, or nothing happens."""
    end = time.monotonic() + _SECONDS
    while not condition():
        assert process.poll() is None, f"ended with {process.returncode} before it was killed"
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.001)


def kill(process: subprocess.Popen[bytes]) -> None:
    """End a process by SIGKILL, and check that this was its end."""
    process.kill()
    assert process.wait() == -signal.SIGKILL
