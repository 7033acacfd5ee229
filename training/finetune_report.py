"""What came of a fine-tuning run: the best model, its predictions, tables and pictures."""

from __future__ import annotations

import dataclasses
import datetime
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
from rich.table import Table

from bert_keras import atomic, escaping, strict_json
from bert_keras.escaping import markdown, markdown_block
from bert_keras.tokenizers import Tokenizer
from training import machine, progress
from training.finetune_best import counting, goodness, measure
from training.finetune_data import Data
from training.finetune_folder import FinetuneFolder
from training.finetune_plot import confusion_picture, curve_picture
from training.finetune_recipe import FinetuneRecipe
from training.finetune_seed import METRICS, open_best
from training.health import versions
from training.kinds import Evaluation, Kind
from training.progress import clock
from training.report import markdown_table

_SHOWN = 200  # characters of an example
# Mosbach et al., 2021 (arXiv:2006.04884) call such runs failed.
_CONSTANT = "it has one answer for all examples; means over the seeds count it"


def finish(
    recipe: FinetuneRecipe,
    kind: Kind,
    data: Data,
    tokenizer: Tokenizer,
    results: Sequence[Mapping[str, Any]],
    folder: FinetuneFolder,
    command: str,
) -> None:
    """Writes the best seed's model and predictions, the report and the pictures; prints a table."""
    good = [result for result in results if "failed" not in result]
    if not good:
        lines = [_title(recipe), "", *_failures(results), *_how(recipe, data, results, command)]
        atomic.write_text(folder.report, "\n".join([*lines, ""]))
        return
    name = counting(recipe, good[0]["metrics"])
    best = max(good, key=lambda result: goodness(name, result["metrics"].get(name)))
    task = open_best(folder.of_seed(best["seed"]), recipe.precision)
    kind = type(kind)(recipe, best["metrics"])
    with progress.task(f"seed {best['seed']}, the best") as show:
        found = measure(kind, task, tokenizer, data.dev, show)
    kind.predictor(task, tokenizer).save_to_preset(folder.path)
    kind.write(folder.path / f"predictions.{kind.extension}", data.dev, found.predictions)
    curves = {
        result["seed"]: _curve(folder.of_seed(result["seed"]) / METRICS, name) for result in good
    }
    curve_picture(curves, name, folder.curve)
    if found.confusion is not None:
        names, counts = found.confusion
        confusion_picture(names, counts, folder.confusion)
    card = {"seed": best["seed"], "metrics": best["metrics"]}
    atomic.write_json(folder.metrics, card)
    lines = _report(recipe, data, results, good, best, found, name, command)
    atomic.write_text(folder.report, "\n".join([*lines, ""]))
    _print(recipe, good, results)
    print(f"\nModel, predictions and report: {folder.path}/")


def summary(values: Sequence[float | None]) -> str:
    """Mean, and the standard deviation of several; "nan" where one is not defined."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    if len(known) < len(values):
        return "nan"
    mean = f"{statistics.fmean(known):.4f}"
    return f"{mean} ± {statistics.stdev(known):.4f}" if len(known) > 1 else mean


def _report(
    recipe: FinetuneRecipe,
    data: Data,
    results: Sequence[Mapping[str, Any]],
    good: Sequence[Mapping[str, Any]],
    best: Mapping[str, Any],
    found: Evaluation,
    name: str,
    command: str,
) -> list[str]:
    score = f"{markdown(name)}: {summary(_values(good, name))}"
    lines = [_title(recipe), "", f"- **{score}** on {len(data.dev):,} examples, {_seeds(good)}."]
    lines += _failures(results)
    lines += ["", f"![{markdown(name)} over the steps](curve.png)", "", "## Every metric", ""]
    head = ("metric", "mean ± standard deviation", f"seed {best['seed']}, the best")
    rows = [
        (markdown(metric), summary(_values(good, metric)), summary([value]))
        for metric, value in best["metrics"].items()
    ]
    lines += markdown_table(rows, head)
    lines += ["", "## Every seed", ""]
    rows = [
        (
            str(result["seed"]),
            summary([result["metrics"].get(name)]),
            f"{result['step']:,} of {result['steps']:,}",
            clock(result["seconds"]),
        )
        for result in good
    ]
    lines += markdown_table(rows, ("seed", markdown(name), "best step", "time"))
    if found.confusion is not None:
        lines += ["", "## What was taken for what", "", "![Confusion matrix](confusion.png)"]
    if found.worst:
        lines += ["", "## The worst answers", "", "Of the best seed, the surest first.", ""]
        rows = [
            (markdown(w.text[:_SHOWN]), markdown(w.right), markdown(w.answered), f"{w.score:.3f}")
            for w in found.worst
        ]
        lines += markdown_table(rows, ("example", "right", "answered", "how wrong"))
    return lines + _how(recipe, data, good, command)


def _title(recipe: FinetuneRecipe) -> str:
    return f"# {markdown(recipe.name)}: fine-tuning report"


def _failures(results: Sequence[Mapping[str, Any]]) -> list[str]:
    reasons = {result["seed"]: _why(result) for result in results}
    return [f"- **Seed {seed} failed**: {markdown(why)}" for seed, why in reasons.items() if why]


def _why(result: Mapping[str, Any]) -> str:
    """Why a seed failed; "" if it did not."""
    return result.get("failed") or (_CONSTANT if result.get("constant") else "")


def _how(
    recipe: FinetuneRecipe, data: Data, good: Sequence[Mapping[str, Any]], command: str
) -> list[str]:
    lines = ["", "## How it was made", "", *markdown_block(command), ""]
    memory = max((result.get("peak_memory") or 0 for result in good), default=0) or None
    rows = [
        ("date", datetime.date.today().isoformat()),
        ("machine", machine.described(machine.facts())),
        ("memory", f"{machine.gibibytes(memory)} at the peak"),
        ("backend", keras.backend.backend()),
        ("versions", ", ".join(f"{key} {value}" for key, value in versions().items())),
        ("examples", f"{len(data.train):,} to learn from, {len(data.dev):,} to measure on"),
        *((key, markdown(repr(value))) for key, value in dataclasses.asdict(recipe).items()),
    ]
    return [*lines, *markdown_table(rows, ("", ""))]


def _seeds(good: Sequence[Mapping[str, Any]]) -> str:
    seeds = ", ".join(str(result["seed"]) for result in good)
    return f"seed{'s' if len(good) > 1 else ''} {seeds}"


def _print(
    recipe: FinetuneRecipe,
    good: Sequence[Mapping[str, Any]],
    results: Sequence[Mapping[str, Any]],
) -> None:
    table = Table("metric", "value", title=f"{recipe.name}: {_seeds(good)}")
    for metric in good[0]["metrics"]:
        table.add_row(metric, summary(_values(good, metric)))
    table.add_row("time", clock(sum(result["seconds"] for result in good)))
    for result in results:
        if why := _why(result):
            table.add_row(f"seed {result['seed']}", f"failed: {why}")
    escaping.console().print(table)


def _curve(path: Path, metric: str) -> list[tuple[int, float, float]]:
    """Step, training loss and the metric of every report."""
    records = [strict_json.parse(line, path) for line in path.read_bytes().splitlines()]
    values = [record.get(f"val_{metric}") for record in records]
    return [
        (record["step"], record["loss"], math.nan if value is None else value)
        for record, value in zip(records, values, strict=True)
    ]


def _values(results: Sequence[Mapping[str, Any]], metric: str) -> list[float | None]:
    """Of every seed; a metric of a type that no text of a seed was given is not there."""
    return [result["metrics"].get(metric) for result in results]
