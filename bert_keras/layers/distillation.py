"""Distance between the hidden states of two encoders, as a loss."""

from __future__ import annotations

import keras
from keras import ops

from bert_keras.layers.serialization import SerializableLayer


@keras.saving.register_keras_serializable(package="bert_keras")
class HiddenDistance(SerializableLayer):
    """Adds to the loss one minus the cosine of two states (Sanh et al., 2019, §3).

    The mean over the real tokens of a batch, computed in float32.

    Args:
        weight: of this loss.
    """

    def __init__(self, weight: float = 1.0, **kwargs):
        super().__init__(**kwargs)
        self.weight = weight

    def call(self, x, first, second, padding_mask):
        """Answers `x` as it is.

        Args:
            x: what is passed through, so that the loss is part of a model.
            first: [rows, length, hidden_size].
            second: likewise.
            padding_mask: [rows, length], 1 for real tokens; or with an axis for the texts of an
                example, [batch, texts, length], whose rows follow each other.
        """
        first, second = (ops.normalize(ops.cast(s, "float32"), axis=-1) for s in (first, second))
        mask = ops.reshape(ops.cast(padding_mask, "float32"), ops.shape(first)[:-1])
        distances = (1.0 - ops.sum(first * second, axis=-1)) * mask
        self.add_loss(self.weight * ops.sum(distances) / ops.maximum(ops.sum(mask), 1.0))
        return x

    def compute_output_shape(self, x_shape, *_args, **_kwargs):
        """Of `x`."""
        return x_shape
