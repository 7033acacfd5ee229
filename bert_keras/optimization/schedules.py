"""Learning rate schedules: warm-up, then decay."""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops

from bert_keras.earlier_names import renamed

SLANTED = "slanted_triangular"
SCHEDULES = ("linear", "cosine", "polynomial", "constant", SLANTED)


@keras.saving.register_keras_serializable(package="bert_keras")
class WarmupDecay(keras.optimizers.schedules.LearningRateSchedule):
    """A rise over `warmup_steps`, then a decay to `final_rate` at `total_steps`.

    "slanted_triangular" (Howard & Ruder, 2018, §3.2) has a rise of its own, over the share
    `cut_frac` of all steps, from `learning_rate / ratio`, where its fall ends too.

    Args:
        learning_rate: the highest rate.
        total_steps: updates until the decay ends; the rate stays as it is then.
        warmup_steps: updates until the highest rate, from zero.
        schedule: "linear" (Devlin et al., 2019, A.2), "cosine", "polynomial", "constant" or
            "slanted_triangular".
        power: exponent of "polynomial".
        final_rate: the rate at the end; that of "slanted_triangular" follows from `ratio`.
        gradient_accumulation_steps: batches per update. Keras asks for the rate by batches.
        cut_frac: of "slanted_triangular": the share of the steps that rise, one step at least.
        ratio: of "slanted_triangular": how much smaller the lowest rate is than the highest.

    Raises:
        ValueError: an unknown schedule, more warm-up than steps, no batch per update, a share or a
            ratio out of range, or values that "slanted_triangular" has no use for.
    """

    @renamed("WarmupDecay", accumulate="gradient_accumulation_steps")
    def __init__(
        self,
        learning_rate: float,
        total_steps: int,
        warmup_steps: int = 0,
        schedule: str = "linear",
        power: float = 2.0,
        final_rate: float = 0.0,
        gradient_accumulation_steps: int = 1,
        cut_frac: float = 0.1,
        ratio: float = 32.0,
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
        if gradient_accumulation_steps < 1:
            raise ValueError(
                "`gradient_accumulation_steps` must be at least 1. "
                f"Received: {gradient_accumulation_steps=}"
            )
        if not 0 < cut_frac < 1:
            raise ValueError(f"`cut_frac` must lie in (0, 1). Received: cut_frac={cut_frac}")
        if ratio < 1:
            raise ValueError(f"`ratio` must be at least 1. Received: ratio={ratio}")
        if schedule == SLANTED and (warmup_steps or final_rate):
            raise ValueError(
                f"{SLANTED!r} rises over `cut_frac` and ends at `learning_rate / ratio`: leave "
                "`warmup_steps` and `final_rate` at 0. Received: "
                f"warmup_steps={warmup_steps}, final_rate={final_rate}"
            )
        self.learning_rate = learning_rate
        self.total_steps = total_steps
        self.warmup_steps = warmup_steps
        self.schedule = schedule
        self.power = power
        self.final_rate = final_rate
        self.gradient_accumulation_steps = gradient_accumulation_steps
        self.cut_frac = cut_frac
        self.ratio = ratio

    def __call__(self, step):
        """The rate of the update that follows `step` batches."""
        step = ops.cast(ops.floor_divide(step, self.gradient_accumulation_steps), "float32")
        if self.schedule == SLANTED:
            return self._slanted(step)
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

    def _slanted(self, step):
        cut = max(int(self.total_steps * self.cut_frac), 1)
        # The paper's cut * (1 / cut_frac - 1) is this wherever the cut falls on a whole step;
        # elsewhere it would lead to rates below zero.
        falling = max(self.total_steps - cut, 1)
        height = ops.where(step < cut, step / cut, 1.0 - (step - cut) / falling)
        return (
            self.learning_rate * (1.0 + ops.maximum(height, 0.0) * (self.ratio - 1.0)) / self.ratio
        )

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {
            "learning_rate": self.learning_rate,
            "total_steps": self.total_steps,
            "warmup_steps": self.warmup_steps,
            "schedule": self.schedule,
            "power": self.power,
            "final_rate": self.final_rate,
            "gradient_accumulation_steps": self.gradient_accumulation_steps,
            "cut_frac": self.cut_frac,
            "ratio": self.ratio,
        }
