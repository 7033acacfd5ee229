"""AdamW, LAMB and Muon for BERT: exclusions from weight decay, layer-wise rates, fused steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras

from bert_keras.earlier_names import renamed
from bert_keras.optimization.learning_rates import LayerRates, WarmupDecay


class DecayInStep:
    """Optimizer mixin that, on TensorFlow, decays each weight within its own update step.

    Keras decays all weights before the step. TensorFlow starts these operations as early as it can,
    and copies a variable that is written while its old value is still read. So every step would
    hold all weights twice. The results are the same, because decay and step have the same rate.
    """

    # Attributes of Keras's optimizer.
    weight_decay: float | None
    _use_weight_decay: Any

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """Decay and update one variable (Keras's hook)."""
        if keras.backend.backend() == "tensorflow":
            import tensorflow as tf

            gradient = tf.convert_to_tensor(gradient)
            if self.weight_decay is not None and self._use_weight_decay(variable):
                with tf.control_dependencies([gradient]):
                    share = tf.cast(self.weight_decay * learning_rate, variable.dtype)
                    variable.assign_sub(variable * share)
        super().update_step(gradient, variable, learning_rate)  # pyright: ignore[reportAttributeAccessIssue]

    def _apply_weight_decay(self, variables: Any) -> None:
        """Decay weights before the step, except on TensorFlow (Keras's hook).

        Keras's own method fails on PyTorch if no weight decays.
        """
        is_before = keras.backend.backend() != "tensorflow"
        if is_before and any(self._use_weight_decay(variable) for variable in variables):
            super()._apply_weight_decay(variables)  # pyright: ignore[reportAttributeAccessIssue]


# === Fused Adam ===
# On a CPU, Keras's own step reads and writes the weights about ten times (measured in
# docs/decisions.md). For short rows that takes as long as the model itself.


class FusedAdam:
    """Optimizer mixin that computes Adam's step with the fused kernels of TensorFlow and PyTorch.

    The formula is Keras's (Kingma & Ba, 2015, end of §2, with epsilon hat), but results may differ
    in the last bits. JAX's compiler fuses the step by itself. PyTorch's kernel is used only on a
    CPU: it takes rate and step count as Python numbers, and on a GPU the host would have to wait
    for them in each step.
    """

    # Attributes of Keras's Adam.
    amsgrad: bool
    beta_1: float
    beta_2: float
    clipnorm: float | None
    epsilon: float
    global_clipnorm: float | None
    iterations: Any
    _get_variable_index: Callable[[Any], int]
    _momentums: list[Any]
    _velocities: list[Any]
    _powers: Any = None

    def _backend_update_step(self, grads: Any, trainable_variables: Any, learning_rate: Any):
        """Update all variables, with a fused kernel if there is one (Keras's hook)."""
        update: Any = super()._backend_update_step  # pyright: ignore[reportAttributeAccessIssue]
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
        """Update one variable, with TensorFlow's fused kernel if possible (Keras's hook)."""
        if self._powers is None or self.amsgrad or variable.dtype != "float32":
            super().update_step(gradient, variable, learning_rate)  # pyright: ignore[reportAttributeAccessIssue]
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
        """Return beta_1 and beta_2 to the power of the update number, for the bias correction."""
        updates = keras.ops.cast(self.iterations + 1, "float32")
        return keras.ops.power(self.beta_1, updates), keras.ops.power(self.beta_2, updates)

    def _is_for_torch(self, variables: Any) -> bool:
        """Return whether PyTorch's fused kernel can update these: contiguous float32 on a CPU."""
        import torch

        values = [variable.value for variable in variables]
        return not (self.amsgrad or torch.compiler.is_compiling()) and all(
            value.device.type == "cpu" and value.dtype == torch.float32 and value.is_contiguous()
            for value in values
        )

    def _torch_step(self, grads: Any, variables: Any, learning_rate: Any) -> None:
        """Update all variables with PyTorch's fused kernel."""
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
                weight_decay=0.0,  # Keras has decayed the weights already
                # PyTorch adds epsilon after the bias correction, Keras before it.
                eps=self.epsilon / (1 - self.beta_2**updates) ** 0.5,
                amsgrad=False,
                maximize=False,
            )

    def _clip_gradients(self, grads: Any) -> Any:
        """Clip gradients by their global norm with fewer passes than Keras (Keras's hook)."""
        backend = keras.backend.backend()
        if backend == "jax" or self.clipnorm or not self.global_clipnorm:
            return super()._clip_gradients(grads)  # pyright: ignore[reportAttributeAccessIssue]
        clip = _clipped_by_torch if backend == "torch" else _clipped_by_tensorflow
        return clip(grads, self.global_clipnorm)


