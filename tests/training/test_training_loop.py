"""The training loop: metrics, and the state of a run."""

from __future__ import annotations

import io
import json
import signal
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from rich.console import Console

from bert_keras import BertEncoder, SequenceClassifier
from bert_keras.data import Batch, SupervisedExamples
from bert_keras.errors import NumericError, UsageError
from bert_keras.resume import MetricsLog
from bert_keras.training.progress import Progress
from bert_keras.training.run_folder import TrainingFiles
from bert_keras.training.training_loop import (
    Fitting,
    MayFail,
    Stopped,
    WriteMetrics,
)
from tests.contracts import TINY


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Replace the clock by a list whose only item is the time."""
    time = [0.0]
    monkeypatch.setattr("bert_keras.training.training_loop.perf_counter", lambda: time[0])
    return time


# === Values that are logged at the end of a logging interval


LOG_EVERY = 4
RATE = 0.125


class _Model(keras.Model):
    def call(self, x):
        return x


@pytest.fixture
def screen() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def callback(tmp_path: Path, screen: io.StringIO) -> WriteMetrics:
    """Return a callback at the start of the fourth interval, with 100 tokens in each step."""
    model = _Model()
    model.compile(keras.optimizers.SGD(RATE))
    callback = WriteMetrics(
        MetricsLog(tmp_path / "metrics.jsonl"),
        MetricsLog(tmp_path / "speed.jsonl"),
        Progress(100, console=Console(file=screen, width=200)),
        log_every=LOG_EVERY,
        tokens_per_step=100.0,
        padding_share=0.25,
        waited=lambda _: 0.05,
    )
    callback.set_model(model)
    callback.on_epoch_begin(3)
    return callback


def _record(path: Path) -> dict[str, Any]:
    (line,) = path.read_text().splitlines()
    return json.loads(line)


def test_an_interval(
    callback: WriteMetrics, tmp_path: Path, screen: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = callback._start
    monkeypatch.setattr("bert_keras.training.training_loop.perf_counter", lambda: start + 0.05)
    callback.on_train_batch_begin(LOG_EVERY - 1)
    clock = start + 0.5
    monkeypatch.setattr("bert_keras.training.training_loop.perf_counter", lambda: clock)
    callback.on_train_batch_end(LOG_EVERY - 1, {"loss": 3.0})
    # The evaluation runs before the end of the interval. Its time must not count.
    monkeypatch.setattr("bert_keras.training.training_loop.perf_counter", lambda: clock + 100)
    callback.on_epoch_end(3, {"loss": np.float32(2.5), "mlm_loss": 2.0, "mlm_accuracy": 0.5})

    assert _record(tmp_path / "metrics.jsonl") == {
        "step": 16,
        "learning_rate": RATE,
        "loss": 2.5,
        "mlm_accuracy": 0.5,
        "mlm_loss": 2.0,
    }
    assert _record(tmp_path / "speed.jsonl") == {
        "step": 16,
        "seconds": pytest.approx(0.5),
        "tokens_per_second": pytest.approx(800),
        "waiting_share": pytest.approx(0.2),  # half of the wait before the step, half within it
    }
    (line,) = screen.getvalue().splitlines()
    assert line.startswith(
        "step 16/100 (16 %)  loss 2.500  MLM accuracy 50.0 %  800 tokens/s  padding 25.0"
    )


def test_the_only_loss_is_that_of_the_masked_tokens(callback: WriteMetrics, tmp_path: Path) -> None:
    """A model with one output logs `loss` as `mlm_loss`, which Keras does not log."""
    callback.on_train_batch_end(0)
    logs = {"loss": 2.0, "mlm_accuracy": 0.5, "val_loss": 3.0, "val_mlm_accuracy": 0.25}
    callback.on_epoch_end(3, logs)
    record = _record(tmp_path / "metrics.jsonl")
    assert (record["mlm_loss"], record["val_mlm_loss"]) == (2.0, 3.0)


@pytest.mark.parametrize("loss", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite(callback: WriteMetrics, tmp_path: Path, loss: float) -> None:
    callback.on_train_batch_end(0)
    told = rf"The loss is {loss} in steps 13 to 16\. There is no checkpoint yet\. .*out=FOLDER"
    with pytest.raises(NumericError, match=told):
        callback.on_epoch_end(3, {"loss": loss})
    callback._checkpoint = lambda: 12
    with pytest.raises(NumericError, match="There is a good checkpoint of step 12"):
        callback.on_epoch_end(3, {"loss": loss})
    assert not (tmp_path / "metrics.jsonl").exists()


def test_the_rate_inside_a_loss_scale(callback: WriteMetrics, tmp_path: Path) -> None:
    inner = keras.optimizers.SGD(RATE)
    callback.model.compile(keras.optimizers.LossScaleOptimizer(inner))
    callback.on_train_batch_end(0)
    callback.on_epoch_end(3, {"loss": 1.0})
    assert _record(tmp_path / "metrics.jsonl")["learning_rate"] == RATE


def test_the_evaluation_is_shown(
    callback: WriteMetrics, screen: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bert_keras.training.progress._LINE_SECONDS", 0.0)
    callback.on_test_begin()
    callback.on_test_batch_end(0)
    assert [line.split("  ")[1] for line in screen.getvalue().splitlines()] == [
        f"measuring validation batch {number}" for number in ("…", 1)
    ]


def test_in_fit_the_steps_are_numbered_through(tmp_path: Path, callback: WriteMetrics) -> None:
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", run_eagerly=True)
    x = np.ones((2 * LOG_EVERY, 2), np.float32)
    options: dict[str, Any] = {"batch_size": 2, "verbose": 0, "callbacks": [callback]}
    model.fit(x, x[:, :1], initial_epoch=1, epochs=3, **options)
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [8, 12]


def test_what_is_not_needed_ends_no_training() -> None:
    """A failing callback in `MayFail` does not end the training; it gets no further calls."""
    hooks = [name for name in dir(keras.callbacks.Callback) if name.startswith("on_")]
    called: list[str] = []

    def hook(name: str) -> Any:
        def run(self: Any, *_arguments: Any) -> None:
            del self
            called.append(name)
            if name == "on_epoch_end":
                raise OSError(28, "No space left on device")

        return run

    kind: Any = type("Failing", (keras.callbacks.Callback,), {name: hook(name) for name in hooks})
    callback = MayFail(kind())
    others = [name for name in hooks if name != "on_epoch_end"]
    for name in others:
        getattr(callback, name)(0)
    assert called == others
    assert callback.error is None
    callback.on_epoch_end(0)
    callback.on_train_begin()
    assert called == [*others, "on_epoch_end"]
    assert isinstance(callback.error, OSError)
    model = _Model()
    callback.set_model(model)
    assert callback.model is model


# === The batches and the state of a training


def test_the_state_of_a_new_run(examples: SupervisedExamples, tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    fitting = Fitting(
        model,
        examples,
        files=TrainingFiles(tmp_path),
        log_every=3,
        began=0.0,
        start={"best": None},
    )
    assert (fitting.state["step"], fitting.state["best"]) == (0, None)
    state = fitting.state_after(4)
    assert [state[name] for name in ("step", "epoch", "position")] == [12, 2, 2]
    assert state["seconds"] <= fitting.seconds


def test_a_signal_ends_a_training_after_a_checkpoint(
    examples: SupervisedExamples, tmp_path: Path
) -> None:
    model = SequenceClassifier(BertEncoder(TINY), 10)
    model.compile("sgd", **model.loss_and_metrics())
    files = TrainingFiles(tmp_path)
    options: dict[str, Any] = {"files": files, "log_every": 1, "began": 0.0, "start": {}}
    fitting = Fitting(model, examples, **options)
    raised = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: signal.raise_signal(signal.SIGTERM)  # noqa: ARG005
    )
    with pytest.raises(Stopped, match="Stopped by SIGTERM after a checkpoint") as stopped:
        fitting.run(
            5,
            statistics={"tokens": 1, "batches": 1, "padding_share": 0.0},
            extra_state=dict,
            callbacks=[raised],
            checkpoint_every=9,
            workers=1,
        )
    assert stopped.value.exit_code == 128 + signal.SIGTERM
    assert Fitting(model, examples, **options).state["step"] == 1


_OPTIONS: dict[str, Any] = {
    "statistics": {"tokens": 1, "batches": 1, "padding_share": 0.0},
    "extra_state": dict,
    "checkpoint_every": 1,
    "workers": 1,
}


@pytest.mark.parametrize("step", [0, 4])
def test_a_loss_that_is_not_finite_is_reported(
    examples: SupervisedExamples, tmp_path: Path, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report names the first step, its batch, and the last checkpoint."""
    model = SequenceClassifier(BertEncoder(TINY), 10)
    model.compile("sgd", **model.loss_and_metrics())
    place, build = examples.locate(0, 0, step + 1), examples.batch

    def batch(epoch: int, position: int) -> Batch:
        """Return a batch; that of one step has weights that are no numbers."""
        x, y, weights = build(epoch, position)
        if (epoch, position) == place:
            weights = {name: np.full_like(rows, np.nan) for name, rows in weights.items()}
        return x, y, weights

    monkeypatch.setattr(examples, "batch", batch)
    files = TrainingFiles(tmp_path)
    fitting = Fitting(model, examples, files=files, log_every=2, began=0.0, start={})
    (tmp_path / "nan-report.json").write_text("of an earlier attempt")
    with pytest.raises(NumericError, match=r"nan-report\.json names the step and the batch\.$"):
        fitting.run(5, **_OPTIONS)
    report = json.loads((tmp_path / "nan-report.json").read_text())
    assert report["steps"] == [step + 1, step + 2]
    assert report["first_step_not_finite"] == step + 2
    assert report["metrics_not_finite"]["loss"] == "nan"
    assert (report["batch"]["epoch"], report["batch"]["position"]) == place
    assert report["batch"]["rows_not_finite"] == {"weights/label": [0, 1]}
    assert report["last_good_checkpoint"] == (f"step-{step:08d}" if step else None)
    assert report["variables_not_finite"]["weights"]["count"] > 0


def test_fewer_steps_than_are_trained_are_refused(
    examples: SupervisedExamples, tmp_path: Path
) -> None:
    model = SequenceClassifier(BertEncoder(TINY), 10)
    model.compile("sgd", **model.loss_and_metrics())
    files = TrainingFiles(tmp_path)
    fitting = Fitting(model, examples, files=files, log_every=1, began=0.0, start={})
    fitting.state["step"] = 3
    with pytest.raises(UsageError, match=r"step 3 is trained already\. Received: 2 steps"):
        fitting.run(2, **_OPTIONS)
