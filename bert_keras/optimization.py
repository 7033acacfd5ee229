"""Optimizers and learning-rate schedules as BERT is trained with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

SCHEDULES = ("linear", "cosine", "polynomial", "constant")

# Names of the variables of layer normalisations and of all biases.
UNDECAYED = ("bias", "gamma", "beta")
# Paths of the pair heads of `Pretrainer`. The MLM head ends with the token table.
_LAST_LAYERS = (r"\b(nsp|sop)/",)


@keras.saving.register_keras_serializable(package="bert_keras")
class WarmupDecay(keras.optimizers.schedules.LearningRateSchedule):
    """A rise from zero over `warmup_steps`, then a decay to `final_rate` at `total_steps`.

    Args:
        learning_rate: the highest rate.
        total_steps: updates until the decay ends; the rate stays at `final_rate` after.
        warmup_steps: updates until the highest rate.
        schedule: "linear" (Devlin et al., 2019, A.2), "cosine", "polynomial" or "constant".
        power: exponent of "polynomial".
        final_rate: the rate at the end.
        accumulate: batches per update. Keras asks for the rate by batches.

    Raises:
        ValueError: an unknown schedule, more warm-up than steps, or no batch per update.
    """

    def __init__(
        self,
        learning_rate: float,
        total_steps: int,
        warmup_steps: int = 0,
        schedule: str = "linear",
        power: float = 2.0,
        final_rate: float = 0.0,
        accumulate: int = 1,
    ):
        if schedule not in SCHEDULES:
            raise ValueError(
                f"`schedule` must be one of {', '.join(SCHEDULES)}. Received: schedule={schedule!r}"
            )
        if not 0 <= warmup_steps <= total_steps:
            raise ValueError(
                "`warmup_steps` must lie in [0, total_steps]. Received: "
                f"warmup_steps={warmup_steps}, total_steps={total_steps}"
            )
        if accumulate < 1:
            raise ValueError(f"`accumulate` must be at least 1. Received: accumulate={accumulate}")
        self.learning_rate = learning_rate
        self.total_steps = total_steps
        self.warmup_steps = warmup_steps
        self.schedule = schedule
        self.power = power
        self.final_rate = final_rate
        self.accumulate = accumulate

    def __call__(self, step):
        """The rate of the update that follows `step` batches."""
        step = ops.cast(ops.floor_divide(step, self.accumulate), "float32")
        # The first update has a rate above zero: it is not wasted.
        risen = (step + 1.0) / max(self.warmup_steps, 1)
        decay_steps = max(self.total_steps - self.warmup_steps, 1)
        progress = ops.clip((step - self.warmup_steps) / decay_steps, 0.0, 1.0)
        if self.schedule == "linear":
            factor = 1.0 - progress
        elif self.schedule == "cosine":
            factor = 0.5 * (1.0 + ops.cos(math.pi * progress))
        elif self.schedule == "polynomial":
            factor = (1.0 - progress) ** self.power
        else:
            factor = ops.ones_like(progress)
        decayed = self.final_rate + (self.learning_rate - self.final_rate) * factor
        return ops.where(step < self.warmup_steps, self.learning_rate * risen, decayed)

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {
            "learning_rate": self.learning_rate,
            "total_steps": self.total_steps,
            "warmup_steps": self.warmup_steps,
            "schedule": self.schedule,
            "power": self.power,
            "final_rate": self.final_rate,
            "accumulate": self.accumulate,
        }


class _KeepsExclusions:
    """Names of variables that are not decayed, kept in the config.

    Keras forgets what `exclude_from_weight_decay` was told when an optimizer is rebuilt.
    """

    def __init__(self, *args: Any, undecayed: Sequence[str] = UNDECAYED, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.undecayed = tuple(undecayed)
        self.exclude_from_weight_decay(var_names=list(undecayed))

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {**super().get_config(), "undecayed": list(self.undecayed)}  # pyright: ignore


# On PyTorch, Keras makes instances of another class, which updates all variables at once; so the
# bases are the classes of instances.


@keras.saving.register_keras_serializable(package="bert_keras")
class AdamW(_KeepsExclusions, type(keras.optimizers.AdamW())):
    """Keras's AdamW whose exclusions from weight decay survive saving and loading.

    Args:
        undecayed: regular expressions; variables in whose names one is found are not decayed.
        kwargs: those of `keras.optimizers.AdamW`.
    """


@keras.saving.register_keras_serializable(package="bert_keras")
class Lamb(_KeepsExclusions, type(keras.optimizers.Lamb())):
    """Keras's LAMB, after You et al. (2020), whose exclusions from weight decay survive as well.

    Keras decays the weights beside the trust ratio, not within it.

    Args:
        undecayed: regular expressions; variables in whose names one is found are not decayed.
        kwargs: those of `keras.optimizers.Lamb`.
    """


@keras.saving.register_keras_serializable(package="bert_keras")
class Muon(_KeepsExclusions, type(keras.optimizers.Muon())):
    """Keras's Muon (Jordan et al., 2024; Liu et al., 2025), with the exclusions of `AdamW`.

    Matrices inside the model take an orthogonal step: all their directions grow alike, also those
    a small model would find late. Tables, vectors and the last layer of a pair head take AdamW's.

    Args:
        undecayed: regular expressions; variables in whose names one is found are not decayed.
        weight_decay: of all other variables.
        adam_lr_ratio: AdamW's rate, as a share of the learning rate.
        exclude_layers: regular expressions; matrices in whose paths one is found take AdamW's step.
        kwargs: those of `keras.optimizers.Muon`.
    """

    def __init__(
        self,
        *args: Any,
        weight_decay: float | None = 0.01,
        adam_lr_ratio: float = 1 / 3,
        exclude_layers: Sequence[str] = _LAST_LAYERS,
        **kwargs: Any,
    ):
        kwargs["adam_weight_decay"] = weight_decay
        super().__init__(
            *args,
            weight_decay=weight_decay,
            adam_lr_ratio=adam_lr_ratio,
            exclude_layers=list(exclude_layers),
            **kwargs,
        )


OPTIMIZERS = {"adamw": AdamW, "lamb": Lamb, "muon": Muon}


def optimizer(
    learning_rate: float,
    *,
    total_steps: int,
    warmup_steps: int = 0,
    schedule: str = "linear",
    name: str = "adamw",
    weight_decay: float = 0.01,
    clip_norm: float | None = 1.0,
    epsilon: float = 1e-6,
    accumulate: int = 1,
    ema: float = 0.0,
) -> keras.optimizers.Optimizer:
    """BERT's optimizer (Devlin et al., 2019, A.2), with Adam's bias correction.

    Args:
        learning_rate: the highest rate.
        total_steps: updates in all.
        warmup_steps: updates until the highest rate.
        schedule: "linear", "cosine", "polynomial" or "constant".
        name: "adamw", "lamb" or "muon".
        weight_decay: decoupled; layer normalisations and biases are left out.
        clip_norm: bound of the norm of all gradients together; None for no clipping.
        epsilon: added to the root of the second moment.
        accumulate: batches per update.
        ema: momentum of an exponential moving average of the weights; 0 for none.

    Raises:
        ValueError: an unknown name or schedule.
    """
    if name not in OPTIMIZERS:
        raise ValueError(f"`name` must be one of {', '.join(OPTIMIZERS)}. Received: name={name!r}")
    rate = WarmupDecay(
        learning_rate, total_steps, warmup_steps, schedule=schedule, accumulate=accumulate
    )
    return OPTIMIZERS[name](
        learning_rate=rate,
        weight_decay=weight_decay,
        epsilon=epsilon,
        global_clipnorm=clip_norm,
        gradient_accumulation_steps=accumulate if accumulate > 1 else None,
        use_ema=ema > 0,
        ema_momentum=ema or 0.99,
        name=name,
    )
