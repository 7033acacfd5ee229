"""Keras callbacks that save training checkpoints and stop `model.fit` on a signal.

They act at the end of a Keras epoch. Training programs make epochs short: one logging interval of
some steps. At the end of an epoch the metrics are complete, the variables are consistent on every
backend, and the data position is known.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

import keras

from bert_keras.resume.checkpoint import TrainingCheckpoints


class SaveCheckpoint(keras.callbacks.Callback):
    """Callback that saves a checkpoint every `every` epochs and after the last epoch.

    Put it last in the list of callbacks. Then it notices that another callback has stopped the
    training, and the work of the others at the end of an epoch (such as the log) is done. An epoch
    that a callback interrupts is not saved: the resumed run repeats it from its beginning.

    With `use_ema` Keras replaces the weights by their averages before it calls `on_train_end`.
    Training could not continue exactly from those, so the last save is at the end of the epoch.

    Args:
        checkpoints: the checkpoints of the run.
        every: number of epochs between saves, counted from the first epoch of the whole run, so
            that a resumed run saves at the same steps as an uninterrupted one.
        state: function from the number of finished epochs to the state of the run, a dict of JSON
            values with "step".

    Raises:
        ValueError: if `every` is less than 1.
    """

    def __init__(
        self,
        checkpoints: TrainingCheckpoints,
        *,
        every: int = 1,
        state: Callable[[int], Mapping[str, Any]],
    ):
        super().__init__()
        if every < 1:
            raise ValueError(f"`every` must be at least 1. Received: every={every}")
        self._checkpoints = checkpoints
        self._every = every
        self._state = state
        self._batch = 0
        self._unsaved: int | None = None

    def on_epoch_begin(self, epoch: int, logs: dict[str, float] | None = None) -> None:  # noqa: ARG002
        """Note that the state is no longer that of the end of an epoch."""
        self._batch = 0
        self._unsaved = None

    def on_train_batch_begin(self, batch: int, logs: dict[str, float] | None = None) -> None:  # noqa: ARG002
        """Note the number of the batch, by which `on_epoch_end` knows an interrupted epoch."""
        self._batch = batch

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:  # noqa: ARG002
        """Save if a save is due after this epoch and the epoch is complete."""
        steps = self.params.get("steps")
        if steps is not None and self._batch + self.model.steps_per_execution < steps:
            return
        self._unsaved = epoch + 1
        last = self.model.stop_training or self._unsaved == self.params.get("epochs")
        if last or self._unsaved % self._every == 0:
            self._save()

    def on_train_end(self, logs: dict[str, float] | None = None) -> None:  # noqa: ARG002
        """Save if a callback that ran after this one has stopped the training."""
        optimizer = self.model.optimizer
        if not getattr(optimizer, "inner_optimizer", optimizer).use_ema:
            self._save()

    def _save(self) -> None:
        """Save the epoch that ended last, if it is not saved yet."""
        if self._unsaved is not None:
            self._checkpoints.save(self.model, self._state(self._unsaved))
            self._unsaved = None


class StopOnSignal(keras.callbacks.Callback):
    """Callback that ends training with a checkpoint when SIGTERM or SIGINT is received.

    After the first signal the current epoch is finished. A second signal has its usual effect and
    ends the process at once; the last complete checkpoint stays.

        with StopOnSignal() as stop:
            model.fit(…, callbacks=[stop, SaveCheckpoint(…)])
        if stop.signal is not None:
            sys.exit(stop.exit_code)

    Args:
        tell: function that shows a message to the user, after the step of the first signal.

    Attributes:
        signal: the signal that was received, or None.
    """

    def __init__(self, tell: Callable[[str], None] | None = None):
        super().__init__()
        self.signal: signal.Signals | None = None
        self._tell = tell
        self._previous: dict[int, Any] = {}

    @property
    def exit_code(self) -> int:
        """Exit code of the run: 128 + the number of the signal (143, 130); 0 without one."""
        return 0 if self.signal is None else 128 + self.signal

    def __enter__(self) -> StopOnSignal:
        """Install the signal handlers, and keep the previous ones."""
        for number in (signal.SIGTERM, signal.SIGINT):
            self._previous[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *error: object) -> None:
        """Restore the previous signal handlers."""
        self._give_back()

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:  # noqa: ARG002
        """Tell the user, once, that a signal was received."""
        if self.signal is not None and self._tell is not None:
            self._tell(
                f"{self.signal.name}: the training ends with a checkpoint, after this epoch or "
                "logging interval; a second signal ends it at once, and it goes back to the last "
                "checkpoint."
            )
            self._tell = None

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:  # noqa: ARG002
        """Stop the training if a signal was received."""
        if self.signal is not None:
            self.model.stop_training = True

    def _receive(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """Handle the first signal."""
        self.signal = signal.Signals(number)
        self._give_back()

    def _give_back(self) -> None:
        """Restore the previous signal handlers."""
        while self._previous:
            number, handler = self._previous.popitem()
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
