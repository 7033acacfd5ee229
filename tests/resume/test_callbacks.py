"""Saving and stopping within `fit`."""

from __future__ import annotations

import os
import signal

import keras
import numpy as np
import pytest

from bert_keras.errors import NumericError
from bert_keras.resume import SaveCheckpoint, StopOnSignal, TrainingCheckpoints

STEPS = 3  # These are the steps of one epoch.
BATCH = 2


def _state(epochs):
    return {"step": epochs * STEPS, "epochs": epochs}


class At(keras.callbacks.Callback):
    """Callback that calls a function after a step, counted over the whole run."""

    def __init__(self, step, action):
        super().__init__()
        self.left = step
        self.action = action

    def on_train_batch_end(self, *_, **__):
        self.left -= 1
        if self.left == 0:
            self.action(self.model)


def _fit(model, epochs, callbacks, initial_epoch=0):
    generator = np.random.default_rng(0)
    x = generator.normal(size=(STEPS * BATCH, 4)).astype("float32")
    options = {"batch_size": BATCH, "shuffle": False, "verbose": 0}
    model.fit(
        x,
        x[:, :2],
        epochs=epochs,
        initial_epoch=initial_epoch,
        callbacks=callbacks,
        **options,
    )


def _steps(folder):
    return sorted(int(path.name.removeprefix("step-")) for path in folder.iterdir())


@pytest.mark.parametrize(("every", "expected"), [(1, [3, 6, 9, 12, 15]), (2, [6, 12, 15])])
def test_saves_every_so_often_and_at_the_end(tmp_path, build, every, expected):
    checkpoints = TrainingCheckpoints(tmp_path, keep=9)
    _fit(build(run_eagerly=True), 5, [SaveCheckpoint(checkpoints, every=every, state=_state)])
    assert _steps(tmp_path) == expected


@pytest.mark.parametrize("ema", [False, True])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_epoch_and_the_run_can_go_on(tmp_path, build, snapshot, number, ema):
    def new(seed):
        return build(seed, keras.optimizers.AdamW(0.01, use_ema=ema), run_eagerly=True)

    whole = new(0)
    kept = TrainingCheckpoints(tmp_path / "whole")
    _fit(whole, 4, [SaveCheckpoint(kept, every=10, state=_state)])

    stopped, resumed = new(0), new(1)
    checkpoints = TrainingCheckpoints(tmp_path / "stopped")
    with StopOnSignal() as stop:
        send = At(STEPS + 1, lambda _: os.kill(os.getpid(), number))
        _fit(stopped, 4, [send, stop, SaveCheckpoint(checkpoints, every=10, state=_state)])
    assert stop.signal == number
    assert stop.exit_code == 128 + number
    state = checkpoints.restore(resumed)
    assert state == {"step": 2 * STEPS, "epochs": 2}
    with StopOnSignal() as stop:
        callbacks = [stop, SaveCheckpoint(checkpoints, every=10, state=_state)]
        _fit(resumed, 4, callbacks, initial_epoch=2)
    assert stop.signal is None
    assert stop.exit_code == 0
    assert snapshot(resumed) == snapshot(whole)
    # At its end `fit` replaces the weights by their averages. The checkpoint for a longer run has
    # the state before that.
    checkpoints.restore(resumed)
    kept.restore(whole)
    assert snapshot(resumed) == snapshot(whole)


@pytest.fixture
def interruptible():
    """Make SIGINT raise KeyboardInterrupt.

    A shell that starts the tests in the background ignores SIGINT.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_a_second_signal_does_what_it_did_before(tmp_path, build):
    """A second signal has the effect that it has without the callback."""

    def twice(_):
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)

    checkpoints = TrainingCheckpoints(tmp_path)
    before = signal.getsignal(signal.SIGTERM)
    stop, save = StopOnSignal(), SaveCheckpoint(checkpoints, state=_state)
    with pytest.raises(KeyboardInterrupt), stop:
        _fit(build(run_eagerly=True), 4, [At(STEPS + 2, twice), stop, save])
    assert stop.signal == signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) == before
    assert _steps(tmp_path) == [STEPS]


def test_who_sends_a_signal_is_told_once_what_comes_of_it(tmp_path, build):
    """After a signal, one message tells what happens next."""
    told = []
    with StopOnSignal(tell=told.append) as stop:
        send = At(STEPS + 1, lambda _: os.kill(os.getpid(), signal.SIGTERM))
        save = SaveCheckpoint(TrainingCheckpoints(tmp_path), every=10, state=_state)
        _fit(build(run_eagerly=True), 4, [send, stop, save])
    (sentence,) = told
    assert sentence.startswith("SIGTERM: the training ends with a checkpoint")


def test_a_callback_further_down_may_stop_the_training(tmp_path, build, snapshot):
    class Stop(keras.callbacks.Callback):
        def on_epoch_end(self, *_):
            self.model.stop_training = True

    model = build(run_eagerly=True)
    save = SaveCheckpoint(TrainingCheckpoints(tmp_path), every=10, state=_state)
    _fit(model, 4, [save, Stop()])
    assert _steps(tmp_path) == [STEPS]


def test_averaged_weights_are_not_saved_as_the_state_of_training(tmp_path, build):
    class Stop(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, *_):
            self.model.stop_training = epoch == 1

    model = build(0, keras.optimizers.AdamW(0.01, use_ema=True), run_eagerly=True)
    save = SaveCheckpoint(TrainingCheckpoints(tmp_path), every=10, state=_state)
    _fit(model, 4, [save, Stop()])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("every", "expected"), [(1, [STEPS]), (10, [])])
def test_an_epoch_cut_short_is_not_saved(tmp_path, build, every, expected):
    def stop(model):
        model.stop_training = True

    save = SaveCheckpoint(TrainingCheckpoints(tmp_path), every=every, state=_state)
    _fit(build(run_eagerly=True), 4, [At(STEPS + 2, stop), save])
    assert _steps(tmp_path) == expected


def test_a_model_can_be_restored_within_fit(tmp_path, build, snapshot):
    """A model can be restored within `fit`.

    On JAX the trainer holds the values during `fit`, and must take over the restored ones.
    """
    model = build()
    checkpoints = TrainingCheckpoints(tmp_path)
    _fit(model, 1, [SaveCheckpoint(checkpoints, state=_state)])
    saved = snapshot(model)
    seen = []

    def look(model):
        checkpoints.restore(model)
        seen.append(snapshot(model))

    _fit(model, 1, [At(1, look)])
    assert seen == [saved]
    whole = build(5)
    checkpoints.restore(whole)
    x = np.random.default_rng(0).normal(size=(STEPS * BATCH, 4)).astype("float32")[BATCH:]
    whole.fit(x, x[:, :2], batch_size=BATCH, shuffle=False, verbose=0)
    assert snapshot(model) == snapshot(whole)


def test_weights_that_are_not_finite_end_the_run(tmp_path, build):
    def poison(model):
        model.get_layer("head").bias.assign([np.nan, 0.0])

    save = SaveCheckpoint(TrainingCheckpoints(tmp_path), state=_state)
    with pytest.raises(NumericError, match="kernel"):
        _fit(build(run_eagerly=True), 4, [At(STEPS + 1, poison), save])
    assert _steps(tmp_path) == [STEPS]


def test_bad_argument(tmp_path):
    with pytest.raises(ValueError, match="every=0"):
        SaveCheckpoint(TrainingCheckpoints(tmp_path), every=0, state=_state)