def _clipped_by_torch(grads: Any, most: float) -> Any:
    """Scale gradients in place to a global norm of at most `most`."""
    import torch

    with torch.no_grad():
        norm = torch.nn.utils.get_total_norm(grads)
        scale = (most / norm).clamp(max=1.0)
        # As in Keras, all gradients become NaN if the norm is not finite.
        scale = torch.where(norm.isfinite(), scale, torch.nan)
        torch._foreach_mul_(grads, scale)  # pyright: ignore[reportPrivateImportUsage]
    return grads


def _clipped_by_tensorflow(grads: Any, most: float) -> Any:
    """Scale gradients to a global norm of at most `most`.

    The sparse gradient of an embedding table stays sparse: only rows that occur are read.
    """
    import tensorflow as tf

    grads = [_summed(grad) if isinstance(grad, tf.IndexedSlices) else grad for grad in grads]
    parts = [getattr(grad, "values", grad) for grad in grads if grad is not None]
    norm = tf.sqrt(2.0 * tf.add_n([tf.nn.l2_loss(tf.cast(part, tf.float32)) for part in parts]))
    scale = most / tf.maximum(norm, most)
    scale += norm - norm  # as in Keras, all gradients become NaN if the norm is not finite

    def scaled(grad: Any) -> Any:
        """Return one gradient, dense or sparse, times the scale."""
        if isinstance(grad, tf.IndexedSlices):
            return tf.IndexedSlices(scaled(grad.values), grad.indices, grad.dense_shape)
        return None if grad is None else grad * tf.cast(scale, grad.dtype)

    return [scaled(grad) for grad in grads]


def _summed(grad: Any) -> Any:
    """Return a sparse gradient (`tf.IndexedSlices`) in which each row occurs once."""
    import tensorflow as tf

    rows, places = tf.unique(grad.indices)
    values = tf.math.unsorted_segment_sum(grad.values, places, tf.size(rows))
    return tf.IndexedSlices(values, rows, grad.dense_shape)


# === Optimizers ===


# Names of variables that do not decay: all biases and the weights of layer normalisation.
UNDECAYED = ("bias", "gamma", "beta")
# Paths of the output layers of `Pretrainer`. That of the MLM head is the token table, which Muon
# excludes anyway.
_LAST_LAYERS = (r"\b(nsp|sop)/",)


