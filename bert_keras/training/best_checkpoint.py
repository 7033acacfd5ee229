"""Metrics that choose a model, and a callback that measures and keeps the best weights."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import keras
import numpy as np

from bert_keras import file_io
from bert_keras.errors import ArtifactError, NumericError, UsageError
from bert_keras.models import Distiller, PackedTask, Task
from bert_keras.tokenizers import Tokenizer
from bert_keras.training.finetune_recipe import FinetuneRecipe
from bert_keras.training.tasks import Evaluation, FinetuningTask

_NO_METRIC = "_thresh"  # end of the names of thresholds, which are no metrics
_LOWER = ("mean_squared_error",)  # metrics of which a lower value is better
_STEP = "step.txt"  # file beside the best model, with the step it was reached at
# Mosbach et al., 2021 (arXiv:2006.04884) call such runs failed.
CONSTANT = "predicts one label for all examples"
_MEASURING = "measuring validation examples"


def measure(
    finetuning: FinetuningTask,
    task: Task | PackedTask | Distiller,
    tokenizer: Tokenizer,
    data: Any,
    progress: Callable[[int, int | None, str], None] | None = None,
) -> Evaluation:
    """Evaluate a model on examples. For a view such as `Distiller`, evaluate the task it trains.

    Args:
        finetuning: task of the recipe, which computes the metrics.
        task: model of that task, or a view that trains one.
        tokenizer: tokenizer of the model.
        data: the examples, in the form that `finetuning.read` returns.
        progress: called with the number of examples that are done, their total, and a text that
            names the work.
    """
    predictor = finetuning.predictor(task.trained_model(), tokenizer)
    if progress is not None:
        progress(0, None, _MEASURING)
        predictor.progress = lambda done, total: progress(done, total, _MEASURING)
    return finetuning.evaluate(predictor, data)


def checked_selection_metric(recipe: FinetuneRecipe, metrics: Mapping[str, Any]) -> str:
    """Return the name of the metric that selects the best model: the recipe's, or the first.

    Raises:
        UsageError: the evaluation has no metric with the name in the recipe.
    """
    known = [name for name in metrics if is_metric(name)]
    if recipe.metric and recipe.metric not in known:
        raise UsageError(
            f"metric must be one of {', '.join(known)}. Received: metric={recipe.metric!r}"
        )
    return selection_metric(recipe, metrics)


def is_metric(name: str) -> bool:
    """Return whether a value of an evaluation is a metric, and not a threshold."""
    return not name.endswith(_NO_METRIC)


def selection_metric(recipe: FinetuneRecipe, metrics: Mapping[str, Any]) -> str:
    """Return the same name as `checked_selection_metric`, without checking it.

    The metric of an entity type is missing if no entity of that type was predicted.
    """
    return recipe.metric or next(iter(metrics))


def higher_is_better_value(name: str, value: float | None) -> float:
    """Return a value of a metric so that higher is better; an undefined value is the worst."""
    if value is None or math.isnan(value):
        return -math.inf
    return -value if name in _LOWER else value


def summary(values: Sequence[float | None]) -> str:
    """Return the mean, and the standard deviation of several; "nan" if one is not defined."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    if len(known) < len(values):
        return "nan"
    mean = f"{statistics.fmean(known):.4f}"
    return f"{mean} ± {statistics.stdev(known):.4f}" if len(known) > 1 else mean


def scores_of(results: Sequence[Mapping[str, Any]], metric: str) -> list[float | None]:
    """Return the metric of every seed; None where a seed predicted no entity of that type."""
    return [result["metrics"].get(metric) for result in results]


