"""Optimizers of BERT: AdamW with decoupled weight decay, fused steps, LAMB."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras

from bert_keras.earlier_names import renamed
from bert_keras.optimization.learning_rates import LayerRates, WarmupDecay


class DecayInStep:
    """A part of an optimizer: on TensorFlow each weight decays in its own step.

    Keras decays all weights first. TensorFlow runs what waits for nothing as soon as it can, and
    copies a variable that is written while its old value is still read: so every step held all
    weights twice. The numbers are the same: the rate of the step is that of the decay.
    """

    # Keras's names.
    weight_decay: float | None
    _use_weight_decay: Any

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """Keras: updates one variable."""
        if keras.backend.backend() == "tensorflow":
            import tensorflow as tf

            gradient = tf.convert_to_tensor(gradient)
            if self.weight_decay is not None and self._use_weight_decay(variable):
                with tf.control_dependencies([gradient]):
                    share = tf.cast(self.weight_decay * learning_rate, variable.dtype)
                    variable.assign_sub(variable * share)
        super().update_step(gradient, variable, learning_rate)  # pyright: ignore

    def _apply_weight_decay(self, variables: Any) -> None:
        """Keras: all of them before the step; on PyTorch it fails where no weight decays."""
        is_before = keras.backend.backend() != "tensorflow"
        if is_before and any(self._use_weight_decay(variable) for variable in variables):
            super()._apply_weight_decay(variables)  # pyright: ignore


# === Fused Adam ===
# On a CPU, Keras's own step reads and writes the weights about ten times (measured in
# docs/decisions.md), which for short rows costs as much as the model itself.


class FusedAdam:
    """A part of an optimizer with Adam's moments: TensorFlow's and PyTorch's kernels of its step.

    The formula is Keras's (Kingma & Ba, 2015, end of §2, with epsilon hat), the rounding is the
    kernel's. JAX's compiler fuses the step by itself. On PyTorch it is for a CPU alone: on a GPU
    the kernel's plain numbers would make the host wait at each step.
    """

    # Adam's, Keras's names.
    _momentums: list[Any]
    _velocities: list[Any]
    _powers: Any = None

    def _backend_update_step(self, grads: Any, trainable_variables: Any, learning_rate: Any):
        update: Any = super()._backend_update_step  # pyright: ignore
        backend = keras.backend.backend()
        if backend == "torch" and self._is_for_torch(trainable_variables):
            self._torch_step(grads, trainable_variables, learning_rate)
            return
        if backend == "tensorflow":
            self._powers = self._bias_powers()
        try:
            update(grads, trainable_variables, learning_rate)
        finally:
            self._powers = None

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """Keras: updates one variable."""
        if self._powers is None or self.amsgrad or variable.dtype != "float32":
            super().update_step(gradient, variable, learning_rate)  # pyright: ignore
            return
        import tensorflow as tf

        index = self._get_variable_index(variable)
        power_1, power_2 = self._powers
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=self._momentums[index].value.handle,
            v=self._velocities[index].value.handle,
            beta1_power=power_1,
            beta2_power=power_2,
            lr=tf.cast(learning_rate, tf.float32),
            beta1=self.beta_1,
            beta2=self.beta_2,
            epsilon=self.epsilon,
            grad=tf.cast(tf.convert_to_tensor(gradient), tf.float32),
        )

    def _bias_powers(self) -> tuple[Any, Any]:
        """Of beta 1 and 2, by which the moments fall short."""
        updates = keras.ops.cast(self.iterations + 1, "float32")
        return keras.ops.power(self.beta_1, updates), keras.ops.power(self.beta_2, updates)

    def _is_for_torch(self, variables: Any) -> bool:
        """Return whether PyTorch's fused kernel takes these: contiguous float32 CPU tensors."""
        import torch

        values = [variable.value for variable in variables]
        return not (self.amsgrad or torch.compiler.is_compiling()) and all(
            value.device.type == "cpu" and value.dtype == torch.float32 and value.is_contiguous()
            for value in values
        )

    def _torch_step(self, grads: Any, variables: Any, learning_rate: Any) -> None:
        import torch

        places = [self._get_variable_index(variable) for variable in variables]
        updates = int(self.iterations) + 1
        with torch.no_grad():
            torch._fused_adamw_(  # pyright: ignore[reportPrivateImportUsage]
                [variable.value for variable in variables],
                [grad.contiguous() for grad in grads],
                [self._momentums[place].value for place in places],
                [self._velocities[place].value for place in places],
                [],
                [torch.tensor(float(updates))] * len(places),
                lr=float(learning_rate),
                beta1=self.beta_1,
                beta2=self.beta_2,
                weight_decay=0.0,  # Keras has seen to it
                # PyTorch adds its epsilon to the corrected moment.
                eps=self.epsilon / (1 - self.beta_2**updates) ** 0.5,
                amsgrad=False,
                maximize=False,
            )

    def _clip_gradients(self, grads: Any) -> Any:
        """Keras: gradients within the bound of their norm, in fewer passes over them."""
        backend = keras.backend.backend()
        if backend == "jax" or self.clipnorm or not self.global_clipnorm:
            return super()._clip_gradients(grads)  # pyright: ignore
        clipped = _clipped_by_torch if backend == "torch" else _clipped_by_tensorflow
        return clipped(grads, self.global_clipnorm)


def _clipped_by_torch(grads: Any, most: float) -> Any:
    """Scaled in place."""
    import torch

    with torch.no_grad():
        norm = torch.nn.utils.get_total_norm(grads)
        scale = (most / norm).clamp(max=1.0)
        # As Keras has it, no gradient is finite where the norm is not.
        scale = torch.where(norm.isfinite(), scale, torch.nan)
        torch._foreach_mul_(grads, scale)  # pyright: ignore[reportPrivateImportUsage]
    return grads


def _clipped_by_tensorflow(grads: Any, most: float) -> Any:
    """Of tables, whose rows are mostly not read, the rows that are."""
    import tensorflow as tf

    grads = [_summed(grad) if isinstance(grad, tf.IndexedSlices) else grad for grad in grads]
    parts = [getattr(grad, "values", grad) for grad in grads if grad is not None]
    norm = tf.sqrt(2.0 * tf.add_n([tf.nn.l2_loss(tf.cast(part, tf.float32)) for part in parts]))
    scale = most / tf.maximum(norm, most)
    scale += norm - norm  # as Keras has it, no gradient is finite where the norm is not

    def scaled(grad: Any) -> Any:
        if isinstance(grad, tf.IndexedSlices):
            return tf.IndexedSlices(scaled(grad.values), grad.indices, grad.dense_shape)
        return None if grad is None else grad * tf.cast(scale, grad.dtype)

    return [scaled(grad) for grad in grads]


def _summed(grad: Any) -> Any:
    """Each row once."""
    import tensorflow as tf

    rows, places = tf.unique(grad.indices)
    values = tf.math.unsorted_segment_sum(grad.values, places, tf.size(rows))
    return tf.IndexedSlices(values, rows, grad.dense_shape)


# === Optimizers ===


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
