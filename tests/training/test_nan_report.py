"""The report on a training that stopped because a number is not finite."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras.errors import NumericError
from bert_keras.training.nan_report import NanReport

_BATCH: Any = ({"ids": np.ones((3, 2), np.int32)}, {"label": np.array([1.0, np.nan, 0.0])}, None)


def _report(folder: Path, checkpoint: Path | None = None) -> NanReport:
    """Return the callback of a training of 4 steps in an interval, in its second interval."""
    report = NanReport(
        folder / "nan-report.json",
        log_every=4,
        batch_of=lambda step: (0, step - 1, _BATCH),
        checkpoint=lambda: checkpoint,
    )
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, name="first")])
    model.compile(keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.5), 8.0), "mse")
    model.optimizer.build(model.trainable_variables)
    report.set_model(model)
    report.on_epoch_begin(1)
    for batch, loss in enumerate((0.5, np.nan, np.nan)):
        report.on_train_batch_end(batch, {"loss": loss, "accuracy": 1.0})
    return report


def test_its_values(tmp_path: Path) -> None:
    report = _report(tmp_path, tmp_path / "checkpoints" / "step-00000004")
    kernel = report.model.weights[0]
    kernel.assign(np.full(kernel.shape, np.inf))
    report.write(NumericError("The loss is nan."))
    values = json.loads((tmp_path / "nan-report.json").read_text())
    assert list(values) == [
        *("error", "steps", "first_step_not_finite", "metrics_not_finite", "batch"),
        *("variables_not_finite", "learning_rate", "loss_scale", "last_good_checkpoint"),
    ]
    assert values["error"] == "The loss is nan."
    assert (values["steps"], values["first_step_not_finite"]) == ([5, 7], 6)
    assert values["metrics_not_finite"] == {"loss": "nan"}
    assert (values["learning_rate"], values["loss_scale"]) == (0.5, 8.0)
    assert values["last_good_checkpoint"] == "step-00000004"
    assert (values["batch"]["position"], values["batch"]["rows"]) == (5, 3)
    assert values["batch"]["shapes"] == {"inputs/ids": [3, 2], "labels/label": [3]}
    assert values["batch"]["rows_not_finite"] == {"labels/label": [1]}
    assert len(values["batch"]["sha256"]) == 64
    weights = values["variables_not_finite"]["weights"]
    assert (weights["of"], weights["count"]) == (2, 1)
    assert weights["first"][0].endswith("first/kernel")


def test_numbers_that_are_finite_in_each_step(tmp_path: Path) -> None:
    """Then a weight is at fault, and no step of the interval can be named."""
    report = _report(tmp_path)
    report.on_epoch_begin(2)
    report.write(NumericError("A weight."))
    values = json.loads((tmp_path / "nan-report.json").read_text())
    assert (values["first_step_not_finite"], values["batch"]) == (None, None)
    assert (values["steps"], values["last_good_checkpoint"]) == ([9, 9], None)


def test_an_old_report_is_removed_and_other_errors_write_none(tmp_path: Path) -> None:
    report = _report(tmp_path)
    (tmp_path / "nan-report.json").write_text("old")
    with pytest.raises(OSError, match="disk"), report.written():
        raise OSError("disk")
    assert not list(tmp_path.iterdir())


def test_a_report_that_cannot_be_written_hides_no_error(tmp_path: Path) -> None:
    report = _report(tmp_path / "missing")
    with pytest.raises(NumericError, match=r"^The loss is nan\.$"), report.written():
        raise NumericError("The loss is nan.")
