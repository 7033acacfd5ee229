"""Rows of several examples: who attends to whom, and what is read of each."""

from __future__ import annotations

import keras
from keras import ops

from bert_keras.layers.serialization import SerializableLayer


def tokens_at(x, positions):
    """The vectors at some positions: [batch, length, width], [batch, n] -> [batch, n, width]."""
    batch, length, width = ops.shape(x)
    # One flat gather: its gradient is a scatter over rows on every backend.
    first_rows = length * ops.arange(batch, dtype="int32")
    rows = ops.cast(positions, "int32") + first_rows[:, None]
    return ops.take(ops.reshape(x, (batch * length, width)), rows, axis=0)


@keras.saving.register_keras_serializable(package="bert_keras")
class TokensAt(SerializableLayer):
    """The vectors at some positions of every row, as of each example's [CLS]."""

    def call(self, x, positions):
        """[batch, length, width] and [batch, n], in [0, length) -> [batch, n, width]."""
        return tokens_at(x, positions)

    def compute_output_spec(self, x, positions):
        return keras.KerasTensor((*positions.shape, x.shape[-1]), dtype=x.dtype)


@keras.saving.register_keras_serializable(package="bert_keras")
class ExampleMask(SerializableLayer):
    """Tokens attend to those of their own example (Krell et al., 2021): block-diagonal.

    Padding, number 0, is one more example that nobody reads: it attends to itself, so that no row
    of the mask is empty.
    """

    def call(self, example_ids):
        """int32 [batch, length] -> bool [batch, query, key]."""
        return ops.equal(ops.expand_dims(example_ids, 2), ops.expand_dims(example_ids, 1))

    def compute_output_spec(self, example_ids):
        batch, length = example_ids.shape
        return keras.KerasTensor((batch, length, length), dtype="bool")
