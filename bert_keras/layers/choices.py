"""Choices as rows of a batch, and back."""

from __future__ import annotations

import keras
from keras import ops

from bert_keras.layers.serialization import SerializableLayer


@keras.saving.register_keras_serializable(package="bert_keras")
class MergeChoices(SerializableLayer):
    """[batch, choices, length] -> [batch * choices, length]."""

    def call(self, x):
        batch, choices, length = ops.shape(x)
        return ops.reshape(x, (batch * choices, length))

    def compute_output_spec(self, x):
        return keras.KerasTensor((None, x.shape[2]), dtype=x.dtype)


@keras.saving.register_keras_serializable(package="bert_keras")
class SplitChoices(SerializableLayer):
    """Scores [batch * choices, 1], and ids [batch, choices, length] -> [batch, choices]."""

    def __init__(self, **kwargs):
        super().__init__(**{"dtype": "float32", **kwargs})

    def call(self, scores, token_ids):
        batch, choices, _ = ops.shape(token_ids)
        return ops.reshape(scores, (batch, choices))

    def compute_output_spec(self, scores, token_ids):
        return keras.KerasTensor(token_ids.shape[:2], dtype="float32")
