"""Programs that are measured in turn, each in a process of its own.

A Keras backend belongs to a process, and so does the memory that a program takes. The contenders
take turns, one round each, while the others sleep; before its first one each is started and warmed
up. As a program this module is the process of a contender:

    python -m benchmarks.contest CONTENDER

CONTENDER is a JSON object with the attributes of one. Its function, called with the arguments,
gives a function of no arguments that runs one round and returns its figures, a dict of numbers.
"""

from __future__ import annotations

import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from typing import IO, TYPE_CHECKING, Any

from benchmarks.process_facts import machine

if TYPE_CHECKING:  # what a contender's process does not need is not loaded into it
    from rich.console import Console


@dataclass(frozen=True)
class Contender:
    """One of those who are measured.

    Attributes:
        name: as tables call it.
        function: "module:function" that prepares it.
        arguments: of the function, JSON values.
        backend: of Keras; "" where it uses none.
        keeps_freed_memory: whether its C library does, as in our programs (`training.machine`).
        place: a folder whose `bert_keras` is meant; "" for the one beside this package.
    """

    name: str
    function: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    backend: str = ""
    keeps_freed_memory: bool = False
    place: str = ""


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
    running: dict[str, _Process] = {}
    with ExitStack() as stack, console.status("") as status:

        def figures_of(contender: Contender) -> dict[str, float]:
            if not together:
                with _process(contender) as process:
                    return process.round()
            if contender.name not in running:
                running[contender.name] = stack.enter_context(_process(contender))
            return running[contender.name].round()

        left = list(contenders)
        for number in range(rounds):
            for contender in tuple(left):
                status.update(f"round {number + 1} of {rounds}: {contender.name}")
                try:
                    found.setdefault(contender.name, []).append(figures_of(contender))
                except _FailedError as error:
                    console.print(f"{contender.name}: not measured: {error}")
                    found.pop(contender.name)
                    left.remove(contender)
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
    def __init__(self, process: subprocess.Popen[str], errors: IO[str]):
        self._process, self._errors = process, errors
        self._answer()

    def round(self) -> dict[str, float]:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # its answer, or the lack of one, says why
            self._process.stdin.write("\n")
            self._process.stdin.flush()
        return self._answer()

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
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    if contender.backend:
        environment["KERAS_BACKEND"] = contender.backend
    given = json.dumps(asdict(contender))
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors,
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.contest", given],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        yield _Process(process, errors)


def main() -> None:
    """The process of a contender: a line of JSON when it is ready, and one for each line read."""
    # What libraries print goes where errors go.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    contender = Contender(**json.loads(sys.argv[1]))
    if contender.keeps_freed_memory:
        machine.keep_freed_memory()
    if contender.place:
        sys.path.insert(0, contender.place)
    module, _, function = contender.function.partition(":")
    prepare = getattr(importlib.import_module(module), function)
    run = prepare(**contender.arguments)
    print("{}", file=answers, flush=True)
    for _ in sys.stdin:
        figures = run()
        peak = machine.peak_memory_bytes() or 0
        print(json.dumps({**figures, "gigabytes": peak / 2**30}), file=answers, flush=True)


if __name__ == "__main__":
    main()
