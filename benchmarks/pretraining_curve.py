"""Validation loss over the seconds of training: an earlier commit beside the working tree.

    python -m benchmarks.pretraining_curve --corpus FILES [--before COMMIT] [--steps 600]
        [--rounds 1] [--quick] [--plot FILE.png] [--out curve.json]

The recipe is wiki_mini. Its text is prepared once. Both commits train with the same batches and the
same initial weights, on the backend of KERAS_BACKEND, in turn. Only the time of the steps counts,
without the evaluations between them. With several rounds the times are medians. The program needs
git and the history with the commit.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import report
from benchmarks.contest import BEFORE, HERE, unpacked
from benchmarks.pictures import curve_picture

PACKAGES = ("bert-keras", "keras", "tensorflow", "jax", "torch")
_REPORT = 25  # steps of a report
_RUN = {"log_every": _REPORT, "evaluate_every": 2, "eval_examples": 500, "export": "false"}
_QUICK = {"config": "bert_tiny_uncased", "batch_size": 8, "warmup_steps": 10, "vocab_size": 2_000}
_TEXT = {"validation_split": 0.06, "vocab_size": 16_000}

Point = dict[str, float]  # step, seconds, loss


def measured(
    commits: Mapping[str, str], options: argparse.Namespace, console: Console
) -> dict[str, list[Point]]:
    """Train all commits in turn, and return their validation curves by name.

    Args:
        commits: commits by name; "" for the working tree.
        options: options of the command line.
        console: where the progress is printed.
    """
    values: dict[str, Any] = {**_RUN, "steps": options.steps}
    if options.quick:
        values |= _QUICK
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        places = {
            name: unpacked(commit, scratch / name) if commit else HERE
            for name, commit in commits.items()
        }
        corpus: Any = options.corpus
        if not options.quick:
            corpus = scratch / "corpus"
            run_program("training.prepare", {"corpus": options.corpus, "out": corpus, **_TEXT})
        rounds: dict[str, list[list[Point]]] = {name: [] for name in commits}
        for number in range(options.rounds):
            for name, place in places.items():
                console.print(f"round {number + 1} of {options.rounds}: {name}")
                out = scratch / f"{name}_{number}"
                overrides = values | {"corpus": corpus, "out": out}
                run_program("training.pretrain", overrides, "wiki_mini", place=place)
                rounds[name].append(points(out))
    return {name: middle(curves) for name, curves in rounds.items()}


def points(run: Path) -> list[Point]:
    """Return the validation curve of a run.

    Args:
        run: folder of the run.

    Returns:
        For each evaluation "step", "seconds" of all steps so far, and "loss".
    """
    from bert_keras.resume import MetricsLog  # imports Keras, which this process needs only here

    seconds, total = {}, 0.0
    for record in MetricsLog(run / "speed.jsonl").records():
        total += record["seconds"]
        seconds[record["step"]] = total
    return [
        {
            "step": record["step"],
            "seconds": seconds[record["step"]],
            "loss": record["val_mlm_loss"],
        }
        for record in MetricsLog(run / "metrics.jsonl").records()
        if "val_mlm_loss" in record
    ]


def middle(rounds: Sequence[Sequence[Point]]) -> list[Point]:
    """Return the medians over rounds with the same steps."""
    return [
        {key: statistics.median(point[key] for point in same) for key in same[0]}
        for same in zip(*rounds, strict=True)
    ]


def seconds_to(curve: Sequence[Point], loss: float) -> float | None:
    """Return the seconds until a curve reaches a loss.

    Args:
        curve: points, between which the loss is interpolated linearly.
        loss: the loss to reach.

    Returns:
        Seconds of training; None if the curve does not reach the loss.
    """
    last = None
    for point in curve:
        if point["loss"] <= loss:
            if last is None or last["loss"] == point["loss"]:
                return point["seconds"]
            share = (last["loss"] - loss) / (last["loss"] - point["loss"])
            return last["seconds"] + share * (point["seconds"] - last["seconds"])
        last = point
    return None


def show(curves: Mapping[str, Sequence[Point]], console: Console) -> float | None:
    """Print the table, and compare the seconds to the lowest loss that both curves reach.

    Args:
        curves: the earlier and the later curve, by name.
        console: where the table is printed.

    Returns:
        Seconds of the first curve divided by seconds of the second; None if a curve does not
        reach the loss.
    """
    before, after = curves.values()
    table = Table("step", *(f"{name}: {what}" for name in curves for what in ("seconds", "loss")))
    for one, other in zip(before, after, strict=True):
        cells = (f"{p[key]:.{digits}f}" for p in (one, other) for key, digits in _DIGITS.items())
        table.add_row(f"{one['step']:,.0f}", *cells)
    console.print(table)
    least = max(min(point["loss"] for point in curve) for curve in curves.values())
    first, second = (seconds_to(curve, least) for curve in curves.values())
    if first is None or second is None:
        return None
    console.print(
        f"Validation loss {least:.3f}: {first:.0f} s before, {second:.0f} s after, "
        f"{first / second:.2f} times as fast."
    )
    return first / second


_DIGITS = {"seconds": 1, "loss": 3}


def run_program(module: str, values: Mapping[str, Any], *words: str, place: Path = HERE) -> None:
    """Run a training program of the repository in `place`.

    Raises:
        SystemExit: the program failed.
    """
    command = [sys.executable, "-m", module, *words, *(f"{k}={v}" for k, v in values.items())]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{module} ended with {done.returncode}:\n{done.stderr[-3000:]}")


def main() -> None:
    """Train both commits, print a table, write a report and draw the curves."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pretraining_curve", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--corpus", help="the text: enwiki_20MB.txt")
    parser.add_argument("--before", default=BEFORE, help="the earlier commit")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="a tiny model, few steps, own text")
    parser.add_argument("--plot", type=Path, help="draw the curves into this PNG file")
    parser.add_argument("--out", type=Path, help="write the figures to this JSON file")
    options, console = parser.parse_args(), Console()
    if options.quick:
        options.corpus, options.steps = "demo", 4 * _REPORT
    elif options.corpus:
        options.corpus = str(Path(options.corpus).resolve())  # the programs run in other folders
    else:
        parser.error("--corpus FILES, or --quick")
    curves = measured({"before": options.before, "after": ""}, options, console)
    ratio = show(curves, console)
    size = ["--quick"] if options.quick else ["--corpus FILES", f"--steps {options.steps}"]
    words = ["python -m benchmarks.pretraining_curve", *size, f"--before {options.before}"]
    command = " ".join([*words, f"--rounds {options.rounds}"])
    report.write(options.out, command, PACKAGES, times_as_fast=ratio, results=curves)
    if options.plot:
        curve_picture(curves, options.plot)


if __name__ == "__main__":
    main()
