"""Speed of building pretraining batches on one core, beside other libraries.

    python -m benchmarks.data [--quick] [--corpus DIR] [--sequence-length 128] [--out data.json]

The builders of bert_keras do all work from the token store to a batch: pairs, truncation, packing
and masking. The other libraries only mask rows that are already in memory. One builder of
bert_keras does only that too, so that equal work can be compared. All builders take turns. The
table shows medians over the turns, by the clock and in processor time. Other programs on the
machine hardly change processor time. The exit code is 1 if the goal is missed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

# Limit the process to one core before any library starts its threads.
for _threads in ("OMP_NUM", "MKL_NUM", "OPENBLAS_NUM", "TF_NUM_INTRAOP", "TF_NUM_INTEROP"):
    os.environ.setdefault(f"{_threads}_THREADS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

import numpy as np  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from benchmarks import report  # noqa: E402
from benchmarks.batch_builders import (  # noqa: E402
    SPECIALS,
    Builder,
    from_corpus,
    masking_alone,
    synthetic,
)
from bert_keras import Tokenizer  # noqa: E402
from bert_keras.data import Corpus, PretrainingExamples, fill_rows  # noqa: E402

GOAL = 1_000_000  # real tokens per second, and examples packed per second
PACKED = 128  # row length for sequence packing
SIZES: dict[str, Any] = {"sequence_length": 128, "batch_size": 32}
PACKAGES = ("bert-keras", "keras", "keras-hub", "numpy", "tensorflow", "torch", "transformers")

Times = dict[str, list[tuple[float, float]]]


def measure(builders: list[Builder], turns: int, seconds: float, console: Console) -> Times:
    """Measure the seconds per batch of each builder.

    Args:
        builders: builders to measure in turn.
        turns: number of turns, after a first turn that is not counted.
        seconds: approximate duration of a turn of a builder.
        console: shows the progress.

    Returns:
        By name of the builder, a pair for each turn: seconds by the clock, processor seconds.
    """
    times: Times = {builder.name: [] for builder in builders}
    built = dict.fromkeys(times, 0)
    with console.status("") as status:
        for turn in range(turns + 1):
            for name, _, build in builders:
                status.update(f"turn {turn} of {turns}: {name}")
                begin, cpu, count = time.perf_counter(), time.process_time(), 0
                while (spent := time.perf_counter() - begin) < seconds or not count:
                    build(built[name] + count)
                    count += 1
                built[name] += count
                if turn:
                    times[name].append((spent / count, (time.process_time() - cpu) / count))
    return times


def results(builders: list[Builder], times: Times, tokens: float) -> list[dict[str, Any]]:
    """Return the figures of each builder.

    "ratio" compares a builder with the first builder of bert_keras that does the same work.

    Args:
        builders: the measured builders.
        times: result of `measure`.
        tokens: mean number of real tokens in a batch.
    """
    rows, bases = [], {}
    for name, whole, _ in builders:
        clock, cpu = zip(*times[name], strict=True)
        middle = statistics.median(clock)
        figures = {"name": name, "from_corpus": whole, "seconds_per_batch": middle}
        figures |= {"fastest": min(clock), "slowest": max(clock)}
        figures |= {"cpu_seconds_per_batch": statistics.median(cpu)}
        figures |= {"tokens_per_second": tokens / middle}
        rows.append(figures | {"ratio": middle / bases.setdefault(whole, middle)})
    return rows


def show(rows: list[dict[str, Any]], turns: int, sizes: dict[str, int], console: Console) -> None:
    """Print a table with a row for each builder."""
    shape = "{batch_size} x {sequence_length}".format(**sizes)
    table = Table(title=f"Pretraining batches of {shape}, one core, {turns} turns")
    table.add_column("builder")
    for heading in ("ms", "fastest - slowest", "CPU ms", "M tokens/s", "time : ours"):
        table.add_column(heading, justify="right")
    for figures, following in zip(rows, [*rows[1:], rows[-1]], strict=True):
        table.add_row(
            figures["name"],
            f"{figures['seconds_per_batch'] * 1e3:.3f}",
            f"{figures['fastest'] * 1e3:.3f} - {figures['slowest'] * 1e3:.3f}",
            f"{figures['cpu_seconds_per_batch'] * 1e3:.3f}",
            f"{figures['tokens_per_second'] / 1e6:.2f}",
            f"{figures['ratio']:.2f}",
            end_section=figures["from_corpus"] != following["from_corpus"],
        )
    console.print(table)


def plan_seconds(num_sentences: int) -> float:
    """Measure the seconds to plan an epoch over one long document and a short one.

    Args:
        num_sentences: sentences of the long document.
    """
    lengths = np.random.default_rng(0).integers(1, 50, num_sentences).tolist()
    corpus = Corpus.from_ids([[[5] * length for length in lengths], [[5], [5]]])
    examples = PretrainingExamples(corpus, Tokenizer([*SPECIALS, "word"]), **SIZES)
    begin = time.perf_counter()
    examples.num_batches(0)
    return time.perf_counter() - begin


def packed_per_second(count: int) -> float:
    """Measure sequence packing, in examples per second.

    Args:
        count: number of examples, with random lengths like those of sentences.
    """
    lengths = np.clip(np.random.default_rng(0).lognormal(3.0, 0.6, count), 1, PACKED).astype(int)
    begin = time.perf_counter()
    fill_rows(lengths, PACKED)
    return count / (time.perf_counter() - begin)


def main() -> None:
    """Measure all builders, planning and packing, print the figures, and write a report."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.data", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--quick", action="store_true", help="less text, fewer and shorter turns")
    parser.add_argument("--corpus", type=Path, help="a prepared token store; default: made-up text")
    parser.add_argument("--tokenizer", type=Path, help="folder of its vocabulary; default: DIR's")
    length = SIZES["sequence_length"]
    parser.add_argument("--sequence-length", type=int, default=length, help="tokens of a row")
    parser.add_argument("--out", type=Path, help="write the figures to this JSON file")
    options, console = parser.parse_args(), Console()
    sizes = {**SIZES, "sequence_length": options.sequence_length}
    turns, seconds = (3, 0.1) if options.quick else (9, 0.5)
    if options.corpus:
        corpus = Corpus.open(options.corpus)
        tokenizer = Tokenizer.from_preset(options.tokenizer or options.corpus.parent)
    else:
        corpus, tokenizer = synthetic(8_000 if options.quick else 100_000)
    examples = PretrainingExamples(corpus, tokenizer, **sizes)
    contents = examples.statistics(0, batches=50)
    tokens = contents["tokens"] / contents["batches"]
    builders = [*from_corpus(corpus, tokenizer, **sizes), *masking_alone(examples)]
    rows = results(builders, measure(builders, turns, seconds, console), tokens)
    show(rows, turns, sizes, console)
    planned = 100_000 if options.quick else 1_000_000
    plan = plan_seconds(planned)
    console.print(f"Plan of an epoch, one document of {planned:,} sentences: {plan:.2f} s")
    packed = packed_per_second(planned)
    console.print(f"Packing of {planned:,} examples: {packed / 1e6:.1f} M examples/s")
    reached = rows[0]["tokens_per_second"] >= GOAL and packed >= GOAL
    flags = ["--quick"] * options.quick + ["--corpus DIR"] * bool(options.corpus)
    flags += ["--tokenizer DIR"] * bool(options.tokenizer)
    words = ["python -m benchmarks.data", *flags, f"--sequence-length {options.sequence_length}"]
    goal = f"{GOAL:,} real tokens and packed examples/s"
    console.print(f"Goal of {goal}: {'reached' if reached else 'MISSED'}")
    report.write(
        options.out,
        " ".join(words),
        PACKAGES,
        sizes=sizes,
        corpus={"tokens": corpus.num_tokens, "sentences": corpus.num_sentences},
        tokens_per_batch=tokens,
        statistics=contents,
        results=rows,
        plan={"sentences": planned, "seconds": plan},
        packing={"examples": planned, "row_length": PACKED, "examples_per_second": packed},
    )
    sys.exit(0 if reached else 1)


if __name__ == "__main__":
    main()
