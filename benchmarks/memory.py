"""Peak memory of a training step and of inference, beside KerasHub and transformers.

    python -m benchmarks.memory [--size small|base] [--lengths 128 512] [--rounds 3] [--quick]
        [--only WORD …] [--out memory.json]

All lengths have the same number of tokens in a batch. The programs take turns, and each round runs
in a new process (`contest.py`, together=False). The figures are memory beyond the process before
the model was built (`peak_memory.py`): weights, optimizer and activations. The options are settings
that save memory:

- no attention dropout, which allows fused kernels (with KerasHub no dropout at all);
- gradient checkpointing;
- a loss that takes the vocabulary in parts;
- bfloat16.

Ratios are to the peer that takes the least memory with the same option.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import report
from benchmarks.contest import OURS, Contender, contenders, contest, summary
from benchmarks.peak_memory import with_memory
from benchmarks.report import training_bytes, weights
from benchmarks.train_steppers import SIZES, at_length

PACKAGES = ("bert-keras", "keras", "keras-hub", "tensorflow", "jax", "torch", "transformers")
OPTIONS: dict[str, dict[str, dict[str, Any]]] = {
    "training": {
        "": {},
        "attention dropout 0": {"attention_dropout": 0.0},
        "gradients checkpointed": {"checkpointed": True},
        "vocabulary in 8 parts": {"chunks": 8},
        "mixed_bfloat16": {"dtype": "mixed_bfloat16"},
    },
    "inference": {"": {}, "mixed_bfloat16": {"dtype": "mixed_bfloat16"}},
}
_TINY = {"layers": 4, "width": 128, "heads": 2, "batch": 8, "length": 128, "steps": 2}
_QUICK = {"training": ("", "gradients checkpointed"), "inference": ("",)}


def programs(mode: str, sizes: Mapping[str, int]) -> dict[str, list[Contender]]:
    """Return the contenders by option.

    Args:
        mode: "training" or "inference".
        sizes: sizes of the model and the batch.
    """
    return {
        option: contenders(mode, sizes, **arguments, option=option)
        for option, arguments in OPTIONS[mode].items()
    }


def ratios(summaries: dict[str, Any], by_option: dict[str, list[Contender]]) -> dict[str, float]:
    """Return the ratio of each peak to the lowest peak of a peer with the same option.

    Args:
        summaries: figures of a `contest.summary`, by program.
        by_option: contenders by option. Options without a measured peer have no ratios.
    """
    peaks = {name: figures["beyond"]["median"] for name, figures in summaries.items()}
    shares = {}
    for members in by_option.values():
        names = [each.name for each in members if each.name in peaks]
        least = min((peaks[name] for name in names if not name.startswith(OURS)), default=None)
        if least:
            shares |= {name: peaks[name] / least for name in names}
    return shares


def show(
    summaries: dict[str, Any], compared: dict[str, float], title: str, console: Console
) -> None:
    """Print the table of one mode and length."""
    table = Table(title=title)
    table.add_column("program")
    for heading in ("GiB", "least - most", "prepared, GiB", "s/step", "ratio to the leanest peer"):
        table.add_column(heading, justify="right")
    for name, figures in summaries.items():
        beyond = figures["beyond"]
        table.add_row(
            name,
            f"{beyond['median']:.3f}",
            f"{beyond['least']:.3f} - {beyond['most']:.3f}",
            f"{figures['prepared']['median']:.3f}",
            f"{figures['seconds_per_step']['median']:.3f}",
            f"{compared[name]:.2f}" if name in compared else "",
        )
    console.print(table)


def main() -> None:
    """Measure all modes, lengths and options, print tables, and write a report."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.memory", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--size", choices=tuple(SIZES), default="small")
    parser.add_argument("--lengths", type=int, nargs="+", default=[128, 512], help="of rows")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a tiny model, one backend, one round")
    parser.add_argument("--only", nargs="*", default=[], help="programs with these words in them")
    parser.add_argument("--out", type=Path, help="write the figures to this JSON file")
    options, console = parser.parse_args(), Console()
    words = options.only or (["torch", "transformers"] if options.quick else [""])
    size: Any = _TINY if options.quick else options.size
    rounds = 1 if options.quick else options.rounds
    results = []
    for mode in OPTIONS:
        for length in options.lengths[:1] if options.quick else options.lengths:
            sizes = at_length(size, length)
            by_option = programs(mode, sizes)
            chosen = [
                each
                for option, members in by_option.items()
                if not options.quick or option in _QUICK[mode]
                for each in members
                if any(word in each.name for word in words)
            ]
            summaries = summary(
                contest([*map(with_memory, chosen)], rounds, console, together=False)
            )
            compared = ratios(summaries, by_option)
            title = "{layers} layers, {width} wide, {batch} x {length}".format(**sizes)
            held = training_bytes(sizes) if mode == "training" else 4 * weights(sizes)
            title += f", {mode}, {rounds} rounds; weights"
            title += " with gradients and moments" if mode == "training" else ""
            show(summaries, compared, f"{title}: {held / 2**30:.3f} GiB", console)
            results.append(
                {
                    "mode": mode,
                    "sizes": sizes,
                    "weights": held,
                    "ratios": compared,
                    "found": summaries,
                }
            )
    report.write(
        options.out,
        report.command("memory", sys.argv[1:]),
        PACKAGES,
        results=results,
    )


if __name__ == "__main__":
    main()
