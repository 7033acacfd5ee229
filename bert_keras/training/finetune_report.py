"""Results of a fine-tuning run: the best model, its predictions, tables and pictures."""

from __future__ import annotations

import dataclasses
import datetime
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
from rich.table import Table

from bert_keras import escaping, file_io, presets
from bert_keras.errors import Step, run_steps
from bert_keras.escaping import markdown, markdown_block
from bert_keras.metrics import Calibration, calibration
from bert_keras.tokenizers import Tokenizer
from bert_keras.training import machine, progress
from bert_keras.training.best_checkpoint import (
    CONSTANT,
    higher_is_better_value,
    is_metric,
    measure,
    scores_of,
    selection_metric,
    summary,
)
from bert_keras.training.finetune_data import Data
from bert_keras.training.finetune_recipe import FinetuneRecipe
from bert_keras.training.finetune_seed import open_best
from bert_keras.training.overrides import with_changes
from bert_keras.training.plots import (
    confusion_picture,
    curve_picture,
    length_lines,
    length_picture,
    reliability_lines,
    reliability_picture,
)
from bert_keras.training.pretrain_report import markdown_table
from bert_keras.training.progress import clock
from bert_keras.training.run import AGAIN
from bert_keras.training.run_folder import FinetuneFolder, TrainingFiles
from bert_keras.training.tasks import Evaluation, FinetuningTask

if TYPE_CHECKING:
    from bert_keras.training.finetune_grid_report import GridResults

_SHOWN = 200  # characters of an example
_MEASURED = 20_000  # examples whose lengths are drawn, evenly spread over all


def finish(
    recipe: FinetuneRecipe,
    finetuning: FinetuningTask,
    data: Data,
    tokenizer: Tokenizer,
    results: Sequence[Mapping[str, Any]],
    folder: FinetuneFolder,
    command: str,
    grid: GridResults | None = None,
) -> None:
    """Write the best seed's model and predictions, the report and the pictures; print a table.

    With tried values, `grid` has the results of all, and the other arguments are of the best ones.

    Raises:
        StepsFailedError: at the end, where one of the steps failed.
    """
    good = [result for result in results if "failed" not in result]
    if not good:
        lines = [
            _title(recipe),
            "",
            *_failures(results),
            *(grid.lines(()) if grid else ()),
            *_settings(with_changes(folder.values(recipe), folder.run), data, results, command),
        ]
        file_io.write_text(folder.report, "\n".join([*lines, ""]))
        return
    metric = selection_metric(recipe, good[0]["metrics"])
    values = [higher_is_better_value(metric, value) for value in scores_of(good, metric)]
    best = good[values.index(max(values))]
    finetuning = type(finetuning)(recipe, best["metrics"])
    trained = _Trained(
        *(recipe, finetuning, data, tokenizer, results, good, best, metric, folder, command),
        grid,
    )
    run_steps(STEPS, trained, done=f"{folder.path}: the training is done", again=AGAIN)


@dataclasses.dataclass
class _Trained:
    """A finished training, and the results of its last steps."""

    recipe: FinetuneRecipe
    finetuning: FinetuningTask
    data: Data
    tokenizer: Tokenizer
    results: Sequence[Mapping[str, Any]]
    good: Sequence[Mapping[str, Any]]
    best: Mapping[str, Any]
    metric: str  # that selects the best model
    folder: FinetuneFolder
    command: str
    grid: GridResults | None = None
    task: Any = None
    evaluation: Evaluation | None = None
    pictures: set[str] = dataclasses.field(default_factory=set)
    calibration: Calibration | None = None
    lengths: np.ndarray | None = None  # of a sample of the training rows, in tokens


def _open(trained: _Trained) -> None:
    """Open the best model of the best seed, which the next steps save and measure."""
    folder = trained.folder.of_seed(trained.best["seed"])
    trained.task = open_best(folder, trained.recipe.precision)


