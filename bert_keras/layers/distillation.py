"""Distance between the hidden states of two encoders, as a loss."""

from __future__ import annotations

import keras
from keras import ops

from bert_keras.layers.serialization import SerializableLayer


@keras.saving.register_keras_serializable(package="bert_keras")
class HiddenDistance(SerializableLayer):
    """Cosine loss between the hidden states of two encoders (Sanh et al., 2019, §3).

    The loss is one minus the cosine, averaged over the real tokens of a batch in float32.

    Args:
        weight: weight of this loss in the loss of the model.
    """

    is_complete = False  # Keras clears the loss of the previous call

    def __init__(self, weight: float = 1.0, **kwargs):
        super().__init__(**kwargs)
        self.weight = weight

    def call(self, x, first, second, padding_mask):
        """Add the loss, and return `x` as it is.

        Args:
            x: any tensor of the model, which connects this layer to the model's outputs.
            first: [rows, length, hidden_size].
            second: [rows, length, hidden_size].
            padding_mask: [rows, length], 1 for real tokens; or [batch, texts, length], if each
                example has several texts, whose rows follow each other.
        """
        first, second = (ops.normalize(ops.cast(s, "float32"), axis=-1) for s in (first, second))
        mask = ops.reshape(ops.cast(padding_mask, "float32"), ops.shape(first)[:-1])
        distances = (1.0 - ops.sum(first * second, axis=-1)) * mask
        self.add_loss(self.weight * ops.sum(distances) / ops.maximum(ops.sum(mask), 1.0))
        return x

    def compute_output_shape(self, x_shape, *_args, **_kwargs):
        """Return the shape of `x`."""
        return x_shape
