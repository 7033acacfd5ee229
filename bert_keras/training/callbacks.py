"""Callbacks of a pretraining run: log, show, watch.

The program makes one Keras epoch of each report (some steps), so that metrics begin anew with
every line of the log and the state is whole on every backend when it is written.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from time import perf_counter
from typing import Any

import keras

from bert_keras.errors import NumericError
from bert_keras.resume import MetricsLog
from bert_keras.training.progress import Progress

_SHOW_SECONDS = 0.5  # between two looks at the metrics within a report
_MEASURED = "measuring held-out batch"


class WriteMetrics(keras.callbacks.Callback):
    """Writes a record per report to metrics.jsonl and speed.jsonl, and shows it.

    Args:
        metrics: the log of what is computed, the same at every repetition.
        speed: the log of what depends on the machine.
        display: where to show it.
        log_every: steps of a report.
        tokens_per_step: real tokens of a batch, on average.
        padding_share: share of the batches' positions, shown only.
        waited: told when a step began, how many seconds it waited for its batch.
        checkpoint: answers the step of the last checkpoint; None where there is none.
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
        # When a report and a step of it began, and when the step before that was done.
        self._start = self._begun = self._free = 0.0
        self._seconds = self._waiting = 0.0  # of the report
        self._rate = 0.0  # of the report's first step
        self._shown = 0.0

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:  # noqa: ARG002
        """Keras: a report begins."""
        self._first_step = epoch * self._log_every
        self._rate = float(keras.ops.convert_to_numpy(self._optimizer.learning_rate))
        self._waiting = 0.0
        self._start = self._free = perf_counter()

    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:  # noqa: ARG002
        """Keras: a step begins; its batch is there already, or is read within it (TensorFlow)."""
        self._begun = perf_counter()

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Keras: a step is done; the last of a report is timed before the evaluation."""
        if batch + 1 == self._log_every:
            _plain(logs)  # waits for an accelerator, which may be steps behind
        self._seconds = perf_counter() - self._start
        self._waiting += self._begun - self._free + self._waited(self._begun)
        if perf_counter() - self._shown >= _SHOW_SECONDS:
            self._show(batch + 1, logs)
        self._free = perf_counter()

    def _show(self, steps: int, logs: dict[str, Any] | None) -> None:
        # Not after each step: reading a metric makes an accelerator wait.
        self._shown = perf_counter()
        values = {**_plain(logs), **self._speeds(steps), "padding_share": self._padding_share}
        self._display.update(self._first_step + steps, values)

    def _speeds(self, steps: int) -> dict[str, float]:
        """Of so many steps of the report."""
        return {
            "tokens_per_second": steps * self._tokens_per_step / self._seconds,
            "waiting_share": self._waiting / self._seconds,
        }

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:  # noqa: ARG002
        """Keras: the evaluation after a report begins."""
        self._display.aside(0, None, _MEASURED)

    def on_test_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:  # noqa: ARG002
        """Keras: a batch of the evaluation is done."""
        self._display.aside(batch + 1, None, _MEASURED)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Keras: a report ends.

        Raises:
            NumericError: the loss is not finite.
        """
        step = (epoch + 1) * self._log_every
        values = _plain(logs)
        values["learning_rate"] = self._rate
        if not math.isfinite(values["loss"]):
            good = self._checkpoint()
            kept = "no checkpoint yet" if good is None else f"a good checkpoint of step {good}"
            raise NumericError(
                f"The loss is {values['loss']} in steps {self._first_step + 1} to {step}. There is "
                f"{kept}. A lower learning_rate, a longer warmup_steps or precision=float32 help "
                "most often, in a new run (out=FOLDER)."
            )
        self._metrics.append({"step": step, **values})
        speeds = self._speeds(self._log_every)
        self._speed.append({"step": step, "seconds": self._seconds, **speeds})
        self._display.update(step, values, report=True)

    @property
    def _optimizer(self) -> Any:
        optimizer = self.model.optimizer
        return getattr(optimizer, "inner_optimizer", optimizer)


class MayFail(keras.callbacks.Callback):
    """A callback that writes what is not needed: its first error ends it, not the training.

    Args:
        callback: the callback.

    Attributes:
        error: its error; None where there was none.
    """

    def __init__(self, callback: keras.callbacks.Callback):
        super().__init__()
        self._callback = callback
        self.error: Exception | None = None


def _forwarded(name: str) -> Callable[..., None]:
    """Return a method of `MayFail` that calls the same method of the callback."""

    def method(self: MayFail, *arguments: Any, **options: Any) -> None:
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
    """The values as numbers; a model of one output calls its loss just "loss"."""
    values = {name: float(value) for name, value in (logs or {}).items()}
    for prefix in ("", "val_"):
        if f"{prefix}mlm_accuracy" in values and f"{prefix}mlm_loss" not in values:
            values[f"{prefix}mlm_loss"] = values[f"{prefix}loss"]
    return values