def _save_model(trained: _Trained) -> None:
    """Save the best model with its tokenizer and predictor options into the folder of the run."""
    predictor = trained.finetuning.predictor(trained.task, trained.tokenizer)
    predictor.save_to_preset(trained.folder.path, card=_card(trained))


def _card(trained: _Trained) -> dict[str, Any]:
    """Return the facts of the model card: the recipe, its data and the metrics.

    Files are named without their folders, and an encoder of this machine is not named.
    """
    recipe, good, data = trained.recipe, trained.good, trained.data
    names = [name for name in trained.best["metrics"] if is_metric(name)]
    train, dev = (Path(name).name for name in (recipe.train, recipe.dev))
    source = dev or f"the validation split of {train}"
    base_model = presets.repository_of(recipe.encoder)
    training = {
        "recipe": recipe.name,
        "task": recipe.task,
        "encoder": base_model,
        "examples": f"{len(data.train):,} of {train}",
        **{key: f"{getattr(recipe, key)}" for key in ("epochs", "batch_size", "max_length")},
        "seeds": f"{_seeds(good)}; this model: seed {trained.best['seed']}",
        "tried values": trained.grid.described() if trained.grid else "",
    }
    means = {name: summary(scores_of(good, name)) for name in names}
    return {
        "title": recipe.name,
        "base_model": base_model,
        "metrics": {name: trained.best["metrics"][name] for name in names},
        "measured_on": f"{len(data.validation):,} examples of {source}",
        "training": {key: value for key, value in training.items() if value},
        "seeds": means if len(good) > 1 else {},
    }


def _write_metrics(trained: _Trained) -> None:
    """Write metrics.json: the best seed and its metrics."""
    card = {name: trained.best[name] for name in ("seed", "metrics")}
    file_io.write_json(trained.folder.metrics, card)


def _measure(trained: _Trained) -> None:
    """Measure the best model on the validation examples again, for predictions and errors."""
    with progress.task(f"best model (seed {trained.best['seed']})") as show:
        trained.evaluation = measure(
            trained.finetuning, trained.task, trained.tokenizer, trained.data.validation, show
        )


def _write_predictions(trained: _Trained) -> None:
    """Write the best model's answers for the validation examples in the format of the task."""
    assert trained.evaluation is not None
    finetuning, predictions = trained.finetuning, trained.evaluation.predictions
    path = trained.folder.path / f"predictions.{finetuning.extension}"
    finetuning.write(path, trained.data.validation, predictions)


def _draw_curve(trained: _Trained) -> None:
    """Draw loss and metric of every seed over the steps into curve.png."""
    curves = {
        result["seed"]: _curve(
            TrainingFiles(trained.folder.of_seed(result["seed"])).metrics, trained.metric
        )
        for result in trained.good
    }
    curve_picture(curves, trained.metric, trained.folder.curve)
    trained.pictures.add(trained.folder.curve.name)


def _write_grid(trained: _Trained) -> None:
    """Write grid.json and grid.png, if values were tried."""
    if trained.grid is not None:
        trained.grid.write(trained.folder.path)
        trained.pictures.add(trained.grid.draw(trained.folder.path))


def _draw_confusion(trained: _Trained) -> None:
    """Draw the confusion matrix into confusion.png, for tasks that have one."""
    if trained.evaluation is not None and trained.evaluation.confusion is not None:
        names, counts = trained.evaluation.confusion
        confusion_picture(names, counts, trained.folder.confusion)
        trained.pictures.add(trained.folder.confusion.name)


def _draw_reliability(trained: _Trained) -> None:
    """Draw the reliability diagram into reliability.png, for tasks with probabilities."""
    if trained.evaluation is None or trained.evaluation.confidences is None:
        return
    confidence, is_right = trained.evaluation.confidences
    if len(confidence):
        trained.calibration = calibration(confidence, is_right)
        reliability_picture(trained.calibration, trained.folder.reliability)
        trained.pictures.add(trained.folder.reliability.name)


