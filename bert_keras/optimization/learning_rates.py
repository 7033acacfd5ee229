"""Learning rates: warm-up and decay over the steps, and layer-wise rates."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from numbers import Integral
from typing import Any

import keras
from keras import ops

from bert_keras.earlier_names import renamed

SLANTED = "slanted_triangular"
SCHEDULES = ("linear", "cosine", "polynomial", "constant", SLANTED)


@keras.saving.register_keras_serializable(package="bert_keras")
class WarmupDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Learning-rate schedule: linear warm-up, then a decay to `final_rate` at `total_steps`.

    "slanted_triangular" (Howard & Ruder, 2018, §3.2) defines its own warm-up. The rate rises from
    `learning_rate / ratio` during the share `cut_frac` of all steps, then falls back to that value.

    Args:
        learning_rate: highest rate.
        total_steps: number of updates until the decay ends. Then the rate stays constant.
        warmup_steps: number of updates in which the rate rises from zero to the highest rate.
        schedule: "linear" (Devlin et al., 2019, A.2), "cosine", "polynomial", "constant" or
            "slanted_triangular".
        power: exponent of "polynomial".
        final_rate: rate at the end. For "slanted_triangular" it follows from `ratio`.
        gradient_accumulation_steps: number of batches for each update. Keras calls the schedule
            with the number of batches.
        cut_frac: share of the steps in which "slanted_triangular" rises; at least one step.
        ratio: highest rate divided by the lowest rate of "slanted_triangular".

    Raises:
        ValueError: if the schedule is unknown, a value is out of range, or `warmup_steps` or
            `final_rate` are passed with "slanted_triangular".
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
        """Return the rate of the update after `step` batches, a float32 scalar."""
        step = ops.cast(ops.floor_divide(step, self.gradient_accumulation_steps), "float32")
        if self.schedule == SLANTED:
            return self._slanted(step)
        # + 1: the first update must have a rate above zero to have an effect.
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
        """Return the rate of "slanted_triangular" for an update number."""
        cut = max(int(self.total_steps * self.cut_frac), 1)
        # The paper has cut * (1 / cut_frac - 1). That is the same if total_steps * cut_frac is a
        # whole number; otherwise it leads to rates below zero.
        falling = max(self.total_steps - cut, 1)
        height = ops.where(step < cut, step / cut, 1.0 - (step - cut) / falling)
        return (
            self.learning_rate * (1.0 + ops.maximum(height, 0.0) * (self.ratio - 1.0)) / self.ratio
        )

    def get_config(self) -> dict[str, Any]:
        """Return the arguments of the constructor."""
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


# === Layer-wise learning rates ===


_BLOCK = re.compile(r"(?:^|/)block_(\d+)/")
# What all blocks read: the tables of tokens, and those of distances.
_BELOW = re.compile(r"(?:^|/)(?:embeddings|distance_bias|distance_vectors)/")


def depths(paths: Iterable[str]) -> tuple[int, ...]:
    """Return the depth of each variable below the head, by its path.

    Args:
        paths: paths of all trainable variables.

    Returns:
        0 for the head, the pooler and the final norm, 1 for the highest block, and so on. The
        embeddings, and the tables of distances that all blocks read, have one more than block 0.

    Raises:
        ValueError: if no variable belongs to a block.
    """
    paths = list(paths)
    blocks = [_BLOCK.search(path) for path in paths]
    height = 1 + max((int(block[1]) for block in blocks if block), default=-1)
    if not height:
        raise ValueError(
            "`layer_decay` and `unfreeze_every` tell layers by paths such as block_3/… and "
            "embeddings/…, and there is no block. Train an encoder or a task of bert_keras, or "
            f"leave them out. Received: variables {', '.join(paths)[:500]}"
        )
    result = []
    for path, block in zip(paths, blocks, strict=True):
        if block:
            result.append(height - int(block[1]))
        else:
            result.append(height + 1 if _BELOW.search(path) else 0)
    return tuple(result)


class LayerRates:
    """Optimizer mixin for layer-wise learning rates and gradual unfreezing.

    The rate of a variable at depth d is multiplied by `layer_decay ** d`, and by zero before update
    `d * unfreeze_every`. This depends only on path and step. So there is no state to save, and a
    resumed run continues exactly.

    The rate is scaled instead of the gradient, because Adam's step does not depend on the scale of
    the gradient. Variables of one depth are updated in one call, which keeps a backend's fused
    update of many variables.

    Args:
        layer_decay: factor from one layer to the next lower one, in (0, 1].
        unfreeze_every: number of updates until the next lower layer is trained too; 0 trains all
            layers from the beginning.

    Raises:
        ValueError: if one of them is out of range.
    """

    # Attributes of Keras's optimizer.
    iterations: Any
    _get_variable_index: Callable[[Any], int]
    _use_weight_decay: Callable[[Any], bool]

    def __init__(
        self, *args: Any, layer_decay: float = 1.0, unfreeze_every: int = 0, **kwargs: Any
    ):
        if not 0 < layer_decay <= 1:
            raise ValueError(f"`layer_decay` must lie in (0, 1]. Received: {layer_decay=}")
        if not isinstance(unfreeze_every, Integral) or unfreeze_every < 0:
            raise ValueError(
                "`unfreeze_every` must be a whole number of updates, 0 or more. "
                f"Received: {unfreeze_every=}"
            )
        super().__init__(*args, **kwargs)
        self.layer_decay = float(layer_decay)
        self.unfreeze_every = int(unfreeze_every)
        # Depth of each variable of the model, in the order of `build`; see `depths`.
        self._depths: tuple[int, ...] = ()
        self._rate_of_a_layer: Any = None  # rate of the depth whose weights decay now

    def build(self, variables: list[Any]) -> None:
        """Create the optimizer's variables for those of the model (Keras's hook)."""
        if self.layer_decay != 1 or self.unfreeze_every:
            self._depths = depths(variable.path for variable in variables)
        super().build(variables)  # pyright: ignore[reportAttributeAccessIssue]

    def get_config(self) -> dict[str, Any]:
        """Return the arguments of the constructor."""
        config = super().get_config()  # pyright: ignore[reportAttributeAccessIssue]
        return {**config, "layer_decay": self.layer_decay, "unfreeze_every": self.unfreeze_every}

    def _backend_update_step(self, grads: Any, trainable_variables: Any, learning_rate: Any):
        """Update the variables, with one call and one rate for each depth (Keras's hook)."""
        update: Any = super()._backend_update_step  # pyright: ignore[reportAttributeAccessIssue]
        if not self._depths:
            update(grads, trainable_variables, learning_rate)
            return
        for depth, places in self._places(trainable_variables).items():
            gradients = [grads[place] for place in places]
            variables = [trainable_variables[place] for place in places]
            update(gradients, variables, learning_rate * self._share(depth))

    def _apply_weight_decay(self, variables: Any) -> None:
        """Decay weights by the rate of their layer (Keras's hook)."""
        # Not called on TensorFlow: there `DecayInStep` receives the rate together with the step.
        decay: Any = super()._apply_weight_decay  # pyright: ignore[reportAttributeAccessIssue]
        if not self._depths:
            decay(variables)
            return
        # PyTorch fails on an empty list, so variables that do not decay are removed first.
        variables = [variable for variable in variables if self._use_weight_decay(variable)]
        rate = self._get_current_learning_rate()
        try:
            for depth, places in self._places(variables).items():
                self._rate_of_a_layer = rate * self._share(depth)
                decay([variables[place] for place in places])
        finally:
            self._rate_of_a_layer = None

    def _get_current_learning_rate(self) -> Any:
        """Return the rate of the layer whose weights decay now, else the optimizer's rate."""
        # Keras's weight decay has no argument for a rate and calls this method instead.
        if self._rate_of_a_layer is not None:
            return self._rate_of_a_layer
        return super()._get_current_learning_rate()  # pyright: ignore[reportAttributeAccessIssue]

    def _places(self, variables: Any) -> dict[int, list[int]]:
        """Return depth -> indices of its variables in the list."""
        places: dict[int, list[int]] = {}
        for place, variable in enumerate(variables):
            depth = self._depths[self._get_variable_index(variable)]
            places.setdefault(depth, []).append(place)
        return places

    def _share(self, depth: int) -> Any:
        """Return the factor of the learning rate at a depth in this update."""
        share = self.layer_decay**depth
        if not self.unfreeze_every or not depth:
            return share
        return share * ops.cast(self.iterations >= depth * self.unfreeze_every, "float32")
