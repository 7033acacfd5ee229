"""Dense layers, embedding tables, layer normalisation and dropout, with fast calls."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import keras
from keras import ops

from bert_keras import kernels
from bert_keras.kernels import onnx_friendly


def call_sublayer(
    layer: keras.layers.Layer,
    *inputs: Any,
    activation: Callable[[Any], Any] | None = None,
    **options: Any,
) -> Any:
    """`layer(...)` of a built layer that is a part of the one that calls it, at less cost.

    Keras prepares every call: checks, casts, scopes. A part's inputs are of its own policy and its
    owner was prepared, so nothing of it is needed, but on PyTorch, where nothing is compiled, it
    takes longer than a small layer. Where a part is quantised, has PyTorch's hooks, or its outputs
    may be laid out over devices, Keras has its way.

    Args:
        layer: the part.
        inputs: its inputs.
        activation: a function of its output, one operation with it where the backend can.
        options: of its `call`.
    """
    if _needs_keras(layer):
        found = layer(*inputs, **options)
    elif isinstance(layer, keras.layers.Dense) and layer.bias is not None:
        (x,) = inputs
        if activation is not None and layer.activation is keras.activations.linear:
            return kernels.affine(x, layer.kernel, layer.bias, activation)
        found = kernels.affine(x, layer.kernel, layer.bias, layer.activation)
    elif isinstance(layer, keras.layers.Embedding) and onnx_friendly.is_asked() and not options:
        found = keras.ops.cast(kernels.rows(layer.embeddings, *inputs), layer.compute_dtype)
    else:
        found = layer.call(*inputs, **options)
    return found if activation is None else activation(found)


def freeze_with(owner: keras.layers.Layer, *parts: keras.layers.Layer) -> None:
    """Freeze layers that were given to a layer whose constructor was told `trainable=False`.

    Keras does so where `trainable` is set later. It leaves what a constructor is given as it was:
    then the layer reports no variable that trains, and the model around it trains all of them.
    """
    if not owner.trainable:
        for part in parts:
            part.trainable = False


def _needs_keras(layer: keras.layers.Layer) -> bool:
    return bool(
        layer.quantization_mode is not None
        or keras.distribution.distribution() is not None
        or getattr(layer, "_forward_hooks", None)
        or getattr(layer, "_forward_pre_hooks", None)
    )


# === Layer normalisation ===


@keras.saving.register_keras_serializable(package="bert_keras")
class LayerNorm(keras.layers.LayerNormalization):
    """Keras's layer of the last axis, of which a model in training keeps less and waits less."""

    def call(self, inputs, training=None):
        """[..., width] -> [..., width]."""
        outputs = kernels.layer_norm(inputs, self.gamma, self.beta, self.epsilon, bool(training))
        return ops.cast(outputs, self.compute_dtype)


# === Dropout and initial weights ===


@keras.saving.register_keras_serializable(package="bert_keras")
class SeededDropout(keras.layers.Dropout):
    """Keras's layer, whose seed can be drawn apart from what it drops.

    What is computed again for its gradient must drop the same again, and Keras allows no change of
    a variable there.
    """

    def next_seed(self):
        """A seed for one call; None where nothing is dropped."""
        return self.seed_generator.next() if self.rate else None

    def call(self, inputs, training=False, seed=None):
        """Drops in training.

        Args:
            inputs: of any shape.
            training: whether dropout is active.
            seed: one of `next_seed`; None to draw one.
        """
        if not training or not self.rate:
            return inputs
        if self.rate == 1:
            return keras.ops.zeros_like(inputs)
        return kernels.dropped(inputs, self.rate, self.next_seed() if seed is None else seed)


def seeded_dropout(rate: float, name: str, dtype: Any) -> SeededDropout:
    """A Dropout layer with a seed of its own, drawn from Python's generator.

    `keras.utils.set_random_seed` makes the seeds, and so a run, repeatable. Without an explicit
    seed the PyTorch backend draws from its global generator, which no checkpoint holds.
    """
    seed = random.randint(1, 2**31 - 1)
    return SeededDropout(rate, seed=seed, dtype=dtype, name=name)


_is_to_be_filled: ContextVar[bool] = ContextVar("is_to_be_filled", default=False)


