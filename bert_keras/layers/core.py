"""Dense layers, embedding tables, layer normalisation and dropout, with fast calls."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ClassVar

import keras
from keras import ops
from keras.distribution import distribution

from bert_keras import kernels
from bert_keras.kernels import is_ready_tensor, onnx_friendly

try:
    from keras.src.backend.common.variables import get_autocast_scope  # there is no public name
except ImportError:  # a Keras that has moved it: then Keras prepares every call
    get_autocast_scope = None

# === Calls ===


_PLAIN_POLICY = keras.DTypePolicy
_HAS_HOOKS = keras.backend.backend() == "torch"


class FastCall(keras.layers.Layer):
    """Base of our layers, whose calls skip Keras's preparations where these change nothing.

    Keras prepares every call of a layer: it casts inputs, enters scopes, and finds `training` and
    masks. On PyTorch, where nothing is compiled, that takes longer than a small layer computes.
    `is_prepared` says which calls need no preparation; all others go through Keras.

    Attributes:
        depends_on_training: whether the output depends on `training`. A caller that does not pass
            it needs Keras, which finds it in the call around this one.
        is_complete: whether Keras has nothing to do after `call`, such as attaching a mask.
        opens_scope: whether operations of the backend are named after the layer, as Keras does.
    """

    depends_on_training: ClassVar[bool] = False
    is_complete: bool = True
    opens_scope: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "depends_on_training" not in vars(cls):
            cls.depends_on_training = "training" in inspect.signature(cls.call).parameters

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        """Keras: call the layer."""
        has_training = "training" in options
        needs_training = self.depends_on_training and not has_training
        if needs_training or not is_prepared(self, inputs, options):
            return super().__call__(*inputs, **options)
        if has_training and not self.depends_on_training:
            del options["training"]  # a functional model passes it to every layer
        if self.opens_scope:
            with keras.name_scope(self.name, caller=self):
                return self.call(*inputs, **options)
        return self.call(*inputs, **options)


def is_prepared(layer: FastCall, inputs: tuple[Any, ...], options: dict[str, Any]) -> bool:
    """Return whether Keras has nothing to prepare for a call, except perhaps `training`.

    This is so if all of the following hold. The layer is built and not quantised. Its inputs are
    tensors of its own dtype without a mask, and no symbolic tensors. The scope around the call
    casts weights as the layer's own scope would. The layer has no hooks of PyTorch, and neither
    `keras.distribution` nor `keras.RematScope` is in use. An option may be another `FastCall`.

    Args:
        layer: the layer that is called.
        inputs: positional arguments of the call.
        options: keyword arguments of the call.
    """
    policy = layer.dtype_policy
    if (
        get_autocast_scope is None
        or type(policy) is not _PLAIN_POLICY  # quantised, or a map of policies
        or not (layer.built and layer.is_complete)
        or layer.activity_regularizer is not None
        or getattr(layer, "_remat_mode", None) is not None
        or (_HAS_HOOKS and (layer._forward_hooks or layer._forward_pre_hooks))
        or (_HAS_HOOKS and (layer._backward_hooks or layer._backward_pre_hooks))
        or distribution() is not None
    ):
        return False
    dtype, scope = policy.compute_dtype, get_autocast_scope()
    if (policy.variable_dtype if scope is None else scope.dtype) != dtype:
        return False
    for value in inputs:
        if value is not None and not is_ready_tensor(value, dtype):
            return False
    for value in options.values():
        is_option = value is None or type(value) in (bool, int) or isinstance(value, FastCall)
        if not is_option and not is_ready_tensor(value, dtype):
            return False
    return True


def freeze_with(owner: keras.layers.Layer, *parts: keras.layers.Layer) -> None:
    """Freeze layers that are arguments of a layer's constructor, if the layer is frozen.

    Keras does so only if `trainable` is set after the constructor. Otherwise the layer would report
    no trainable variables, and the model around it would train all of them.

    Args:
        owner: the layer, whose constructor may have had `trainable=False`.
        parts: the layers that it was given.
    """
    if not owner.trainable:
        for part in parts:
            part.trainable = False


# === Layer normalisation and dropout ===


@keras.saving.register_keras_serializable(package="bert_keras")
class LayerNorm(FastCall, keras.layers.LayerNormalization):
    """Layer normalisation over the last axis, by a kernel that keeps less for the gradient."""

    def call(self, inputs, training=None):
        """[..., width] -> [..., width]."""
        outputs = kernels.layer_norm(inputs, self.gamma, self.beta, self.epsilon, bool(training))
        return ops.cast(outputs, self.compute_dtype)


# The registered name is the earlier name of the class, so that saved files open.
@keras.saving.register_keras_serializable(package="bert_keras", name="SeededDropout")
class Dropout(FastCall, keras.layers.Dropout):
    """Dropout whose seed can be drawn apart from the numbers that it drops.

    An operation that is computed again for its gradient must drop the same numbers again. Keras
    allows no variable to change there, so the seed is drawn before.
    """

    def next_seed(self):
        """Return a seed for one call; None where nothing is dropped."""
        if not self.rate:
            return None
        drawn = _drawn_seeds.get()
        return self.seed_generator.next() if drawn is None else drawn[id(self)]

    def call(self, inputs, training=False, seed=None):
        """Drop numbers in training.

        Args:
            inputs: a tensor of any shape.
            training: whether dropout is active.
            seed: a value of `next_seed`; None to draw one.
        """
        if not training or not self.rate:
            return inputs
        if self.rate == 1:
            return keras.ops.zeros_like(inputs)
        return kernels.dropped(inputs, self.rate, self.next_seed() if seed is None else seed)


# Seeds that were drawn before, by the `id` of the dropout layer; None to draw them.
_drawn_seeds: ContextVar[Mapping[int, Any] | None] = ContextVar("_drawn_seeds", default=None)
_PART_STRIDE = 65_537  # number of calls of a layer after which a seed of another part comes again


def draw_seeds(model: keras.layers.Layer) -> dict[int, Any]:
    """Draw a seed for each dropout layer anywhere in a model, for `use_seeds`."""
    dropouts = [layer for layer in model._flatten_layers() if isinstance(layer, Dropout)]
    return {id(layer): layer.next_seed() for layer in dropouts if layer.rate}


@contextmanager
def use_seeds(seeds: Mapping[int, Any], part: Any) -> Iterator[None]:
    """Let dropout layers use seeds that were drawn before, other ones for each part of a batch.

    Args:
        seeds: seeds of `draw_seeds`.
        part: number of the part, an int or an integer scalar.
    """
    values = {
        key: seed + ops.cast([0, _PART_STRIDE], seed.dtype) * ops.cast(part, seed.dtype)
        for key, seed in seeds.items()
    }
    token = _drawn_seeds.set(values)
    try:
        yield
    finally:
        _drawn_seeds.reset(token)


def seeded_dropout(rate: float, name: str, dtype: Any) -> Dropout:
    """Return a dropout layer with a seed of its own, drawn from Python's generator.

    `keras.utils.set_random_seed` makes the seeds, and so a run, repeatable. Without an explicit
    seed the PyTorch backend draws from its global generator, which no checkpoint holds.
    """
    seed = random.randint(1, 2**31 - 1)
    return Dropout(rate, seed=seed, dtype=dtype, name=name)


# === Initial weights ===


_is_to_be_filled: ContextVar[bool] = ContextVar("is_to_be_filled", default=False)


@contextmanager
def to_be_filled() -> Iterator[None]:
    """Create new weights as zeros within this context, because a checkpoint replaces them.

    Drawing random numbers for all weights takes time, and more memory than the weights.
    """
    token = _is_to_be_filled.set(True)
    try:
        yield
    finally:
        _is_to_be_filled.reset(token)


def truncated_normal(standard_deviation: float) -> keras.initializers.Initializer:
    """Return BERT's initializer: a normal distribution cut at two standard deviations.

    Within `to_be_filled` it is zeros.
    """
    if _is_to_be_filled.get():
        return keras.initializers.Zeros()
    return keras.initializers.TruncatedNormal(stddev=standard_deviation)


# === Dense layers and tables ===
# Keras's own layers save an adapter folded into the kernel, and load it as zeros. Here the kernel
# and the adapter's two matrices are saved separately.


# The name that an adapter's matrices have in a file; several adapters over one kernel would differ.
ADAPTER = "default"


class _SavesAdapters(FastCall):
    """Saving, loading and quantization of the layers that can have an adapter."""

    # Names of the adapter's two matrices.
    adapter_variables: tuple[str, str]

    def enable_lora(self, rank: int, lora_alpha: float | None = None, **initializers: Any) -> None:
        """Keras: add an adapter. An alpha from the config is kept, which Keras would forget."""
        if lora_alpha is None:
            lora_alpha = self.lora_alpha
        super().enable_lora(rank, lora_alpha=lora_alpha, **initializers)

    def quantize(self, mode: Any = None, type_check: bool = True, config: Any = None) -> None:
        """Keras: quantise the weights, without its check that refuses a subclass."""
        del type_check
        super().quantize(mode, type_check=False, config=config)

    def __delattr__(self, name: str) -> None:
        """Delete an attribute, as `quantize` deletes a kernel.

        For every deleted variable Keras would collect the garbage of the whole process, which took
        0.3 seconds for each layer.
        """
        value = getattr(self, name)
        if isinstance(value, keras.Variable):
            self._untrack_variable(value)
            super(keras.layers.Layer, self).__delattr__(name)
        else:
            super().__delattr__(name)

    def save_own_variables(self, store: MutableMapping[str, Any]) -> None:
        """Keras: write the variables; those of an adapter under names of their own."""
        if not self.lora_enabled:
            super().save_own_variables(store)
            return
        self.lora_enabled = False  # so that Keras writes the kernel without the adapter
        try:
            super().save_own_variables(store)
        finally:
            self.lora_enabled = True
        for name in self.adapter_variables:
            store[_key(name)] = getattr(self, name)

    def load_own_variables(self, store: Any) -> None:
        """Keras: read the variables.

        A layer with an adapter also reads a file without one. Its adapter then starts as zero.

        Raises:
            ValueError: the file has an adapter, and the layer has none or one of another rank.
        """
        keys = [_key(name) for name in self.adapter_variables]
        saved = {key: store[key] for key in keys if key in store.keys()}  # noqa: SIM118
        if not self.lora_enabled:
            if saved:
                rank = saved[keys[0]].shape[1]
                raise ValueError(
                    f"{self.path}: the file has an adapter of rank {rank}, the layer has none. "
                    f"Call encoder.enable_lora({rank}) before loading, with the layers and the "
                    "alpha of the saved model."
                )
            super().load_own_variables(store)
            return
        matrices = [getattr(self, name) for name in self.adapter_variables]
        initial = keras.ops.convert_to_numpy(matrices[0])  # Keras sets both matrices to zero
        super().load_own_variables(store)
        if not saved:
            matrices[0].assign(initial)
            return
        for variable, key in zip(matrices, keys, strict=True):
            if tuple(saved[key].shape) != tuple(variable.shape):
                raise ValueError(
                    f"{variable.path}: the file has a matrix of shape {tuple(saved[key].shape)}, "
                    f"the layer one of {tuple(variable.shape)}. The ranks must be the same: call "
                    "encoder.enable_lora with the rank of the file."
                )
            variable.assign(saved[key])


def _key(name: str) -> str:
    """Return the name in a file of one matrix of an adapter, "lora_kernel_a.default"."""
    return f"{name}.{ADAPTER}"


@keras.saving.register_keras_serializable(package="bert_keras")
class Dense(_SavesAdapters, keras.layers.Dense):
    """Dense layer with adapters that are saved separately, and a fused activation."""

    adapter_variables = ("lora_kernel_a", "lora_kernel_b")
    depends_on_training = False  # only Keras's float8 does

    def __call__(
        self, *inputs: Any, activation: Callable[[Any], Any] | None = None, **options: Any
    ) -> Any:
        """Keras: call the layer.

        Args:
            inputs: one tensor, [..., inputs].
            activation: a function of the output. The product and the activation are one operation
                where the backend has one.
            options: arguments of Keras, such as `training`.

        Returns:
            [..., units].
        """
        if activation is None:
            return super().__call__(*inputs, **options)
        is_linear = self.activation is keras.activations.linear
        if is_linear and is_prepared(self, inputs, options):
            (x,) = inputs
            return kernels.affine(x, self._plain_kernel, self.bias, activation)
        return activation(super().__call__(*inputs, **options))

    def call(self, inputs, training=None):
        """[..., inputs] -> [..., units]."""
        return kernels.affine(inputs, self._plain_kernel, self.bias, self.activation)

    @property
    def _plain_kernel(self) -> Any:
        """The kernel of a layer that is not quantised, with its adapter.

        Keras's property `kernel` takes 3 microseconds to find out how the layer is quantised.
        """
        return self.kernel if self.lora_enabled else self._kernel


@keras.saving.register_keras_serializable(package="bert_keras")
class Embedding(_SavesAdapters, keras.layers.Embedding):
    """Embedding table with adapters that are saved separately."""

    adapter_variables = ("lora_embeddings_a", "lora_embeddings_b")

    @property
    def is_complete(self) -> bool:
        """Return whether Keras has no mask to attach after `call`."""
        return not self.mask_zero

    def call(self, inputs):
        """Integers [...] -> [..., output_dim]."""
        if onnx_friendly.is_active():
            return ops.cast(kernels.rows(self.embeddings, inputs), self.compute_dtype)
        return super().call(inputs)


@keras.saving.register_keras_serializable(package="bert_keras")
class ReversibleEmbedding(_SavesAdapters, keras.layers.ReversibleEmbedding):
    """Embedding table that is also an output layer, with adapters that are saved separately."""

    adapter_variables = ("lora_embeddings_a", "lora_embeddings_b")

    def call(self, inputs, reverse=False):
        """Integers [...] -> [..., output_dim]; reversed [..., output_dim] -> [..., input_dim]."""
        if onnx_friendly.is_active() and not reverse:
            return ops.cast(kernels.rows(self.embeddings, inputs), self.compute_dtype)
        return super().call(inputs, reverse=reverse)
