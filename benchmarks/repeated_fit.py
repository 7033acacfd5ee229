"""Seconds and memory of `fit` run after run in one process, as in cross-validation.

    python -m benchmarks.repeated_fit [--runs 5] [--quick] [--backends NAME …] [--out FILE.json]

Each backend runs in a new process and trains a small text classifier in two ways. The first way
builds a new task for every run, as in cross-validation. The second calls `fit` of one task again.
Resident memory is read after each run, when unreachable objects are collected and the allocator
has returned free memory. The first run of a process also compiles and fills caches. Processor
seconds are the sum over all threads. Other programs on the machine change them less than seconds
by the clock.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import report
from benchmarks.contest import BACKENDS
from benchmarks.peak_memory import release_memory, resident_bytes

PACKAGES = ("bert-keras", "keras", "tensorflow", "jax", "torch")
NEW, SAME = "a new task for every run", "one task, `fit` again"
_QUICK, _FULL = (16, 32), (256, 128)  # texts, width


def measure(runs: int, size: tuple[int, int]) -> dict[str, list[dict[str, float]]]:
    """Measure seconds, memory and loss of each run on the backend of this process.

    Args:
        runs: number of runs with new tasks, and number of runs of one task.
        size: number of texts, and hidden size.

    Returns:
        Figures of each run by `NEW` and `SAME`: "seconds", "processor_seconds", "loss" and
        "mebibytes".
    """
    import keras

    import bert_keras as bk

    count, width = size
    rng = random.Random(0)
    words = [first + second for first in "abcdefghij" for second in "klmnopqrst"]
    texts = [" ".join(rng.choices(words, k=20)) for _ in range(count)]
    labels = ["even" if text.count("a") % 2 == 0 else "odd" for text in texts]
    tokenizer = bk.Tokenizer.train([texts], vocab_size=60)
    config = bk.PRESETS["bert_tiny_uncased"].replace(
        vocab_size=tokenizer.vocab_size, hidden_size=width, intermediate_size=4 * width
    )

    def new() -> Any:
        keras.utils.set_random_seed(0)
        encoder = bk.BertEncoder(config)
        return bk.SequenceClassifier(encoder, labels=["even", "odd"], tokenizer=tokenizer)

    def fit(task: Any) -> float:
        history = task.fit(texts, labels, epochs=1, validation_split=0.2, verbose=0)
        return history.history["loss"][-1]

    task = new()
    ways: dict[str, Callable[[], float]] = {NEW: lambda: fit(new()), SAME: lambda: fit(task)}
    results: dict[str, list[dict[str, float]]] = {}
    for name, run in ways.items():
        results[name] = []
        for _ in range(runs):
            start, busy = time.perf_counter(), time.process_time()
            loss = run()
            row = {
                "seconds": time.perf_counter() - start,
                "processor_seconds": time.process_time() - busy,
                "loss": loss,
            }
            release_memory()
            results[name].append({**row, "mebibytes": resident_bytes() / 2**20})
    return results


def growth(rows: list[dict[str, float]]) -> tuple[float, float]:
    """Compare the last run with the second: ratio of processor seconds, difference in MiB."""
    first, last = rows[1], rows[-1]
    ratio = last["processor_seconds"] / first["processor_seconds"]
    return ratio, last["mebibytes"] - first["mebibytes"]


def show(results: dict[str, Any], console: Console) -> None:
    """Print seconds and resident memory of each run."""
    for backend, ways in results.items():
        for name, rows in ways.items():
            table = Table(title=f"{backend}: {name}")
            for heading in ("run", "seconds", "processor seconds", "resident MiB", "loss"):
                table.add_column(heading, justify="right")
            for number, row in enumerate(rows, 1):
                seconds = (f"{row['seconds']:.2f}", f"{row['processor_seconds']:.2f}")
                others = (f"{row['mebibytes']:.1f}", f"{row['loss']:.4f}")
                table.add_row(str(number), *seconds, *others)
            console.print(table)
            ratio, grown = growth(rows)
            console.print(
                f"The last run beside the second: {ratio:.2f} times the processor seconds, "
                f"{grown:+.1f} MiB."
            )


def main() -> None:
    """Measure each backend in a new process, print the figures and write them."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.repeated_fit", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--runs", type=int, default=5, help="runs of `fit`, at least 2")
    parser.add_argument("--quick", action="store_true", help="few texts, a narrow model")
    parser.add_argument("--backends", nargs="*", default=list(BACKENDS), choices=BACKENDS)
    parser.add_argument("--here", action="store_true", help="print the JSON of this process")
    parser.add_argument("--out", type=Path, help="write the figures to this JSON file")
    options, console = parser.parse_args(), Console()
    if options.runs < 2:
        parser.error("--runs must be at least 2")
    if options.here:
        sys.stdout.write(json.dumps(measure(options.runs, _QUICK if options.quick else _FULL)))
        return
    results = {}
    for backend in options.backends:
        command = [sys.executable, "-m", "benchmarks.repeated_fit", "--here"]
        command += ["--runs", str(options.runs), *(["--quick"] if options.quick else [])]
        environment = {**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
        results[backend] = json.loads(done.stdout.splitlines()[-1])
        show({backend: results[backend]}, console)
        report.write(
            options.out, report.command("repeated_fit", sys.argv[1:]), PACKAGES, results=results
        )


if __name__ == "__main__":
    main()
