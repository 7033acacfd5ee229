"""The best checkpoint: measurement, comparison, early stopping, and continuation of a run."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bert_keras.errors import ArtifactError, NumericError, UsageError
from bert_keras.training import best_checkpoint
from bert_keras.training.best_checkpoint import (
    KeepBest,
    checked_selection_metric,
    higher_is_better_value,
)
from bert_keras.training.finetune_recipe import FinetuneRecipe
from bert_keras.training.tasks import Evaluation


class _Model:
    """Stand-in for a model with the attributes that the callback uses."""

    def __init__(self) -> None:
        self.interval = 0
        self.stop_training = False
        self.trainable_variables = [np.zeros(2, np.float32)]

    def trained_model(self) -> _Model:
        return self


class _Kind:
    """Stand-in for a fine-tuning task whose predictor saves the number of the logging interval."""

    def __init__(self, _recipe: FinetuneRecipe, measured: Any):
        self.measured = measured

    def predictor(self, model: Any, _tokenizer: Any) -> Any:
        def save(folder: Path) -> None:
            (folder / "interval").write_text(str(model.interval))
            (folder / "measured").write_text(json.dumps(self.measured))

        return SimpleNamespace(save_to_preset=save)


@pytest.fixture
def keep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Return a function that evaluates `values` in turn and returns callback, model and logs."""

    def make(values: list[float], name: str = "accuracy", state: dict | None = None, **recipe: Any):
        found = iter(values)
        monkeypatch.setattr(
            best_checkpoint, "measure", lambda *_: Evaluation({name: next(found), "other": 1.0}, [])
        )
        of_run = FinetuneRecipe(task="text_classification", **recipe)
        kind: Any = _Kind(of_run, None)
        tokenizer: Any = None
        start = {"step": 0, "best": None, "best_step": 0, "constant": False, "waited": 0}
        best = KeepBest(
            *(of_run, kind, None, tokenizer, tmp_path / "best", 10),
            {**start, "aside": 0.0, **(state or {})},
        )
        model = _Model()
        best.set_model(model)
        best.set_params({"epochs": best.intervals + len(values)})
        records = []
        for interval in range(best.intervals, best.intervals + len(values)):
            model.interval = interval + 1
            records.append({"loss": 0.5})
            best.on_epoch_end(interval, records[-1])
            if model.stop_training:
                break
        return best, model, records

    return make


def _saved(folder: Path) -> int:
    return int((folder / "best" / "interval").read_text())


def test_the_best_is_kept_and_of_equals_the_first(keep, tmp_path: Path) -> None:
    best, _, records = keep([0.5, 0.8, 0.8, 0.7])
    assert _saved(tmp_path) == 2
    assert best.state.pop("aside") > 0
    measured = {"accuracy": 0.8, "other": 1.0}
    assert best.state == {"best": measured, "best_step": 20, "constant": False, "waited": 2}
    assert json.loads((tmp_path / "best" / "measured").read_text()) == measured
    assert records[3] == {"loss": 0.5, "val_accuracy": 0.7, "val_other": 1.0, "val_score": 0.7}


def test_how_far_the_measuring_is() -> None:
    class Kind(_Kind):
        def evaluate(self, predictor: Any, data: list[str]) -> Evaluation:
            predictor.progress(len(data) - 1, len(data))
            return Evaluation({"accuracy": 1.0}, data)

    kind: Any = Kind(FinetuneRecipe(task="text_classification"), None)
    task: Any = _Model()
    tokenizer: Any = None
    told: list[Any] = []
    found = best_checkpoint.measure(
        kind, task, tokenizer, ["a", "b"], lambda *what: told.append(what)
    )
    assert told == [
        (0, None, "measuring validation examples"),
        (1, 2, "measuring validation examples"),
    ]
    assert found.predictions == ["a", "b"]


def test_patience_ends_what_gains_no_more(keep) -> None:
    best, model, records = keep([0.5, 0.4, 0.4, 0.9], patience=2)
    assert model.stop_training
    assert best.is_over
    assert (len(records), best.intervals) == (3, 3)


def test_a_run_that_goes_on_remembers(keep, tmp_path: Path) -> None:
    state = {"step": 20, "best": {"accuracy": 0.9, "other": 0.0}, "best_step": 10, "waited": 1}
    state |= {"aside": 1.5}
    best, model, _ = keep([0.8], state=state, patience=2)
    assert (best.intervals, model.stop_training, best.state["best_step"]) == (3, True, 10)
    assert not (tmp_path / "best").exists()


def test_what_a_killed_run_wrote_stays_the_best(keep, tmp_path: Path) -> None:
    """The best checkpoint of a killed run stays until a better one is measured.

    This also holds if repeated steps give other values, as on a GPU.
    """
    keep([0.5, 0.7, 0.8])
    assert _saved(tmp_path) == 3
    state = {"step": 20, "best": {"accuracy": 0.7, "other": 1.0}, "best_step": 20, "waited": 0}
    best, _, _ = keep([0.6, 0.65], state=state | {"aside": 0.0})
    assert best.state["best"] == {"accuracy": 0.65, "other": 1.0}
    assert (best.state["best_step"], _saved(tmp_path)) == (40, 4)
    best, _, _ = keep([0.6], state=state | {"aside": 0.0, "step": 30})
    assert (best.state["best_step"], _saved(tmp_path)) == (40, 4)


