"""Root-mean-square normalisation, a normalisation by its name, and dense layers after one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from bert_keras import kernels
from bert_keras.layers.core import LayerNorm
from bert_keras.layers.serialization import SerializableLayer


@keras.saving.register_keras_serializable(package="bert_keras")
class RMSNorm(SerializableLayer):
    """Root-mean-square normalisation over the last axis (Zhang & Sennrich, 2019, equation 4).

    Args:
        epsilon: added to the mean square.
    """

    def __init__(self, epsilon: float = 1e-5, **kwargs):
        super().__init__(**kwargs)
        self.epsilon = epsilon

    def build(self, x_shape):
        self.gamma = self.add_weight(shape=(x_shape[-1],), initializer="ones", name="gamma")
        self.built = True

    def call(self, x, training=None):
        """[..., width] -> [..., width]."""
        del training
        return ops.cast(kernels.rms_norm(x, self.gamma, self.epsilon), self.compute_dtype)

    def compute_output_shape(self, x_shape):
        return x_shape


def normalization(
    kind: str, *, epsilon: float, bias: bool, name: str, dtype: Any, trainable: bool = True
) -> LayerNorm | RMSNorm:
    """Make a normalisation.

    Args:
        kind: "layer" or "rms".
        epsilon: added to the variance, or to the mean square.
        bias: whether a layer normalisation has a bias.
        name: name of the layer.
        dtype: dtype policy of the layer.
        trainable: whether its weights train.
    """
    options: Any = {"epsilon": epsilon, "dtype": dtype, "trainable": trainable, "name": name}
    return RMSNorm(**options) if kind == "rms" else LayerNorm(center=bias, **options)


def after_norm(norm: Any, layers: Sequence[Callable[[Any], Any]], x: Any, training: Any) -> Any:
    """Return the outputs of dense layers for normalised vectors.

    If it saves memory, the gradient normalises again.

    Args:
        norm: a normalisation; None for none.
        layers: dense layers, if gradients are wanted without activations.
        x: [..., width].
        training: whether gradients are wanted.
    """

    def outputs(x: Any) -> list[Any]:
        """Return the output of each layer."""
        return [layer(x) for layer in layers]

    if norm is None:
        return outputs(x)
    if not training:
        return outputs(norm(x))
    return kernels.after_recomputed(lambda x: norm(x, training=True), outputs, x)
