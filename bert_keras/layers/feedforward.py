"""The position-wise feed-forward layers and their activations."""

from __future__ import annotations

import math

import keras
from keras import ops

from bert_keras.layers import kernels
from bert_keras.layers.dropout import truncated_normal
from bert_keras.layers.inner import inner, is_prepared


def gelu(x):
    """The exact Gaussian error linear unit (Hendrycks & Gimpel, 2016).

    PyTorch has a kernel of it; TensorFlow's and JAX's own form uses erfc, for which ONNX has no
    operator, so there it is written with erf.
    """
    if keras.backend.backend() == "torch":
        return ops.gelu(x, approximate=False)
    return 0.5 * x * (1.0 + ops.erf(x / math.sqrt(2.0)))


def gelu_tanh(x):
    """The tanh approximation of GELU, which Google's TF1 code calls "gelu"."""
    return ops.gelu(x, approximate=True)


ACTIVATIONS = {
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "relu": ops.relu,
    "silu": ops.silu,
    "tanh": ops.tanh,
}


@keras.saving.register_keras_serializable(package="bert_keras")
class FeedForward(keras.layers.Layer):
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
        if self.activation is gelu and keras.backend.backend() == "tensorflow":
            self.activation_to_train = kernels.gelu_to_train
        self.intermediate, self.output_projection = (
            keras.layers.Dense(
                size,
                kernel_initializer=truncated_normal(initializer_range),
                dtype=self.dtype_policy,
                name=name,
            )
            for size, name in ((intermediate_size, "intermediate"), (hidden_size, "output"))
        )

    def build(self, x_shape):
        self.intermediate.build(x_shape)
        self.output_projection.build((*x_shape[:-1], self.intermediate_size))
        self.built = True

    def call(self, x, training=None):
        """[..., hidden_size] -> [..., hidden_size]."""
        activation, wider = self.activation, self.intermediate
        if training:
            x = self.activation_to_train(inner(wider, x))
        elif activation is gelu and kernels.has_affine_gelu() and is_prepared(wider):
            x = kernels.affine_gelu(x, wider.kernel, wider.bias)
        else:
            x = activation(inner(wider, x))
        return inner(self.output_projection, x)

    def compute_output_shape(self, x_shape):
        return x_shape