class KeepBest(keras.callbacks.Callback):
    """Callback that measures after every logging interval, writes the best model, and stops early.

    Put it first in the list of callbacks: it adds the metrics to the logs that others write.

    Args:
        recipe: recipe of the run; `metric`, `keep` and `patience` are used.
        finetuning: task of the recipe, which computes the metrics.
        validation: the examples to measure on.
        tokenizer: tokenizer of the model.
        folder: folder of the best model, which each better model replaces as a whole.
        log_every: steps of a logging interval.
        state: state of the run, new or from its last checkpoint.
        progress: callback of `measure`.
    """

    def __init__(
        self,
        recipe: FinetuneRecipe,
        finetuning: FinetuningTask,
        validation: Any,
        tokenizer: Tokenizer,
        folder: Path,
        log_every: int,
        state: Mapping[str, Any],
        progress: Callable[[int, int | None, str], None] | None = None,
    ):
        super().__init__()
        self._recipe, self._finetuning = recipe, finetuning
        self._validation, self._tokenizer = validation, tokenizer
        self._folder, self._log_every, self._progress = folder, log_every, progress
        self.intervals = state["step"] // log_every
        self.state = {
            name: state[name] for name in ("best", "best_step", "constant", "waited", "aside")
        }
        # A killed run may have written a best model after its last checkpoint. The resumed run
        # must write the best model again at that step, because its weights may differ slightly.
        self._written = _step_of(folder)

    @property
    def score_name(self) -> str:
        """Name of the metric that selects the best model; "score" before it is known."""
        return selection_metric(self._recipe, self.state["best"] or {"score": None})

    @property
    def is_over(self) -> bool:
        """True when patience has run out."""
        return 0 < self._recipe.patience <= self.state["waited"]

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Check the metric that the recipe names, by measuring once before the first step.

        The names are not known without measuring, because entities have metrics for each type.

        Raises:
            UsageError: the evaluation has no metric of that name.
        """
        del logs
        if self._recipe.metric and not self.intervals:
            start = perf_counter()
            checked_selection_metric(self._recipe, self._measure().metrics)
            self.state["aside"] += perf_counter() - start

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Measure the model, add its metrics to the logs, and save it if it is the best one.

        Raises:
            NumericError: the loss or a weight is not finite.
        """
        logs = {} if logs is None else logs
        self._check_numbers(float(logs["loss"]), (epoch + 1) * self._log_every)
        self.intervals = epoch + 1
        if self._recipe.keep == "last" and self.intervals < self.params["epochs"]:
            return
        start = perf_counter()
        evaluation = self._measure()
        values = evaluation.stored
        name = selection_metric(self._recipe, values)
        score = values.get(name)
        logs |= {f"val_{key}": evaluation.metrics[key] for key in values}
        logs["val_score"] = math.nan if score is None else score
        best, step = self.state["best"], self.intervals * self._log_every
        previous = None if best is None else higher_is_better_value(name, best.get(name))
        is_better = previous is None or higher_is_better_value(name, score) > previous
        if is_better or self._written == step > self.state["best_step"]:
            self._save(step, values)
            self.state |= {"best": values, "best_step": step, "constant": evaluation.is_constant}
            self.state["waited"] = 0
        else:
            self.state["waited"] += 1
        self.state["aside"] += perf_counter() - start
        if self.is_over:
            self.model.stop_training = True

    def _measure(self) -> Evaluation:
        """Return the evaluation of the model, as it is now, on the validation examples."""
        examples, tokenizer = self._validation, self._tokenizer
        return measure(self._finetuning, self.model, tokenizer, examples, self._progress)

    def _check_numbers(self, loss: float, step: int) -> None:
        """Raise `NumericError` if the loss or a trainable weight is not finite at a step."""
        weights = (keras.ops.convert_to_numpy(v) for v in self.model.trainable_variables)
        if math.isfinite(loss) and all(np.isfinite(weight).all() for weight in weights):
            return
        way = ""
        if (self._folder.parent / "checkpoints").exists():
            way = (
                " A lower learning_rate= with override=learning_rate goes on from the last "
                "checkpoint."
            )
        fault = "not all weights are" if math.isfinite(loss) else f"the loss is {loss}, not"
        raise NumericError(
            f"At step {step} {fault} finite. A lower learning_rate, a longer warmup, clip_norm=1 "
            f"or precision=float32 help most often, in a new run (out=FOLDER).{way}"
        )

    def _save(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Write the model as the best one, with its metrics and the step it was reached at."""
        self._written = 0  # the best model of the killed run is replaced
        finetuning = type(self._finetuning)(self._recipe, metrics)
        with file_io.new_folder(self._folder) as folder:
            finetuning.predictor(self.model.trained_model(), self._tokenizer).save_to_preset(folder)
            file_io.write_text(folder / _STEP, f"{step}\n")


def _step_of(folder: Path) -> int:
    """Return the step after which the best model was written; 0 if there is none."""
    path = folder / _STEP
    if not path.is_file():
        return 0
    text = path.read_bytes().strip()
    if not text.isdigit():
        raise ArtifactError(
            f"{path}: expected the number of a step. Received: {text[:80]!r}. Remove {folder}, and "
            "repeat the command."
        )
    return int(text)
