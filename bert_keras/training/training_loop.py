"""Training loop of pretraining and fine-tuning: `fit` with logs, checkpoints and resume."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import keras

from bert_keras.data import Batch, Examples, dataset
from bert_keras.errors import NumericError, UsageError
from bert_keras.resume import MetricsLog, SaveCheckpoint, StopOnSignal, TrainingCheckpoints
from bert_keras.training.data_wait import DataWaitTimer, told_when_late
from bert_keras.training.nan_report import NAME, NanReport
from bert_keras.training.progress import Progress
from bert_keras.training.run_folder import TrainingFiles

# === Callbacks ===
# One Keras epoch is one logging interval, of `log_every` steps. So metrics start again with every
# line of the log, and the state is complete on every backend when it is written.


_SHOW_SECONDS = 0.5  # between two looks at the metrics within an interval
_MEASURED = "measuring validation batch"


class WriteMetrics(keras.callbacks.Callback):
    """Callback that writes a record per logging interval to metrics.jsonl and speed.jsonl.

    Args:
        metrics: log of computed values, the same at every repetition.
        speed: log of values that depend on the machine.
        display: display of the progress.
        log_every: steps of a logging interval.
        tokens_per_step: real tokens of a batch, on average.
        padding_share: share of the batches' positions, shown only.
        waited: takes the time at which a step began; returns the seconds it waited for its batch.
        checkpoint: returns the step of the last checkpoint; None without one.
    """

    def __init__(
        self,
        metrics: MetricsLog,
        speed: MetricsLog,
        display: Progress,
        *,
        log_every: int,
        tokens_per_step: float,
        padding_share: float,
        waited: Callable[[float], float],
        checkpoint: Callable[[], int | None] = lambda: None,
    ):
        super().__init__()
        self._metrics, self._speed, self._display = metrics, speed, display
        self._log_every = log_every
        self._tokens_per_step = tokens_per_step
        self._padding_share = padding_share
        self._waited = waited
        self._checkpoint = checkpoint
        self._first_step = 0
        # Times at which an interval and its step began, and at which the step before ended.
        self._start = self._begun = self._free = 0.0
        self._seconds = self._waiting = 0.0  # of the interval
        self._rate = 0.0  # of the interval's first step
        self._shown = 0.0

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:  # noqa: ARG002
        """Note first step, learning rate and time at the beginning of an interval."""
        self._first_step = epoch * self._log_every
        self._rate = float(keras.ops.convert_to_numpy(self._optimizer.learning_rate))
        self._waiting = 0.0
        self._start = self._free = perf_counter()

    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:  # noqa: ARG002
        """Note the time. The batch was read before, or TensorFlow reads it within the step."""
        self._begun = perf_counter()

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Add the times of a step, and show them. The time of an evaluation does not count."""
        if batch + 1 == self._log_every:
            _plain(logs)  # waits for an accelerator, which may be steps behind
        self._seconds = perf_counter() - self._start
        self._waiting += self._begun - self._free + self._waited(self._begun)
        if perf_counter() - self._shown >= _SHOW_SECONDS:
            self._show(batch + 1, logs)
        self._free = perf_counter()

    def _show(self, steps: int, logs: dict[str, Any] | None) -> None:
        """Show loss, speed and share of padding after some steps of the present interval."""
        # Not after each step: reading a metric makes an accelerator wait.
        self._shown = perf_counter()
        values = {**_plain(logs), **self._speeds(steps), "padding_share": self._padding_share}
        self._display.update(self._first_step + steps, values)

    def _speeds(self, steps: int) -> dict[str, float]:
        """Return speed and share of waiting after some steps of the interval."""
        return {
            "tokens_per_second": steps * self._tokens_per_step / self._seconds,
            "waiting_share": self._waiting / self._seconds,
        }

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:  # noqa: ARG002
        """Show that the evaluation after an interval begins."""
        self._display.aside(0, None, _MEASURED)

    def on_test_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:  # noqa: ARG002
        """Show that a batch of the evaluation is done."""
        self._display.aside(batch + 1, None, _MEASURED)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Write and show the record of an interval.

        Raises:
            NumericError: the loss is not finite.
        """
        step = (epoch + 1) * self._log_every
        values = _plain(logs)
        values["learning_rate"] = self._rate
        if not math.isfinite(values["loss"]):
            good = self._checkpoint()
            kept, way = "no checkpoint yet", ""
            if good is not None:
                kept = f"a good checkpoint of step {good}"
                way = "; a lower learning_rate= with override=learning_rate goes on from it"
            raise NumericError(
                f"The loss is {values['loss']} in steps {self._first_step + 1} to {step}. There is "
                f"{kept}. A lower learning_rate, a longer warmup_steps or precision=float32 help "
                f"most often, in a new run (out=FOLDER){way}."
            )
        self._metrics.append({"step": step, **values})
        speeds = self._speeds(self._log_every)
        self._speed.append({"step": step, "seconds": self._seconds, **speeds})
        self._display.update(step, values, ends_interval=True)

    @property
    def _optimizer(self) -> Any:
        """Optimizer that holds the learning rate, without the wrapper that scales the loss."""
        optimizer = self.model.optimizer
        return getattr(optimizer, "inner_optimizer", optimizer)


class MayFail(keras.callbacks.Callback):
    """Wrapper of a callback whose first error ends the callback and not the training.

    Args:
        callback: the callback.

    Attributes:
        error: the first error; None without one.
    """

    def __init__(self, callback: keras.callbacks.Callback):
        super().__init__()
        self._callback = callback
        self.error: Exception | None = None


def _forwarded(name: str) -> Callable[..., None]:
    """Return a method of `MayFail` that calls the same method of the callback."""

    def method(self: MayFail, *arguments: Any, **options: Any) -> None:
        """Call the method of the callback, unless it has failed, and keep its error."""
        if name.startswith("set_"):
            getattr(keras.callbacks.Callback, name)(self, *arguments, **options)
        if self.error is not None:
            return
        try:
            getattr(self._callback, name)(*arguments, **options)
        except Exception as error:
            self.error = error

    return method


for _name in dir(keras.callbacks.Callback):
    if _name.startswith(("on_", "set_")):
        setattr(MayFail, _name, _forwarded(_name))


def _plain(logs: dict[str, Any] | None) -> dict[str, float]:
    """Return the values as floats, with "mlm_loss" also for a model of one output."""
    values = {name: float(value) for name, value in (logs or {}).items()}
    for prefix in ("", "val_"):
        if f"{prefix}mlm_accuracy" in values and f"{prefix}mlm_loss" not in values:
            values[f"{prefix}mlm_loss"] = values[f"{prefix}loss"]
    return values


# === Loop ===


_START = {**dict.fromkeys(("step", "epoch", "position", "metrics", "speed"), 0), "seconds": 0.0}


class Stopped(Exception):  # noqa: N818
    """A signal ended the training after a checkpoint.

    Args:
        name: name of the signal.
        exit_code: exit code of the program.
    """

    def __init__(self, name: str, exit_code: int):
        super().__init__(f"Stopped by {name} after a checkpoint; the same command goes on.")
        self.exit_code = exit_code


class Fitting:
    """A training with logs, display and checkpoints, which resumes from its last checkpoint.

    Args:
        model: compiled model. Its weights are read from the last checkpoint, if there is one.
        examples: examples to train on.
        files: files of checkpoints and logs.
        log_every: steps of a logging interval.
        began: time at which this process began the run, by `perf_counter()`.
        start: values of a new run's state beside those that every run has.

    Attributes:
        state: of the last checkpoint, or of a new run: step, place in the examples, lengths of the
            logs, seconds, and the values that `start` names.
    """

    def __init__(
        self,
        model: keras.Model,
        examples: Examples,
        *,
        files: TrainingFiles,
        log_every: int,
        began: float,
        start: Mapping[str, Any],
    ):
        self._model, self._examples, self._log_every = model, examples, log_every
        self._checkpoints = TrainingCheckpoints(files.checkpoints)
        self._files = files
        self._metrics, self._speed = MetricsLog(files.metrics), MetricsLog(files.speed)
        self.state: dict[str, Any] = _START | dict(start) | (self._checkpoints.restore(model) or {})
        self._began = began - self.state["seconds"]
        self._display: Progress | None = None

    @property
    def seconds(self) -> float:
        """Seconds spent on the run until now, with those of earlier processes."""
        return perf_counter() - self._began

    def show(self, done: int, total: int | None, what: str) -> None:
        """Show the progress of work beside the steps, for callbacks (see `Progress.aside`)."""
        if self._display is not None:
            self._display.aside(done, total, what)

    def state_after(self, intervals: int) -> dict[str, Any]:
        """Return the state after `intervals` logging intervals, without that of `extra_state`."""
        before, step = self.state, intervals * self._log_every
        place = self._examples.locate(before["epoch"], before["position"], step - before["step"])
        return {
            "step": step,
            **dict(zip(("epoch", "position"), place, strict=True)),
            "metrics": self._metrics.offset,
            "speed": self._speed.offset,
            "seconds": self.seconds,
        }

    def _batch_of(self, step: int) -> tuple[int, int, Batch]:
        """Return (epoch, position, batch) of the batch of a step, counted from 1."""
        before = self.state
        place = self._examples.locate(
            before["epoch"], before["position"], step - 1 - before["step"]
        )
        return *place, self._examples.batch(*place)

    def _last_checkpoint(self) -> Path | None:
        """Return the folder of the last checkpoint; None without one."""
        step = self._checkpoints.last_step
        return None if step is None else self._files.checkpoints / f"step-{step:08d}"

    def run(
        self,
        intervals: int,
        *,
        statistics: Mapping[str, Any],
        extra_state: Callable[[], Mapping[str, Any]],
        callbacks: Sequence[keras.callbacks.Callback] = (),
        checkpoint_every: int,
        workers: int,
        note: str = "",
        later_steps: int = 0,
        score_name: Callable[[], str] = lambda: "score",
        is_over: bool = False,
        **options: Any,
    ) -> None:
        """Train until `intervals` logging intervals are done.

        Args:
            intervals: number of logging intervals of the whole run.
            statistics: statistics of the examples, for the logs.
            extra_state: function that returns values to add to the state in a checkpoint.
            callbacks: callbacks to run before those of logs and checkpoints.
            checkpoint_every: logging intervals between checkpoints.
            workers: threads that prepare batches.
            note: text to print above the display.
            later_steps: steps of trainings that follow this one.
            score_name: function that returns the metric that the logs call `val_score`.
            is_over: whether training ended early, so that no interval is left.
            options: options of `fit`.

        Raises:
            Stopped: a signal ended the training.
            NumericError: a number is not finite; the message names the report about it.
            UsageError: more steps are trained already.
        """
        self._metrics.cut(self.state["metrics"])
        self._speed.cut(self.state["speed"])
        step = self.state["step"]
        if step > intervals * self._log_every:
            raise UsageError(
                f"{self._files.path}: step {step:,} is trained already. Received: "
                f"{intervals * self._log_every:,} steps. Give more steps= or epochs=, or "
                "out=FOLDER for a new run."
            )
        display = Progress(
            intervals * self._log_every, step, later_steps=later_steps, score_name=score_name
        )
        self._display, done = display, step // self._log_every
        with StopOnSignal(tell=display.note) as stop, display:
            if note:
                display.note(note)
            watched = DataWaitTimer(self._examples, self.state["epoch"], self.state["position"])
            logged = WriteMetrics(
                self._metrics,
                self._speed,
                display,
                log_every=self._log_every,
                tokens_per_step=statistics["tokens"] / statistics["batches"],
                padding_share=statistics["padding_share"],
                waited=watched.waited,
                checkpoint=lambda: self._checkpoints.last_step,
            )
            save = SaveCheckpoint(
                self._checkpoints,
                every=checkpoint_every,
                state=lambda intervals: {**self.state_after(intervals), **extra_state()},
            )
            report = NanReport(
                self._files.path / NAME,
                log_every=self._log_every,
                batch_of=self._batch_of,
                checkpoint=self._last_checkpoint,
            )
            if done < intervals and not is_over:
                read = dataset(
                    watched,
                    repeat=True,
                    epoch=self.state["epoch"],
                    position=self.state["position"],
                    workers=workers,
                )
                with report.written(), told_when_late(watched, display.note):
                    self._model.fit(
                        read,
                        initial_epoch=done,
                        epochs=intervals,
                        steps_per_epoch=self._log_every,
                        callbacks=[report, *callbacks, logged, stop, save],
                        shuffle=False,  # a dataset has its order
                        verbose=0,  # pyright: ignore[reportArgumentType]
                        **options,
                    )
        if stop.signal is not None:
            raise Stopped(stop.signal.name, stop.exit_code)
