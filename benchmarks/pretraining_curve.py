"""Held-out loss over the time of training: an earlier commit of this package beside this one.

    python -m benchmarks.pretraining_curve --corpus FILES [--before COMMIT] [--steps 600]
        [--rounds 1] [--quick] [--plot FILE.png] [--out curve.json]

The recipe is wiki_mini, its text prepared once; both train on the same batches from the same
weights, on the backend of KERAS_BACKEND, in turn. Time is that of the steps; measuring between them
is not counted. Of several rounds a report's time is the median. Needs git and the commits.
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
_REPORT = 25  # steps
_RUN = {"log_every": _REPORT, "evaluate_every": 2, "eval_examples": 500, "export": "false"}
_QUICK = {"config": "bert_tiny_uncased", "batch_size": 8, "warmup_steps": 10, "vocab_size": 2_000}
_TEXT = {"validation_split": 0.06, "vocab_size": 16_000}

Point = dict[str, float]  # step, seconds, loss


def measured(
    commits: Mapping[str, str], options: argparse.Namespace, console: Console
) -> dict[str, list[Point]]:
    """The curve of each, by name.

    Args:
        commits: by name; "" for the files as they lie here.
        options: of the command.
        console: where it is told who runs.
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
            _program("training.prepare", {"corpus": options.corpus, "out": corpus, **_TEXT})
        rounds: dict[str, list[list[Point]]] = {name: [] for name in commits}
        for number in range(options.rounds):
            for name, place in places.items():
                console.print(f"round {number + 1} of {options.rounds}: {name}")
                out = scratch / f"{name}_{number}"
                given = values | {"corpus": corpus, "out": out}
                _program("training.pretrain", given, "wiki_mini", place=place)
                rounds[name].append(points(out))
    return {name: middle(found) for name, found in rounds.items()}


def points(run: Path) -> list[Point]:
    """Return the points of a run: steps and their seconds until each, and the held-out loss."""
    from bert_keras.resume import MetricsLog  # brings Keras, of which the runs have their own

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
    """Medians of rounds with the same steps."""
    return [
        {key: statistics.median(point[key] for point in same) for key in same[0]}
        for same in zip(*rounds, strict=True)
    ]


def seconds_to(curve: Sequence[Point], loss: float) -> float | None:
    """Return the seconds until the curve, linear between its points, reaches a loss; else None."""
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
    """The table; how many times as fast the second reaches what both reach, None if never."""
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
        f"Held-out loss {least:.3f}: {first:.0f} s before, {second:.0f} s after, "
        f"{first / second:.2f} times as fast."
    )
    return first / second


_DIGITS = {"seconds": 1, "loss": 3}


def _program(module: str, values: Mapping[str, Any], *words: str, place: Path = HERE) -> None:
    """Runs one of the programs, from the files in `place`."""
    command = [sys.executable, "-m", module, *words, *(f"{k}={v}" for k, v in values.items())]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{module} ended with {done.returncode}:\n{done.stderr[-3000:]}")


def main() -> None:
    """Measures, prints, draws, writes."""
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
        options.corpus = str(Path(options.corpus).resolve())  # programs run from other folders
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
