"""Profile of a training step on each backend: bert_keras, an earlier commit of it, and KerasHub.

    python -m benchmarks.step_profile [--size small|base] [--before COMMIT] [--rounds 3] [--quick]
        [--out profile.json] [--plot FILE.png]

COMMIT is an earlier commit of this package, by default the last one without kernels of its own.
--before "" leaves it out. Each program runs in a process of its own, and the programs take turns.
The table shows the milliseconds of all threads in a step by kind of operation, as the backend's
profiler reports them. They are medians over the rounds.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import report
from benchmarks.contest import (
    BACKENDS,
    BEFORE,
    KERAS_HUB,
    OURS,
    Contender,
    contest,
    summary,
    unpacked,
)
from benchmarks.pictures import profile_picture
from benchmarks.step_profilers import CLOCK, KINDS
from benchmarks.train_steppers import SIZES, sizes_of

PACKAGES = ("bert-keras", "keras", "keras-hub", "tensorflow", "jax", "torch")


def contenders(size: str, before: str = "") -> list[Contender]:
    """Return bert_keras and KerasHub on each backend.

    Args:
        size: a name in `SIZES`.
        before: folder with an earlier commit of bert_keras, measured as well; "" for none.
    """
    programs = [(OURS, "ours", ""), (KERAS_HUB, "keras_hub", "")]
    if before:
        programs.insert(1, (f"{OURS} before", "ours", before))
    return [
        Contender(
            f"{name}, {backend}",
            f"benchmarks.step_profilers:{backend}",
            {"function": function, "size": size},
            backend,
            place=place,
        )
        for backend in BACKENDS
        for name, function, place in programs
    ]


def show(summaries: dict[str, Any], title: str, console: Console) -> None:
    """Print a table with a column for each program and a row for each kind of operation."""
    table = Table(title=title)
    table.add_column("milliseconds of all threads")
    for name in summaries:
        table.add_column(name, justify="right")
    for kind in KINDS:
        table.add_row(kind, *(f"{figures[kind]['median']:.0f}" for figures in summaries.values()))
    sums = (sum(figures[kind]["median"] for kind in KINDS) for figures in summaries.values())
    table.add_row("all", *(f"{each:.0f}" for each in sums))
    table.add_row(CLOCK, *(f"{figures[CLOCK]['median']:.0f}" for figures in summaries.values()))
    console.print(table)


def main() -> None:
    """Profile all programs, print a table, write a report and draw the plot."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.step_profile", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--size", choices=tuple(SIZES), default="small")
    parser.add_argument("--before", default=BEFORE, help="an earlier commit")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one round, one backend")
    parser.add_argument("--out", type=Path, help="write the figures to this JSON file")
    parser.add_argument("--plot", type=Path, help="draw them into this PNG file")
    options, console = parser.parse_args(), Console()
    rounds = 1 if options.quick else options.rounds
    with tempfile.TemporaryDirectory() as folder:
        before = ""
        if options.before and not options.quick:  # a shallow checkout lacks earlier commits
            before = str(unpacked(options.before, Path(folder, "before")))
        chosen = [
            each
            for each in contenders(options.size, before)
            if not options.quick or each.backend == "torch"
        ]
        summaries = summary(contest(chosen, rounds, console, together=options.size == "small"))
    title = "{layers} layers, {width} wide, {batch} x {length}, float32".format(
        **sizes_of(options.size)
    )
    show(summaries, title, console)
    report.write(
        options.out,
        report.command("step_profile", sys.argv[1:]),
        PACKAGES,
        before=options.before if before else None,
        results=summaries,
    )
    if options.plot:
        profile_picture(summaries, KINDS, CLOCK, options.plot)


if __name__ == "__main__":
    main()
