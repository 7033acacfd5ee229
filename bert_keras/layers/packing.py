"""Rows that hold several examples, and examples that hold several rows."""

from __future__ import annotations

import keras
from keras import ops

from bert_keras.layers.serialization import SerializableLayer


@keras.saving.register_keras_serializable(package="bert_keras")
class MergeChoices(SerializableLayer):
    """Gives each choice a row of its own: [batch, choices, length] -> [batch * choices, length]."""

    def call(self, x):
        """Return `x`, [batch, choices, length], as [batch * choices, length] of the same dtype."""
        batch, choices, length = ops.shape(x)
        return ops.reshape(x, (batch * choices, length))

    def compute_output_spec(self, x):
        return keras.KerasTensor((None, x.shape[2]), dtype=x.dtype)


@keras.saving.register_keras_serializable(package="bert_keras")
class SplitChoices(SerializableLayer):
    """Puts the scores of rows, [batch * choices, 1], side by side: [batch, choices].

    The ids, [batch, choices, length], are an input for the number of choices alone.
    """

    def __init__(self, **kwargs):
        super().__init__(**{"dtype": "float32", **kwargs})

    def call(self, scores, token_ids):
        """Return scores, [batch * choices, 1], in rows of [batch, choices]."""
        batch, choices, _ = ops.shape(token_ids)
        return ops.reshape(scores, (batch, choices))

    def compute_output_spec(self, scores, token_ids):
        return keras.KerasTensor(token_ids.shape[:2], dtype="float32")


@keras.saving.register_keras_serializable(package="bert_keras")
class SplitTexts(SerializableLayer):
    """Puts the vectors of an example's texts together: [batch, texts, size].

    The ids, [batch, texts, length], are an input for the number of texts alone.
    """

    def __init__(self, **kwargs):
        super().__init__(**{"dtype": "float32", **kwargs})

    def call(self, vectors, token_ids):
        """Return vectors, [batch * texts, size], as [batch, texts, size]."""
        batch, texts, _ = ops.shape(token_ids)
        return ops.reshape(vectors, (batch, texts, vectors.shape[-1]))

    def compute_output_spec(self, vectors, token_ids):
        return keras.KerasTensor((*token_ids.shape[:2], vectors.shape[-1]), dtype="float32")


# === Packed rows ===


def tokens_at(x, positions):
    """Return the vectors at some positions of each row, [batch, n, width].

    Args:
        x: vectors, [batch, length, width].
        positions: int [batch, n], in [0, length).
    """
    batch, length, width = ops.shape(x)
    positions = ops.cast(positions, "int32")
    if keras.backend.backend() == "jax":
        positions = ops.clip(positions, 0, length - 1)  # beyond the batch JAX has NaN
    # One flat gather: its gradient is a scatter over rows on every backend.
    first_rows = length * ops.arange(batch, dtype="int32")
    rows = positions + first_rows[:, None]
    return ops.take(ops.reshape(x, (batch * length, width)), rows, axis=0)


@keras.saving.register_keras_serializable(package="bert_keras")
class TokensAt(SerializableLayer):
    """Reads the vectors at some positions of every row, such as those of each example's [CLS]."""

    def call(self, x, positions):
        """[batch, length, width] and [batch, n], in [0, length) -> [batch, n, width]."""
        return tokens_at(x, positions)

    def compute_output_spec(self, x, positions):
        return keras.KerasTensor((*positions.shape, x.shape[-1]), dtype=x.dtype)


@keras.saving.register_keras_serializable(package="bert_keras")
class ExamplePooling(SerializableLayer):
    """Mean over the tokens of each example of packed rows, as `SentencePooling` of single rows."""

    def __init__(self, **kwargs):
        super().__init__(**{"dtype": "float32", **kwargs})

    def call(self, x, example_ids, first_positions):
        """Return the means.

        Args:
            x: [rows, length, width].
            example_ids: int32 [rows, length]: 1 for tokens of the first example of a row, 2 for the
                second, and so on; 0 for padding.
            first_positions: int32 [rows, examples], for the number of examples alone.

        Returns:
            float32 [rows, examples, width]; zeros for an example that is not there.
        """
        slots = 1 + ops.arange(ops.shape(first_positions)[1], dtype="int32")
        is_in_REL = ops.equal(ops.expand_dims(example_ids, 1), slots[None, :, None])
        is_in_REL = ops.cast(is_in_REL, "float32")
        counts_RE1 = ops.maximum(ops.sum(is_in_REL, axis=-1, keepdims=True), 1.0)
        return ops.matmul(is_in_REL, ops.cast(x, "float32")) / counts_RE1

    def compute_output_spec(self, x, example_ids, first_positions):
        return keras.KerasTensor((*first_positions.shape, x.shape[-1]), dtype="float32")


@keras.saving.register_keras_serializable(package="bert_keras")
class ExampleMask(SerializableLayer):
    """Block-diagonal attention mask: tokens attend to their own example (Krell et al., 2021).

    Padding, with the id 0, counts as one more example, whose outputs are not used. It attends to
    itself, so that no row of the mask is empty.
    """

    def call(self, example_ids):
        """int32 [batch, length] -> bool [batch, query, key]."""
        return ops.equal(ops.expand_dims(example_ids, 2), ops.expand_dims(example_ids, 1))

    def compute_output_spec(self, example_ids):
        batch, length = example_ids.shape
        return keras.KerasTensor((batch, length, length), dtype="bool")
