"""The optimizers, and the one that BERT is trained and fine-tuned with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras

from bert_keras.earlier_names import renamed
from bert_keras.optimization.decay import DecayInStep
from bert_keras.optimization.fused import FusedAdam
from bert_keras.optimization.layer_rates import LayerRates
from bert_keras.optimization.schedules import WarmupDecay

# Names of the variables of layer normalisations and of all biases.
UNDECAYED = ("bias", "gamma", "beta")
# Paths of the pair heads of `Pretrainer`. The MLM head ends with the token table.
_LAST_LAYERS = (r"\b(nsp|sop)/",)


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


def _class_of(optimizer: Any) -> Any:
    """The class of an optimizer's instances: on PyTorch another one, which updates all at once.

    No instance is initialised, for it would have a variable, and start JAX's devices: after that
    `jax.distributed.initialize` comes too late.
    """
    return type(optimizer.__new__(optimizer))


@keras.saving.register_keras_serializable(package="bert_keras")
class AdamW(
    _KeepsExclusions, DecayInStep, LayerRates, FusedAdam, _class_of(keras.optimizers.AdamW)
):
    """Keras's AdamW whose exclusions from weight decay survive saving and loading; fast on a CPU.

    Args:
        undecayed: regular expressions; variables in whose names one is found are not decayed.
        kwargs: those of `keras.optimizers.AdamW` and of `LayerRates`.
    """


@keras.saving.register_keras_serializable(package="bert_keras")
class Lamb(_KeepsExclusions, DecayInStep, LayerRates, _class_of(keras.optimizers.Lamb)):
    """Keras's LAMB, after You et al. (2020), whose exclusions from weight decay survive as well.

    Keras decays the weights beside the trust ratio, not within it.

    Args:
        undecayed: regular expressions; variables in whose names one is found are not decayed.
        kwargs: those of `keras.optimizers.Lamb` and of `LayerRates`.
    """


@keras.saving.register_keras_serializable(package="bert_keras")
class Muon(_KeepsExclusions, DecayInStep, LayerRates, _class_of(keras.optimizers.Muon)):
    """Keras's Muon (Jordan et al., 2024; Liu et al., 2025), with the exclusions of `AdamW`.

    Matrices inside the model take an orthogonal step: all their directions grow alike, also those
    a small model would find late. Tables, vectors and the last layer of a pair head take AdamW's.

    Args:
        undecayed: regular expressions; variables in whose names one is found are not decayed.
        weight_decay: of all other variables.
        adam_lr_ratio: AdamW's rate, as a share of the learning rate.
        exclude_layers: regular expressions; matrices in whose paths one is found take AdamW's step.
        kwargs: those of `keras.optimizers.Muon` and of `LayerRates`.
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


@renamed(
    "optimizer",
    accumulate="gradient_accumulation_steps",
    accumulation_steps="gradient_accumulation_steps",
    ema="ema_momentum",
)
def optimizer(
    learning_rate: float,
    *,
    total_steps: int | None = None,
    warmup_steps: int = 0,
    schedule: str | None = None,
    name: str = "adamw",
    weight_decay: float = 0.01,
    clip_norm: float | None = 1.0,
    epsilon: float = 1e-6,
    gradient_accumulation_steps: int = 1,
    ema_momentum: float = 0.0,
    layer_decay: float = 1.0,
    unfreeze_every: int = 0,
    cut_frac: float = 0.1,
    ratio: float = 32.0,
) -> keras.optimizers.Optimizer:
    """BERT's optimizer (Devlin et al., 2019, A.2), with Adam's bias correction.

    Without it, as in Google's code, fine-tuning on few examples often fails (Mosbach et al., 2021;
    Zhang et al., 2021). They advise a rate of 2e-5, warm-up over a tenth of the steps, linear decay
    to zero, and many epochs (20) where there are few examples.

    With `unfreeze_every` (gradual unfreezing: Howard & Ruder, 2018, §3.3) the head moves first,
    then the highest block as well, and so on down to the embeddings. A layer whose turn has not
    come is unchanged bit for bit, and neither decays. Its gradients are still computed, count in
    `clip_norm`, and gather in its moments, as Adam's bias correction, which counts all updates,
    demands. So it saves no time.

    Args:
        learning_rate: the highest rate.
        total_steps: updates in all. None for a constant rate that callbacks and
            `optimizer.learning_rate = ...` may set.
        warmup_steps: updates until the highest rate.
        schedule: "linear", "cosine", "polynomial", "constant" or "slanted_triangular"; see
            `WarmupDecay`. None: "linear" where `total_steps` is given.
        name: "adamw", "lamb" or "muon".
        weight_decay: decoupled; layer normalisations and biases are left out.
        clip_norm: bound of the norm of all gradients together; None for no clipping.
        epsilon: added to the root of the second moment, before its bias is corrected.
        gradient_accumulation_steps: batches per update.
        ema_momentum: momentum of an exponential moving average of the weights; 0 for none.
        layer_decay: factor of the rate from each layer to the next below: head and pooler 1, the
            highest block `layer_decay`, the embeddings `layer_decay ** (num_layers + 1)` (after
            Clark et al., 2020, appendix B, whose code counts one more for all but the head). Decay
            of weights goes by the same rate. ELECTRA's values: 0.8 for base, 0.9 for large.
        unfreeze_every: updates until the next layer below moves too; 0 for all from the beginning.
        cut_frac: of "slanted_triangular": the share of the steps that rise.
        ratio: of "slanted_triangular": the highest rate over the lowest.

    Raises:
        ValueError: an unknown name or schedule, a value out of range, or a schedule without
            `total_steps`.
    """
    if name not in OPTIMIZERS:
        raise ValueError(f"`name` must be one of {', '.join(OPTIMIZERS)}. Received: name={name!r}")
    rate: Any = learning_rate
    if total_steps is not None:
        rate = WarmupDecay(
            learning_rate,
            total_steps,
            warmup_steps,
            schedule=schedule or "linear",
            gradient_accumulation_steps=gradient_accumulation_steps,
            cut_frac=cut_frac,
            ratio=ratio,
        )
    elif warmup_steps or schedule is not None:
        raise ValueError(
            "Warm-up and schedules need the number of updates: pass `total_steps`. Received: "
            f"warmup_steps={warmup_steps}, schedule={schedule!r}, total_steps=None"
        )
    several = gradient_accumulation_steps if gradient_accumulation_steps > 1 else None
    return OPTIMIZERS[name](
        learning_rate=rate,
        weight_decay=weight_decay,
        epsilon=epsilon,
        global_clipnorm=clip_norm,
        gradient_accumulation_steps=several,
        use_ema=ema_momentum > 0,
        ema_momentum=ema_momentum or 0.99,
        layer_decay=layer_decay,
        unfreeze_every=unfreeze_every,
        name=name,
    )