class _KeepsExclusions:
    """Optimizer mixin that stores in the config which variables do not decay.

    Keras loses the arguments of `exclude_from_weight_decay` when an optimizer is rebuilt.
    """

    # A method of Keras's optimizer.
    exclude_from_weight_decay: Callable[..., None]

    def __init__(self, *args: Any, undecayed: Sequence[str] = UNDECAYED, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.undecayed = tuple(undecayed)
        self.exclude_from_weight_decay(var_names=list(undecayed))

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {**super().get_config(), "undecayed": list(self.undecayed)}  # pyright: ignore[reportAttributeAccessIssue]


def _class_of(optimizer: Any) -> Any:
    """Return the class that Keras really instantiates: on PyTorch it is a faster subclass.

    The instance is not initialised. Its variables would start JAX's devices, after which
    `jax.distributed.initialize` is refused.
    """
    return type(optimizer.__new__(optimizer))


@keras.saving.register_keras_serializable(package="bert_keras")
class AdamW(
    _KeepsExclusions, DecayInStep, LayerRates, FusedAdam, _class_of(keras.optimizers.AdamW)
):
    """Keras's AdamW with fused steps on a CPU, layer-wise rates and saved decay exclusions.

    Args:
        undecayed: regular expressions. A variable whose name matches one does not decay.
        kwargs: arguments of `keras.optimizers.AdamW` and of `LayerRates`.
    """


@keras.saving.register_keras_serializable(package="bert_keras")
class Lamb(_KeepsExclusions, DecayInStep, LayerRates, _class_of(keras.optimizers.Lamb)):
    """Keras's LAMB (You et al., 2020) with layer-wise rates and saved decay exclusions.

    Unlike in the paper, Keras's trust ratio does not include the weight decay.

    Args:
        undecayed: regular expressions. A variable whose name matches one does not decay.
        kwargs: arguments of `keras.optimizers.Lamb` and of `LayerRates`.
    """


@keras.saving.register_keras_serializable(package="bert_keras")
class Muon(_KeepsExclusions, DecayInStep, LayerRates, _class_of(keras.optimizers.Muon)):
    """Keras's Muon (Jordan et al., 2024; Liu et al., 2025), with the exclusions of `AdamW`.

    The step of a matrix is orthogonalised, so that rare directions grow as fast as the others.
    Embedding tables, vectors and the output layers of pretraining heads take AdamW's step.

    Args:
        undecayed: regular expressions. A variable whose name matches one does not decay.
        weight_decay: decay rate of all other variables.
        adam_lr_ratio: learning rate of AdamW's steps as a share of the learning rate.
        exclude_layers: regular expressions. A matrix whose path matches one takes AdamW's step.
        kwargs: arguments of `keras.optimizers.Muon` and of `LayerRates`.
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
    """Build BERT's optimizer (Devlin et al., 2019, A.2), with Adam's bias correction.

    Google's code has no bias correction, and without it fine-tuning on few examples often fails
    (Mosbach et al., 2021; Zhang et al., 2021). These papers advise a rate of 2e-5, warm-up in a
    tenth of the steps, linear decay to zero, and many epochs (20) for few examples.

    `unfreeze_every` is gradual unfreezing (Howard & Ruder, 2018, §3.3): first only the head is
    trained, then also the highest block, and so on down to the embeddings. Until its turn, a layer
    does not change at all and does not decay. But its gradients are computed, count in `clip_norm`
    and update its moments, because Adam's bias correction counts all updates. So gradual unfreezing
    saves no time.

    Args:
        learning_rate: highest rate.
        total_steps: total number of updates. None for a constant rate, which callbacks and
            `optimizer.learning_rate = ...` may change.
        warmup_steps: number of updates until the highest rate.
        schedule: "linear", "cosine", "polynomial", "constant" or "slanted_triangular"; see
            `WarmupDecay`. None is "linear" if `total_steps` is passed.
        name: "adamw", "lamb" or "muon".
        weight_decay: rate of decoupled weight decay. Biases and layer normalisation do not decay.
        clip_norm: maximum of the global norm of all gradients; None for no clipping.
        epsilon: number that is added to the root of the second moment, before the bias correction.
        gradient_accumulation_steps: number of batches for each update.
        ema_momentum: momentum of an exponential moving average of the weights; 0 for none.
        layer_decay: factor of the rate from one layer to the next lower one. Head and pooler have
            1, the highest block `layer_decay`, the embeddings `layer_decay ** (num_layers + 1)`.
            It applies to weight decay too. ELECTRA uses 0.8 for base and 0.9 for large (Clark et
            al., 2020, appendix B); its code has one more factor for all layers but the head.
        unfreeze_every: number of updates until the next lower layer is trained too; 0 trains all
            layers from the beginning.
        cut_frac: share of the steps in which "slanted_triangular" rises.
        ratio: highest rate divided by the lowest rate of "slanted_triangular".

    Raises:
        ValueError: if a name or schedule is unknown, a value is out of range, or a schedule is
            passed without `total_steps`.
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
    accumulation = gradient_accumulation_steps if gradient_accumulation_steps > 1 else None
    return OPTIMIZERS[name](
        learning_rate=rate,
        weight_decay=weight_decay,
        epsilon=epsilon,
        global_clipnorm=clip_norm,
        gradient_accumulation_steps=accumulation,
        use_ema=ema_momentum > 0,
        ema_momentum=ema_momentum or 0.99,
        layer_decay=layer_decay,
        unfreeze_every=unfreeze_every,
        name=name,
    )
