"""Seconds and peak memory of inference and of a training step, by sequence length.

    python -m benchmarks.long_sequences [--lengths 128 256 512 1024 2048 4096 8192] [--rounds 3]
        [--quick] [--only WORD …] [--out long.json] [--plot long.png] [--drawn-from long.json]

The model has few layers and 8,192 positions. bert_keras and KerasHub run on each backend,
transformers runs with SDPA. All lengths have the same number of tokens in a batch, so any growth
with the length is the cost of attention. Training uses attention dropout 0, which allows fused
kernels, and 0.1. KerasHub has a single rate for all its dropout.

The programs take turns at each length, and each round runs in a new process. Memory is counted
beyond the process before the model was built (`peak_memory.py`). First, all programs compute
vectors with the same weights at the shortest length. The largest difference to the vectors of
transformers is printed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import report
from benchmarks.contest import OURS, TRANSFORMERS, Contender, contenders, contest, summary
from benchmarks.mean_vectors import differences
from benchmarks.peak_memory import with_memory
from benchmarks.pictures import length_picture
from benchmarks.train_steppers import at_length

PACKAGES = ("bert-keras", "keras", "keras-hub", "tensorflow", "jax", "torch", "transformers")
LENGTHS = (128, 256, 512, 1024, 2048, 4096, 8192)
# A batch has 8,192 tokens, so that one row of the longest length fills it.
SIZES = {"layers": 2, "width": 256, "heads": 4, "batch": 64, "length": 128, "steps": 2}
QUICK = {"layers": 1, "width": 64, "heads": 2, "batch": 8, "length": 128, "steps": 2}
QUICK_LENGTHS, QUICK_MODES = (128, 512), 2
MODES: dict[str, dict[str, Any]] = {
    "inference": {"mode": "inference"},
    "training, attention dropout 0": {"mode": "training", "attention_dropout": 0.0},
    "training, attention dropout 0.1": {"mode": "training", "attention_dropout": 0.1},
}


def programs(mode: str, length: int, *, quick: bool = False) -> list[Contender]:
    """Return the contenders for one mode and length.

    Args:
        mode: a key of `MODES`.
        length: tokens of a row.
        quick: whether to use the tiny model.
    """
    sizes = {**at_length(QUICK if quick else SIZES, length), "positions": LENGTHS[-1]}
    return contenders(size=sizes, **MODES[mode])


def rows_of(mode: str, length: int, summaries: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a row of the report for each program.

    "time_ratio" and "memory_ratio" divide the best figure of a peer by the program's figure.

    Args:
        mode: a key of `MODES`.
        length: tokens of a row.
        summaries: figures of a `contest.summary`, by program.
    """
    figures = {
        name: (each["seconds_per_step"]["median"], each["beyond"]["median"])
        for name, each in summaries.items()
    }
    peers = [value for name, value in figures.items() if not name.startswith(OURS)]
    best = [min(values) for values in zip(*peers, strict=True)]
    return [
        {
            "mode": mode,
            "length": length,
            "program": name,
            "seconds": each["seconds_per_step"],
            "gigabytes": each["beyond"],
            "time_ratio": best[0] / figures[name][0] if best else None,
            "memory_ratio": best[1] / figures[name][1] if best else None,
        }
        for name, each in summaries.items()
    ]


def show(rows: list[dict[str, Any]], title: str, console: Console) -> None:
    """Print the table of one mode and length."""
    table = Table(title=title)
    table.add_column("program")
    for heading in ("s/step", "least - most", "best peer / this", "GiB", "leanest peer / this"):
        table.add_column(heading, justify="right")
    for row in rows:
        seconds = row["seconds"]
        ratios = [row["time_ratio"], row["memory_ratio"]]
        by_time, by_memory = ("" if value is None else f"{value:.2f}" for value in ratios)
        table.add_row(
            row["program"],
            f"{seconds['median']:.3f}",
            f"{seconds['least']:.3f} - {seconds['most']:.3f}",
            by_time,
            f"{row['gigabytes']['median']:.3f}",
            by_memory,
        )
    console.print(table)


def main() -> None:
    """Measure all lengths and modes, print tables, write a report and draw the plot."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.long_sequences", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--lengths", type=int, nargs="+", default=[], help=f"of {LENGTHS}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a tiny model, one backend, one round")
    parser.add_argument("--only", nargs="*", default=[], help="programs with these words in them")
    parser.add_argument("--out", type=Path, help="write the figures to this JSON file")
    parser.add_argument("--plot", type=Path, help="draw them into this PNG file")
    parser.add_argument("--drawn-from", type=Path, help="measure nothing, draw this JSON file")
    options, console = parser.parse_args(), Console()
    if options.drawn_from:
        drawn = json.loads(options.drawn_from.read_text(encoding="utf-8"))
        length_picture(drawn["results"], options.plot or options.drawn_from.with_suffix(".png"))
        return
    quick = options.quick
    words = options.only or (["bert_keras, torch", "transformers"] if quick else [""])
    lengths = options.lengths or (QUICK_LENGTHS if quick else LENGTHS)
    rounds = 1 if quick else options.rounds

    def chosen(mode: str, length: int) -> list[Contender]:
        every = programs(mode, length, quick=quick)
        return [each for each in every if any(word in each.name for word in words)]

    with tempfile.TemporaryDirectory() as folder:
        makers = chosen("inference", min(lengths))
        apart = differences(makers, TRANSFORMERS, Path(folder), console)
    console.print({name: f"{value:.1e}" for name, value in apart.items()})
    results = []
    for length in sorted(lengths):
        for mode in list(MODES)[: QUICK_MODES if quick else None]:
            programs_of = [with_memory(each) for each in chosen(mode, length)]
            figures = summary(contest(programs_of, rounds, console, together=False))
            rows = rows_of(mode, length, figures)
            show(rows, f"rows of {length}, {mode}, {rounds} rounds", console)
            results += rows
    report.write(
        options.out,
        report.command("long_sequences", sys.argv[1:]),
        PACKAGES,
        sizes=QUICK if quick else SIZES,
        differences=apart,
        results=results,
    )
    if options.plot:
        length_picture(results, options.plot)


if __name__ == "__main__":
    main()
