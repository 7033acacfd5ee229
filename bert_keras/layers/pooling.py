"""One vector for a text."""

from __future__ import annotations

import keras
from keras import ops

from bert_keras.layers.serialization import SerializableLayer

POOLINGS = ("mean", "cls", "max")


@keras.saving.register_keras_serializable(package="bert_keras")
class SentencePooling(SerializableLayer):
    """The vectors of the real tokens, [CLS] and [SEP] included, as one (Reimers & Gurevych, 2019).

    Args:
        pooling: "mean" or "max" of the tokens, or "cls", the first one.
        normalize: whether the vector has length 1.
    """

    def __init__(self, pooling: str = "mean", normalize: bool = True, **kwargs):
        super().__init__(**kwargs)
        if pooling not in POOLINGS:
            raise ValueError(
                f"`pooling` must be one of {', '.join(POOLINGS)}. Received: pooling={pooling!r}"
            )
        self.pooling = pooling
        self.normalize = normalize

    def call(self, x, padding_mask):
        """[batch, length, hidden_size] and [batch, length] -> float32 [batch, hidden_size]."""
        x_BTH = ops.cast(x, "float32")
        mask_BT1 = ops.expand_dims(ops.cast(padding_mask, "float32"), -1)
        if self.pooling == "cls":
            vector_BH = x_BTH[:, 0]
        elif self.pooling == "max":
            vector_BH = ops.max(ops.where(mask_BT1 > 0, x_BTH, -1e9), axis=1)
        else:
            total_B1 = ops.maximum(ops.sum(mask_BT1, axis=1), 1.0)
            vector_BH = ops.sum(x_BTH * mask_BT1, axis=1) / total_B1
        return ops.normalize(vector_BH, axis=-1) if self.normalize else vector_BH

    def compute_output_spec(self, x, padding_mask):
        return keras.KerasTensor((x.shape[0], x.shape[2]), dtype="float32")