def test_what_was_written_over_is_not_waited_for(keep, tmp_path: Path) -> None:
    keep([0.5, 0.6, 0.7, 0.8, 0.9])
    assert _saved(tmp_path) == 5
    state = {"step": 30, "best": {"accuracy": 0.7, "other": 1.0}, "best_step": 30, "waited": 0}
    # step 40 is now better than step 50 of the killed run
    best, _, _ = keep([0.8, 0.75], state=state)
    assert (best.state["best_step"], _saved(tmp_path)) == (40, 4)


def test_the_last_is_measured_alone(keep, tmp_path: Path) -> None:
    best, _, records = keep([0.5, 0.8], keep="last")
    assert "val_accuracy" not in records[0]
    assert _saved(tmp_path) == 2
    # the first value of the list, from the only evaluation
    assert best.state["best"]["accuracy"] == 0.5


def test_lower_errors_are_better(keep, tmp_path: Path) -> None:
    keep([0.5, 0.2, 0.4], name="mean_squared_error")
    assert _saved(tmp_path) == 2


def test_what_is_not_defined_is_worst_and_no_error(keep, tmp_path: Path) -> None:
    best, _, records = keep([math.nan, -0.5, math.nan], name="spearman")
    assert _saved(tmp_path) == 2
    assert math.isnan(records[0]["val_spearman"])
    best, _, _ = keep([math.nan], name="spearman")
    assert best.state["best"] == {"spearman": None, "other": 1.0}  # JSON has no NaN
    assert (
        higher_is_better_value("spearman", None)
        == higher_is_better_value("spearman", math.nan)
        < higher_is_better_value("spearman", -1)
    )


@pytest.mark.parametrize(
    ("loss", "weight", "message"),
    [(math.nan, 0.0, "At step 10 the loss is nan"), (0.5, math.inf, "not all weights are finite")],
)
def test_numbers_that_are_not_finite(loss, weight, message, keep) -> None:
    best, model, _ = keep([])
    model.trainable_variables = [np.full(2, weight, np.float32)]
    with pytest.raises(NumericError, match=message):
        best.on_epoch_end(0, {"loss": loss})


def test_a_named_metric_is_looked_for_before_training(keep, monkeypatch) -> None:
    begins, _, _ = keep([], metric="recall")
    unnamed, _, _ = keep([])
    goes_on, _, _ = keep([], metric="recall", state={**begins.state, "step": 10})

    def measured(*_: Any) -> Evaluation:
        measurings.append(1)
        return Evaluation({"f1": 0.1}, [])

    measurings: list[int] = []
    monkeypatch.setattr(best_checkpoint, "measure", measured)
    with pytest.raises(UsageError, match=r"metric must be one of f1. Received: metric='recall'"):
        begins.on_train_begin()
    unnamed.on_train_begin()
    goes_on.on_train_begin()
    assert len(measurings) == 1


def test_a_metric_that_is_not_always_there_is_worst(keep, monkeypatch, tmp_path: Path) -> None:
    """A missing metric counts as the worst value.

    For example, the metric of an entity type is missing if no entity of that type is predicted.
    """
    best, _, _ = keep([], name="X_f1", metric="X_f1")
    found = iter([{"f1": 0.1}, {"f1": 0.1, "X_f1": 0.0}, {"f1": 0.2}])
    monkeypatch.setattr(best_checkpoint, "measure", lambda *_: Evaluation(next(found), []))
    logs: list[dict] = [{"loss": 0.5} for _ in range(3)]
    for interval, values in enumerate(logs):
        best.on_epoch_end(interval, values)
    assert (best.state["best_step"], best.state["waited"]) == (20, 1)
    assert [math.isnan(values["val_score"]) for values in logs] == [True, False, True]


def test_the_metric_that_counts() -> None:
    recipe = FinetuneRecipe(task="question_answering", metric="best_f1_thresh")
    with pytest.raises(UsageError, match=r"metric must be one of best_f1\. Received"):
        checked_selection_metric(recipe, {"best_f1": 1.0, "best_f1_thresh": 0.0})
    measured = {"f1": 0.5, "exact": 0.4}
    assert checked_selection_metric(FinetuneRecipe(task="question_answering"), measured) == "f1"
    assert (
        checked_selection_metric(
            FinetuneRecipe(task="question_answering", metric="exact"), measured
        )
        == "exact"
    )
    with pytest.raises(UsageError, match=r"metric must be one of f1, exact. .*metric='accuracy'"):
        checked_selection_metric(
            FinetuneRecipe(task="question_answering", metric="accuracy"), measured
        )


def test_a_damaged_step_is_named(keep, tmp_path: Path) -> None:
    keep([0.5])
    (tmp_path / "best" / "step.txt").write_text("ten")
    with pytest.raises(ArtifactError, match=r"step.txt: expected the number of a step.*b'ten'"):
        keep([0.5])


def test_the_score_has_the_name_of_its_metric(keep: Callable[..., Any]) -> None:
    assert keep([])[0].score_name == "score"
    assert keep([0.5], name="spearman")[0].score_name == "spearman"
    assert keep([0.5], metric="other")[0].score_name == "other"
