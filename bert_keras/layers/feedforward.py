"""The position-wise feed-forward layers and their activations."""

from __future__ import annotations

import keras
from keras import ops

from bert_keras.layers import kernels
from bert_keras.layers.core import Dense
from bert_keras.layers.dropout import truncated_normal
from bert_keras.layers.inner import inner
from bert_keras.layers.serialization import SerializableLayer, build_once


def gelu_tanh(x):
    """The tanh approximation of GELU, which Google's TF1 code calls "gelu"."""
    return ops.gelu(x, approximate=True)


ACTIVATIONS = {
    "gelu": kernels.gelu,
    "gelu_tanh": gelu_tanh,
    "relu": ops.relu,
    "silu": ops.silu,
    "tanh": ops.tanh,
}


@keras.saving.register_keras_serializable(package="bert_keras")
class FeedForward(SerializableLayer):
    """Two dense layers, with the activation between them.

    Args:
        intermediate_size: width between the two.
        hidden_size: width of the input and of the output.
        activation: a name of `ACTIVATIONS`.
        initializer_range: standard deviation of the initial kernels.
    """

    def __init__(
        self,
        intermediate_size: int,
        hidden_size: int,
        activation: str = "gelu",
        initializer_range: float = 0.02,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.intermediate_size = intermediate_size
        self.activation = self.activation_to_train = ACTIVATIONS[activation]
        if self.activation is kernels.gelu:
            self.activation_to_train = kernels.gelu_to_train
        self.intermediate, self.output_projection = (
            Dense(
                size,
                kernel_initializer=truncated_normal(initializer_range),
                dtype=self.dtype_policy,
                name=name,
            )
            for size, name in ((intermediate_size, "intermediate"), (hidden_size, "output"))
        )

    def build(self, x_shape):
        build_once(self.intermediate, x_shape)
        build_once(self.output_projection, (*x_shape[:-1], self.intermediate_size))
        self.built = True

    def call(self, x, training=None):
        """[..., hidden_size] -> [..., hidden_size]."""
        activation = self.activation_to_train if training else self.activation
        return inner(self.output_projection, inner(self.intermediate, x, activation=activation))

    def compute_output_shape(self, x_shape):
        return x_shape