def _draw_lengths(trained: _Trained) -> None:
    """Draw a histogram of the training rows' lengths in tokens into lengths.png."""
    finetuning, train = trained.finetuning, trained.data.train
    if len(train) > _MEASURED:
        numbers = np.linspace(0, len(train) - 1, _MEASURED).astype(int)
        train = finetuning.take(train, numbers.tolist())
    lengths = finetuning.row_lengths(trained.tokenizer, train)
    if lengths is not None and len(lengths):
        trained.lengths = lengths
        length_picture(lengths, trained.recipe.max_length, trained.folder.lengths)
        trained.pictures.add(trained.folder.lengths.name)


def _write_report(trained: _Trained) -> None:
    """Write report.md."""
    file_io.write_text(trained.folder.report, "\n".join([*_report(trained), ""]))


def _print(trained: _Trained) -> None:
    """Print a table with mean and deviation of every metric, and the seeds that failed."""
    good = trained.good
    if trained.grid is not None:
        escaping.console().print(trained.grid.table())
    title = f"{trained.recipe.name}: {_seeds(good)}{_best_values(trained)}"
    table = Table("metric", "value", title=title)
    for metric in good[0]["metrics"]:
        table.add_row(metric, summary(scores_of(good, metric)))
    table.add_row("time", clock(sum(result["seconds"] for result in good)))
    for result in trained.results:
        if "failed" in result:
            table.add_row(f"seed {result['seed']}", f"failed: {result['failed']}")
        elif result.get("constant"):
            table.add_row(f"seed {result['seed']}", CONSTANT)
    escaping.console().print(table)
    print(f"\nModel, predictions and report: {trained.folder.path}/")


_MODEL_FILES = (
    *("model.safetensors", "*config*.json", "bert_keras.json", "predictor.json", "vocab.txt"),
    *("*token*.json", "modules.json", "1_Pooling", "README.md"),
)
STEPS = (
    Step("best model", _open),
    Step("model", _save_model, needs=("best model",), writes=_MODEL_FILES),
    Step("metrics", _write_metrics, writes=("metrics.json",)),
    Step("measurement", _measure, needs=("best model",)),
    Step("predictions", _write_predictions, needs=("measurement",), writes=("predictions.*",)),
    Step("grid", _write_grid, writes=("grid.json", "grid.png")),
    Step("curve", _draw_curve, writes=("curve.png",)),
    Step("confusion matrix", _draw_confusion, needs=("measurement",), writes=("confusion.png",)),
    Step(
        "reliability diagram",
        _draw_reliability,
        needs=("measurement",),
        writes=("reliability.png",),
    ),
    Step("length histogram", _draw_lengths, writes=("lengths.png",)),
    Step("report", _write_report, writes=("report.md",)),
    Step("summary", _print),
)


