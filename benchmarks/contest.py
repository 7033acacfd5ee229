"""Programs that are measured in turn, each in a process of its own.

A Keras backend belongs to a process, and so does the memory that a program takes. Every contender
is started and warmed up; then they take turns, one round each, while the others sleep. As a program
this module is the process of a contender:

    python -m benchmarks.contest MODULE:FUNCTION ARGUMENTS

FUNCTION, called with the arguments (a JSON object), gives a function of no arguments that runs one
round and returns its figures, a dict of numbers.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console


@dataclass(frozen=True)
class Contender:
    """One of those who are measured.

    Attributes:
        name: as tables call it.
        function: "module:function" that prepares it.
        arguments: of the function, JSON values.
        backend: of Keras; "" where it uses none.
        environment: more variables of its process.
    """

    name: str
    function: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    backend: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)


Rounds = dict[str, list[dict[str, float]]]


def contest(
    contenders: Sequence[Contender], rounds: int, console: Console, *, together: bool = True
) -> Rounds:
    """The figures of every contender in every round; those who fail are told and left out.

    Args:
        contenders: by turns.
        rounds: how many each.
        console: where it is told who runs.
        together: whether all stay in memory between rounds; else each is started for each round.
    """
    found: Rounds = {}
    with ExitStack() as stack, console.status("") as status:
        running = {}
        for contender in contenders if together else ():
            status.update(f"{contender.name}: starting")
            try:
                running[contender.name] = stack.enter_context(_process(contender))
            except _FailedError as error:
                console.print(f"{contender.name}: not measured: {error}")
        for number in range(rounds):
            for contender in contenders:
                status.update(f"round {number + 1} of {rounds}: {contender.name}")
                try:
                    if not together:
                        with _process(contender) as process:
                            figures = process.round()
                    elif contender.name in running:
                        figures = running[contender.name].round()
                    else:
                        continue
                except _FailedError as error:
                    console.print(f"{contender.name}: not measured: {error}")
                    continue
                found.setdefault(contender.name, []).append(figures)
    return found


def summary(rounds: Rounds) -> dict[str, dict[str, dict[str, float]]]:
    """Median, least and most of each figure of each contender."""
    return {
        name: {
            key: {"median": statistics.median(values), "least": min(values), "most": max(values)}
            for key in figures[0]
            for values in [[each[key] for each in figures]]
        }
        for name, figures in rounds.items()
    }


class _FailedError(Exception):
    pass


class _Process:
    def __init__(self, contender: Contender, errors: Any):
        environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **contender.environment}
        if contender.backend:
            environment["KERAS_BACKEND"] = contender.backend
        command = [sys.executable, "-m", "benchmarks.contest", contender.function]
        self._errors = errors
        self._process = subprocess.Popen(
            [*command, json.dumps(dict(contender.arguments))],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        self._answer()

    def round(self) -> dict[str, float]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write("\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass
        return self._answer()

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _answer(self) -> dict[str, float]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self._errors.seek(0)
            last = [line for line in self._errors.read().splitlines() if line.strip()][-1:]
            raise _FailedError(*last)
        return json.loads(line)


@contextmanager
def _process(contender: Contender) -> Iterator[_Process]:
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
        process = _Process(contender, errors)
        try:
            yield process
        finally:
            process.stop()


def main() -> None:
    """The process of a contender: a line of JSON when it is ready, and one for each line read."""
    # What libraries print goes where errors go.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    module, _, function = sys.argv[1].partition(":")
    prepare = getattr(importlib.import_module(module), function)
    run = prepare(**json.loads(sys.argv[2]))
    print("{}", file=answers, flush=True)
    for _ in sys.stdin:
        figures = run()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # GiB, of KiB
        print(json.dumps({**figures, "gigabytes": peak}), file=answers, flush=True)


if __name__ == "__main__":
    main()
