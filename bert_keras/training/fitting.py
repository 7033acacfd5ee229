"""`fit` in reports of some steps: what pretraining and fine-tuning share of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import keras

from bert_keras.data import Examples, dataset
from bert_keras.resume import MetricsLog, SaveCheckpoint, StopOnSignal, TrainingCheckpoints
from bert_keras.training.callbacks import WriteMetrics
from bert_keras.training.progress import Progress
from bert_keras.training.waiting import Watched

_START = {**dict.fromkeys(("step", "epoch", "position", "metrics", "speed"), 0), "seconds": 0.0}


class Fitting:
    """A training with logs, display and checkpoints, which goes on where it was killed.

    Args:
        model: compiled; a checkpoint that there is gives it its weights back.
        examples: to learn from.
        checkpoints: folder of the checkpoints,
        metrics: and the file of what is computed,
        speed: and of what depends on the machine.
        log_every: steps of a report.
        began: when the run, or this process of it, began: `perf_counter()`.
        start: the state of a new run, beside what every run has.

    Attributes:
        state: that of the last checkpoint, or of a new run: step, place in the examples, lengths
            of the logs, seconds, and what `start` names.
    """

    def __init__(
        self,
        model: keras.Model,
        examples: Examples,
        *,
        checkpoints: Path,
        metrics: Path,
        speed: Path,
        log_every: int,
        began: float,
        start: Mapping[str, Any],
    ):
        self._model, self._examples, self._log_every = model, examples, log_every
        self._checkpoints = TrainingCheckpoints(checkpoints)
        self._metrics, self._speed = MetricsLog(metrics), MetricsLog(speed)
        self.state: dict[str, Any] = _START | dict(start) | (self._checkpoints.restore(model) or {})
        self._began = began - self.state["seconds"]
        self._display: Progress | None = None

    @property
    def seconds(self) -> float:
        """Spent on the run until now, by processes that were killed too."""
        return perf_counter() - self._began

    def show(self, done: int, total: int | None, what: str) -> None:
        """For callbacks: shows how far something is that is no step (see `Progress.aside`)."""
        if self._display is not None:
            self._display.aside(done, total, what)

    def state_after(self, reports: int) -> dict[str, Any]:
        """The state when so many reports are done, without what the run adds to it."""
        before, step = self.state, reports * self._log_every
        place = self._examples.locate(before["epoch"], before["position"], step - before["step"])
        return {
            "step": step,
            **dict(zip(("epoch", "position"), place, strict=True)),
            "metrics": self._metrics.offset,
            "speed": self._speed.offset,
            "seconds": self.seconds,
        }

    def run(
        self,
        reports: int,
        *,
        seen: Mapping[str, Any],
        more: Callable[[], Mapping[str, Any]],
        callbacks: Sequence[keras.callbacks.Callback] = (),
        checkpoint_every: int,
        workers: int,
        note: str = "",
        later_steps: int = 0,
        score_name: Callable[[], str] = lambda: "score",
        is_over: bool = False,
        **options: Any,
    ) -> StopOnSignal:
        """Trains until `reports` are done.

        Args:
            reports: of the whole run.
            seen: statistics of the examples, for the logs.
            more: what joins the state in a checkpoint.
            callbacks: come before those of logs and checkpoints.
            checkpoint_every: reports between checkpoints.
            workers: that prepare batches.
            note: printed above the display.
            later_steps: of trainings that follow this one.
            score_name: returns the name of the metric that the logs call `val_score`.
            is_over: nothing is left to train, though reports are.
            options: of `fit`.

        Returns:
            The callback that knows whether a signal ended it.

        Raises:
            NumericError: the loss is not finite.
        """
        self._metrics.cut(self.state["metrics"])
        self._speed.cut(self.state["speed"])
        step = self.state["step"]
        display = Progress(
            reports * self._log_every, step, later_steps=later_steps, score_name=score_name
        )
        self._display, done = display, step // self._log_every
        with StopOnSignal(tell=display.note) as stop, display:
            if note:
                display.note(note)
            watched = Watched(self._examples, self.state["epoch"], self.state["position"])
            logged = WriteMetrics(
                self._metrics,
                self._speed,
                display,
                log_every=self._log_every,
                tokens_per_step=seen["tokens"] / seen["batches"],
                padding_share=seen["padding_share"],
                waited=watched.waited,
                checkpoint=lambda: self._checkpoints.last_step,
            )
            save = SaveCheckpoint(
                self._checkpoints,
                every=checkpoint_every,
                state=lambda report: {**self.state_after(report), **more()},
            )
            if done < reports and not is_over:
                self._model.fit(
                    dataset(
                        watched,
                        repeat=True,
                        epoch=self.state["epoch"],
                        position=self.state["position"],
                        workers=workers,
                    ),
                    initial_epoch=done,
                    epochs=reports,
                    steps_per_epoch=self._log_every,
                    callbacks=[*callbacks, logged, stop, save],
                    shuffle=False,  # a dataset has its order
                    verbose=0,  # pyright: ignore[reportArgumentType]
                    **options,
                )
        return stop
