"""Saving and stopping from within `model.fit`.

The unit of time is the Keras epoch, which a training program makes short: one logging interval of
some steps. At its end the metrics are complete, the state is whole on every backend, and the data
position is known.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

import keras

from bert_keras.resume.checkpoint import TrainingCheckpoints


class SaveCheckpoint(keras.callbacks.Callback):
    """Saves every `every` epochs and after the last one.

    Put it last in the list of callbacks: then it sees that another one has stopped the training,
    and what the others do at the end of an epoch (such as writing the log) is done. An epoch that
    a callback cuts short is not saved: the resumed run repeats it from its beginning.

    With `use_ema` Keras puts the averaged weights in place before it calls `on_train_end`, and
    training could not go on exactly from these; so the last save happens at the end of the epoch.

    Args:
        checkpoints: where to.
        every: in epochs, counted from the very first epoch of the run (`initial_epoch` included),
            so that a resumed run saves where the uninterrupted one does.
        state: `state(epochs) -> dict`: the state of the run after so many epochs, with "step".
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
        """Keras: the state leaves that of the last epoch's end."""
        self._batch = 0
        self._unsaved = None

    def on_train_batch_begin(self, batch: int, logs: dict[str, float] | None = None) -> None:  # noqa: ARG002
        """Keras: notes how far the epoch is."""
        self._batch = batch

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:  # noqa: ARG002
        """Keras: saves if this epoch is one to save after."""
        steps = self.params.get("steps")
        if steps is not None and self._batch + self.model.steps_per_execution < steps:
            return
        self._unsaved = epoch + 1
        last = self.model.stop_training or self._unsaved == self.params.get("epochs")
        if last or self._unsaved % self._every == 0:
            self._save()

    def on_train_end(self, logs: dict[str, float] | None = None) -> None:  # noqa: ARG002
        """Keras: saves what a callback after this one has stopped."""
        optimizer = self.model.optimizer
        if not getattr(optimizer, "inner_optimizer", optimizer).use_ema:
            self._save()

    def _save(self) -> None:
        if self._unsaved is not None:
            self._checkpoints.save(self.model, self._state(self._unsaved))
            self._unsaved = None


class StopOnSignal(keras.callbacks.Callback):
    """Ends training in good order on SIGTERM or SIGINT: with the epoch, and with a checkpoint.

    The first signal lets the current epoch finish. A second one does what it would have done
    without us: at once, and the last complete checkpoint stays.

        with StopOnSignal() as stop:
            model.fit(…, callbacks=[stop, SaveCheckpoint(…)])
        if stop.signal is not None:
            sys.exit(stop.exit_code)

    Args:
        tell: called with a sentence for people, after the step in which the first signal comes.

    Attributes:
        signal: the signal received, or None.
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
        for number in (signal.SIGTERM, signal.SIGINT):
            self._previous[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *error: object) -> None:
        self._give_back()

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:  # noqa: ARG002
        """Keras: a step is done."""
        if self.signal is not None and self._tell is not None:
            self._tell(
                f"{self.signal.name}: the training ends with a checkpoint, after this epoch or "
                "report; a second signal ends it at once, and it goes back to the last one."
            )
            self._tell = None

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:  # noqa: ARG002
        """Keras: stops if a signal has come."""
        if self.signal is not None:
            self.model.stop_training = True

    def _receive(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        self.signal = signal.Signals(number)
        self._give_back()

    def _give_back(self) -> None:
        while self._previous:
            number, handler = self._previous.popitem()
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
