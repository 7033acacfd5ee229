"""Facts of every report of a benchmark: date, machine, versions, command."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.process_facts import machine
from bert_keras.file_io import write_text

# What of the environment changes a figure.
VARIABLES = ("KERAS_BACKEND", "XLA_FLAGS", "OMP_NUM_THREADS", "JAX_PLATFORMS")


def write(path: Path | None, command: str, packages: Iterable[str], **facts: Any) -> None:
    """Writes a report as JSON.

    Args:
        path: of the file; None to write none.
        command: that gave the figures.
        packages: whose versions matter.
        facts: JSON values by name: the figures.

    Raises:
        SystemExit: it cannot be written there; an earlier report stays as it was.
    """
    if path is not None:
        found = {"command": command, **circumstances(packages), **facts}
        try:
            write_text(path, json.dumps(found, indent=1) + "\n")
        except OSError as error:
            raise SystemExit(f"{path}: cannot be written: {error.strerror}.") from error


def circumstances(packages: Iterable[str]) -> dict[str, Any]:
    """Date, commit, environment, machine and versions; None for what is not installed."""
    return {
        "date": time.strftime("%Y-%m-%d"),
        "commit": _commit(),
        "environment": {name: os.environ[name] for name in VARIABLES if name in os.environ},
        "machine": machine.facts(),
        "versions": {name: _version(name) for name in packages},
    }


def command(program: str, arguments: Sequence[str]) -> str:
    """Return the arguments of a program, less the files that it wrote.

    Args:
        program: of benchmarks/.
        arguments: `sys.argv[1:]`, options before their values.
    """
    words = ["python", "-m", f"benchmarks.{program}"]
    before = ""
    for word in arguments:
        if not {before, word} & {"--out", "--plot"}:
            words.append(word)
        before = word
    return shlex.join(words)


def _commit() -> str | None:
    """The commit of this checkout, "-dirty" where files were changed; None outside of one."""
    asked = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        return subprocess.check_output(asked, stderr=subprocess.DEVNULL, text=True).strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