def _report(trained: _Trained) -> list[str]:
    """Return the lines of report.md: metrics, seeds, pictures, worst predictions, settings."""
    recipe, data, good, best = trained.recipe, trained.data, trained.good, trained.best
    evaluation, name = trained.evaluation, trained.metric
    score = f"{markdown(name)}: {summary(scores_of(good, name))}"
    lines = [
        _title(recipe),
        "",
        f"- **{score}** on {len(data.validation):,} examples, {_seeds(good)}"
        f"{_best_values(trained, markdown)}.",
    ]
    lines += _failures(trained.results)
    if trained.grid is not None:
        lines += trained.grid.lines(trained.pictures)
    if trained.folder.curve.name in trained.pictures:
        lines += ["", f"![{markdown(name)} over the steps]({trained.folder.curve.name})"]
    lines += ["", "## Every metric", ""]
    head = ("metric", "mean ± standard deviation", f"seed {best['seed']}, the best")
    rows = [
        (markdown(metric), summary(scores_of(good, metric)), summary([value]))
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
    if trained.folder.confusion.name in trained.pictures:
        picture = f"![Confusion matrix]({trained.folder.confusion.name})"
        lines += ["", "## Confusion matrix", "", picture]
    if trained.calibration is not None and trained.folder.reliability.name in trained.pictures:
        lines += reliability_lines(trained.calibration, trained.folder.reliability.name)
    if evaluation is not None and evaluation.worst:
        lines += ["", "## The worst predictions", ""]
        lines += ["Predictions of the best seed, the largest error first.", ""]
        rows = [
            (
                markdown(worst.text[:_SHOWN]),
                markdown(worst.right),
                markdown(worst.answered),
                f"{worst.score:.3f}",
            )
            for worst in evaluation.worst
        ]
        lines += markdown_table(rows, ("example", "true answer", "prediction", "error"))
    if trained.lengths is not None and trained.folder.lengths.name in trained.pictures:
        lines += length_lines(trained.lengths, recipe.max_length, trained.folder.lengths.name)
        if recipe.long_texts == "windows":
            lines += ["", f"Longer texts are read in windows of {recipe.max_length} tokens."]
    settings = with_changes(trained.folder.values(recipe), trained.folder.run)
    return lines + _settings(settings, data, good, trained.command)


def _title(recipe: FinetuneRecipe) -> str:
    """Return the heading of report.md."""
    return f"# {markdown(recipe.name)}: fine-tuning report"


def _failures(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a Markdown line for each seed that failed, or that predicts one label alone."""
    lines = []
    for result in results:
        if "failed" in result:
            lines.append(f"- **Seed {result['seed']} failed**: {markdown(result['failed'])}")
        elif result.get("constant"):
            lines.append(
                f"- **Seed {result['seed']} {CONSTANT}** (Mosbach et al., 2021). The means "
                "include it."
            )
    return lines


def _settings(
    settings: Mapping[str, Any], data: Data, good: Sequence[Mapping[str, Any]], command: str
) -> list[str]:
    """Return the lines on command, machine, versions and settings, to repeat the run."""
    lines = ["", "## Settings", "", *markdown_block(command), ""]
    memory = max((result.get("peak_memory") or 0 for result in good), default=0) or None
    rows = [
        ("date", datetime.date.today().isoformat()),
        ("machine", machine.described(machine.facts())),
        ("memory", f"{machine.gibibytes(memory)} at the peak"),
        ("backend", keras.backend.backend()),
        ("versions", ", ".join(f"{key} {value}" for key, value in machine.versions().items())),
        ("examples", f"{len(data.train):,} to learn from, {len(data.validation):,} to measure on"),
        *((key, markdown(repr(value))) for key, value in settings.items()),
    ]
    if not settings["learning_rate"] and good:
        rows.append(("default learning_rate", f"{good[0].get('learning_rate', 0.0):g}"))
    return [*lines, *markdown_table(rows, ("", ""))]


def _seeds(good: Sequence[Mapping[str, Any]]) -> str:
    """Return the seeds as text: "seed 0", or "seeds 0, 1"."""
    seeds = ", ".join(str(result["seed"]) for result in good)
    return f"seed{'s' if len(good) > 1 else ''} {seeds}"


def _best_values(trained: _Trained, escape: Callable[[str], str] = str) -> str:
    """Return the best of the tried values as text; "" without tried values."""
    return f" with {escape(trained.grid.point.label)}" if trained.grid else ""


def _curve(path: Path, metric: str) -> list[tuple[int, float, float]]:
    """Return step, training loss and the metric of every logging interval."""
    records = [file_io.parse_json(line, path) for line in path.read_bytes().splitlines()]
    values = [record.get(f"val_{metric}") for record in records]
    return [
        (record["step"], record["loss"], math.nan if value is None else value)
        for record, value in zip(records, values, strict=True)
    ]
