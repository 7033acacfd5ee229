"""Dense layers and tables of Keras whose adapters are saved as adapters.

Keras's own layers save an adapter folded into the kernel, and load it as zeros. Here the kernel and
the adapter's two matrices are saved each by itself.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import keras

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
