"""The compiling of a task by its first `fit`."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from bert_keras import escaping
from bert_keras.defaults import FINETUNING
from bert_keras.optimization import WarmupDecay, optimizer

# Name of the optimizer that `fit` makes: a saved model keeps it, so that the next `fit` makes a new
# one, with a new schedule.
_OWN_OPTIMIZER = "adamw_of_fit"
_WARMUP_STEPS = 100  # where the number of steps is unknown
_SETS_THE_RATE = (keras.callbacks.LearningRateScheduler, keras.callbacks.ReduceLROnPlateau)


def compile_for(
    task: Any,
    steps: int | None,
    epochs: int,
    callbacks: Any,
    verbose: Any,
    learning_rate: float | None = None,
) -> None:
    """Compile a task that the caller did not compile, for one `fit`.

    A task that an earlier `fit` compiled gets a new optimizer, and so a new schedule.

    Args:
        task: a task.
        steps: batches of an epoch; None where they are not known.
        epochs: of this `fit`.
        callbacks: of this `fit`; one of them may set the learning rate.
        verbose: of this `fit`; 0 prints nothing.
        learning_rate: highest rate; None for the default of the task and its encoder.

    Raises:
        ValueError: a rate for a task that the caller compiled.
    """
    is_own = task.compiled and task.optimizer.name == _OWN_OPTIMIZER
    if task.compiled and not is_own:
        if learning_rate is not None:
            raise ValueError(
                "The task has an optimizer of your own: set the rate there. "
                f"Received: learning_rate={learning_rate}"
            )
        _warn_of_an_ended_schedule(task.optimizer)
        return
    values = FINETUNING
    rate = learning_rate
    if rate is None:
        width = task.encoder.config.hidden_size
        rate = values.learning_rate_of(task.default_rate_of, width)
    common: dict[str, Any] = {"weight_decay": values.weight_decay, "clip_norm": values.clip_norm}
    setters = [each for each in _listed(callbacks) if isinstance(each, _SETS_THE_RATE)]
    if setters:
        rule = optimizer(rate, **common)
        told = f"a constant rate of {rate:g} until {type(setters[0]).__name__} sets another"
    elif steps is None:
        rule = optimizer(
            rate,
            total_steps=_WARMUP_STEPS,
            warmup_steps=_WARMUP_STEPS,
            schedule="constant",
            **common,
        )
        told = (
            f"a rate of {rate:g} after {_WARMUP_STEPS} steps of warm-up, then "
            "constant, because the number of steps is not known"
        )
    else:
        total = max(1, steps * epochs)
        rule = optimizer(
            rate,
            total_steps=total,
            warmup_steps=round(values.warmup * total),
            schedule=values.schedule,
            **common,
        )
        told = f"a rate of {rate:g} with warm-up and {values.schedule} decay over {total:,} steps"
    rule.name = _OWN_OPTIMIZER
    task.compile(rule, **task.loss_and_metrics())
    if verbose != 0:
        escaping.print_line(f"{type(task).__name__}: compiled with AdamW, {told}.")


def _warn_of_an_ended_schedule(rule: Any) -> None:
    """Warn where every step of a `fit` would have the rate 0."""
    schedule = getattr(rule, "_learning_rate", None)
    is_checked = isinstance(schedule, WarmupDecay) and schedule.learning_rate > 0
    updates = int(rule.iterations) if is_checked else 0
    if updates and not float(rule.learning_rate):
        warnings.warn(
            f"The learning rate is 0 after {updates:,} updates: the schedule of the compiled "
            "optimizer has ended, and this `fit` changes no weight. Call `compile` with a new "
            "optimizer.",
            stacklevel=4,
        )


def steps_of(x: Any, batch_size: int | None, validation_split: float) -> int | None:
    """Return the batches of an epoch of features; None where they are not known."""
    leaves = [each for each in keras.tree.flatten(x) if getattr(each, "shape", None)]
    if isinstance(x, Mapping | np.ndarray) and leaves:
        count = int(leaves[0].shape[0] * (1 - validation_split))
        return -(-count // (batch_size or 32))
    try:
        return len(x)
    except TypeError:
        return None


def _listed(callbacks: Any) -> list[Any]:
    if callbacks is None:
        return []
    inner = getattr(callbacks, "callbacks", callbacks)
    return list(inner) if isinstance(inner, list | tuple) else [inner]