@contextmanager
def to_be_filled() -> Iterator[None]:
    """While it lasts, new weights are zeros: a checkpoint's take their place.

    Random numbers for all weights would cost time, and more memory than the weights.
    """
    token = _is_to_be_filled.set(True)
    try:
        yield
    finally:
        _is_to_be_filled.reset(token)


def truncated_normal(standard_deviation: float) -> keras.initializers.Initializer:
    """BERT's initial weights: normal, cut at two standard deviations."""
    if _is_to_be_filled.get():
        return keras.initializers.Zeros()
    return keras.initializers.TruncatedNormal(stddev=standard_deviation)


# === Dense layers and tables ===
# Keras's own layers save an adapter folded into the kernel, and load it as zeros. Here the kernel
# and the adapter's two matrices are saved each by itself.


# The name that an adapter's matrices have in a file; several adapters over one kernel would differ.
ADAPTER = "default"


class _SavesAdapters(keras.layers.Layer):
    """The part that the layers of this module share: saving, loading, quantization."""

    # Names of the adapter's two matrices.
    adapter_variables: tuple[str, str]

    def enable_lora(self, rank: int, lora_alpha: float | None = None, **initializers: Any) -> None:
        """Keras: add an adapter; an alpha from the config is kept, which Keras forgets."""
        if lora_alpha is None:
            lora_alpha = self.lora_alpha
        super().enable_lora(rank, lora_alpha=lora_alpha, **initializers)  # pyright: ignore

    def quantize(self, mode: Any = None, type_check: bool = True, config: Any = None) -> None:
        """Keras: quantise the weights. Keras's own check of the class would refuse a subclass."""
        del type_check
        super().quantize(mode, type_check=False, config=config)

    def __delattr__(self, name: str) -> None:
        """Delete an attribute, as `quantize` deletes a kernel.

        Keras also collects the garbage of the whole process for every deleted variable. That took
        0.3 seconds for each layer.
        """
        value = getattr(self, name)
        if isinstance(value, keras.Variable):
            self._untrack_variable(value)
            super(keras.layers.Layer, self).__delattr__(name)
        else:
            super().__delattr__(name)

    def save_own_variables(self, store: MutableMapping[str, Any]) -> None:
        """Keras: write the variables; an adapter's under names of their own."""
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

        A layer with an adapter also reads a file without one: the adapter then starts as zero.

        Raises:
            ValueError: the file has an adapter, and the layer has none or one of another rank.
        """
        kept = [_key(name) for name in self.adapter_variables]
        saved = {key: store[key] for key in kept if key in store.keys()}  # noqa: SIM118
        if not self.lora_enabled:
            if saved:
                rank = saved[kept[0]].shape[1]
                raise ValueError(
                    f"{self.path}: the file has an adapter of rank {rank}, the layer has none. "
                    f"Call encoder.enable_lora({rank}) before loading, with the layers and the "
                    "alpha of the saved model."
                )
            super().load_own_variables(store)
            return
        own = [getattr(self, name) for name in self.adapter_variables]
        first = keras.ops.convert_to_numpy(own[0])  # Keras sets both matrices to zero
        super().load_own_variables(store)
        if not saved:
            own[0].assign(first)
            return
        for variable, key in zip(own, kept, strict=True):
            if tuple(saved[key].shape) != tuple(variable.shape):
                raise ValueError(
                    f"{variable.path}: the file has a matrix of shape {tuple(saved[key].shape)}, "
                    f"the layer one of {tuple(variable.shape)}. The ranks must be the same."
                )
            variable.assign(saved[key])


def _key(name: str) -> str:
    return f"{name}.{ADAPTER}"


@keras.saving.register_keras_serializable(package="bert_keras")
class Dense(_SavesAdapters, keras.layers.Dense):
    """Keras's dense layer, with adapters that are saved as such."""

    adapter_variables = ("lora_kernel_a", "lora_kernel_b")


@keras.saving.register_keras_serializable(package="bert_keras")
class Embedding(_SavesAdapters, keras.layers.Embedding):
    """Keras's table of vectors, with adapters that are saved as such."""

    adapter_variables = ("lora_embeddings_a", "lora_embeddings_b")


@keras.saving.register_keras_serializable(package="bert_keras")
class ReversibleEmbedding(_SavesAdapters, keras.layers.ReversibleEmbedding):
    """Keras's table that is also an output layer, with adapters that are saved as such."""

    adapter_variables = ("lora_embeddings_a", "lora_embeddings_b")
