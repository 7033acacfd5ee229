"""Speed and memory of a step of masked language modelling, beside KerasHub and transformers.

    python -m benchmarks.train_step [--size small|base] [--dtype float32|mixed_bfloat16]
        [--rounds 5] [--keep-freed-memory] [--variants] [--quick]
        [--only WORD …] [--out train_step.json]

Each program runs in a process of its own, and the programs take turns (`contest.py`). The table
shows median and spread over the rounds, peak memory, and the ratio to the best other library. The
rows are full, so there is no padding. Matrix products are measured in the same run. Useful FLOP/s
(`report.py`) are shown as a share of the best product rate.

With --keep-freed-memory the C library of every program keeps freed memory, as in our training
programs (`training.machine`). --variants also measures other arguments of `compile` for bert_keras.
`jit_compile=True` uses XLA on TensorFlow and `torch.compile` on PyTorch, where "auto" compiles
nothing. `steps_per_execution` runs several steps at once.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import report
from benchmarks.contest import BACKENDS, OURS, TRANSFORMERS, Contender, contest, summary
from benchmarks.contest import contenders as usual_contenders
from benchmarks.report import PEAK, peak_of, peaks, training_flops
from benchmarks.train_steppers import SIZES, predictions_of, sizes_of

PACKAGES = ("bert-keras", "keras", "keras-hub", "tensorflow", "jax", "torch", "transformers")
# For --variants: arguments of `compile` that differ from its defaults, and their backends.
COMPILED: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "jit_compile": ({"jit_compile": True}, ("tensorflow", "torch")),
    "steps_per_execution": ({"steps_per_execution": 3}, ("tensorflow", "jax")),
}


def contenders(size: str, dtype: str, *, variants: bool = False) -> list[Contender]:
    """Return the programs of this benchmark.

    They are bert_keras and KerasHub on each backend, transformers with and without
    `torch.compile`, and matrix products.

    Args:
        size: a name in `SIZES`.
        dtype: a Keras dtype policy.
        variants: whether to add bert_keras with other arguments of `compile`.
    """
    plain = {each.name: each for each in usual_contenders("training", sizes_of(size), dtype)}

    def varied(name: str, word: str, arguments: dict[str, Any]) -> Contender:
        of = plain[name]
        return replace(of, name=f"{name}, {word}", arguments={**of.arguments, **arguments})

    programs = [*plain.values(), varied(TRANSFORMERS, "compiled", {"compiled": True})]
    for word, (arguments, backends) in (COMPILED if variants else {}).items():
        programs += [varied(f"{OURS}, {backend}", word, arguments) for backend in backends]
    return [*programs, *peaks(dtype, BACKENDS)]


def show(summaries: dict[str, Any], operations: int, title: str, console: Console) -> None:
    """Print a table with a row for each program.

    Args:
        summaries: figures of a `contest.summary`, by program, with matrix products.
        operations: useful floating-point operations of a step.
        title: title of the table.
        console: where the table is printed.
    """
    peak = peak_of(summaries)
    summaries = {name: figures for name, figures in summaries.items() if not name.startswith(PEAK)}
    table = Table(title=title)
    table.add_column("program")
    headings = ("tokens/s", "least - most", "s/step", "GiB", "GFLOP/s", "of the peak")
    for heading in (*headings, "ratio to the best peer"):
        table.add_column(heading, justify="right")
    rates = {name: figures["tokens_per_second"]["median"] for name, figures in summaries.items()}
    best = max((rate for name, rate in rates.items() if not name.startswith(OURS)), default=None)
    for name, figures in summaries.items():
        rate, seconds = figures["tokens_per_second"], figures["seconds_per_step"]["median"]
        table.add_row(
            name,
            f"{rate['median']:,.0f}",
            f"{rate['least']:,.0f} - {rate['most']:,.0f}",
            f"{seconds:.3f}",
            f"{figures['gigabytes']['most']:.2f}",
            f"{operations / seconds / 1e9:.1f}",
            f"{100 * operations / seconds / peak:.0f} %" if peak else "",
            f"{rate['median'] / best:.2f}" if best else "",
        )
    console.print(table)


def main() -> None:
    """Measure all programs, print a table, and write a report."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.train_step", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--size", choices=tuple(SIZES), default="small")
    parser.add_argument("--dtype", default="float32", help="a Keras dtype policy")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--keep-freed-memory", action="store_true", help="for all of them")
    parser.add_argument("--variants", action="store_true", help="ours compiled otherwise too")
    parser.add_argument("--quick", action="store_true", help="one round, one backend")
    parser.add_argument("--only", nargs="*", default=[], help="programs with these words in them")
    parser.add_argument("--out", type=Path, help="write the figures to this JSON file")
    options, console = parser.parse_args(), Console()
    words = ["tensorflow", "transformers"] if options.quick else [""]
    if options.only:
        words = [*options.only, PEAK]
    chosen = [
        replace(each, keeps_freed_memory=options.keep_freed_memory)
        for each in contenders(options.size, options.dtype, variants=options.variants)
        if any(word in each.name for word in words)
        and not (options.quick and "compiled" in each.name)
    ]
    rounds = 1 if options.quick else options.rounds
    # Most machines cannot hold eight BERT-base models with their optimizers at the same time.
    summaries = summary(contest(chosen, rounds, console, together=options.size == "small"))
    size = sizes_of(options.size)
    operations = training_flops(size, predictions_of(size["length"]))
    title = "{layers} layers, {width} wide, {batch} x {length}".format(**size)
    show(summaries, operations, f"{title}, {options.dtype}, {rounds} rounds", console)
    report.write(
        options.out,
        report.command("train_step", sys.argv[1:]),
        PACKAGES,
        useful_flops=operations,
        results=summaries,
    )


if __name__ == "__main__":
    main()
