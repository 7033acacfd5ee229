"""Learned scores of the distance between two tokens (Shaw et al., 2018; Huang et al., 2020)."""

from __future__ import annotations

import keras
from keras import ops

from bert_keras.layers.dropout import truncated_normal
from bert_keras.layers.serialization import SerializableLayer


@keras.saving.register_keras_serializable(package="bert_keras")
class RelativeKey(SerializableLayer):
    """A vector for every distance, which queries are multiplied with as with one more key.

    Shaw et al., 2018, §3.2; "method 2" of Huang et al., 2020. Axes as in `SelfAttention`.

    Args:
        max_positions: the longest sequence; distances go from 1 - max_positions to
            max_positions - 1.
        head_size: K.
        initializer_range: standard deviation of the initial table.
    """

    def __init__(
        self, max_positions: int, head_size: int, initializer_range: float = 0.02, **kwargs
    ):
        super().__init__(**kwargs)
        self.max_positions = max_positions
        self.head_size = head_size
        self.initializer_range = initializer_range

    def build(self, query_shape, key_shape=None):
        self.embeddings = self.add_weight(
            shape=(2 * self.max_positions - 1, self.head_size),
            initializer=truncated_normal(self.initializer_range),
            name="embeddings",
        )
        self.built = True

    def call(self, query, key):
        """Queries BTNK, keys BSNK -> scores BNTS, added to the keys' before these are scaled."""
        return ops.einsum("BTNK,TSK->BNTS", query, self._vectors(query, key))

    def compute_output_shape(self, query_shape, key_shape):
        batch, length, heads, _ = query_shape
        return (batch, heads, length, key_shape[1])

    def _vectors(self, query, key):
        places = (ops.arange(ops.shape(each)[1], dtype="int32") for each in (query, key))
        places_T, places_S = places
        distances_TS = places_T[:, None] - places_S[None, :] + self.max_positions - 1
        return ops.cast(ops.take(self.embeddings, distances_TS, axis=0), self.compute_dtype)


@keras.saving.register_keras_serializable(package="bert_keras")
class RelativeKeyQuery(RelativeKey):
    """As `RelativeKey`, and keys are multiplied too ("method 4" of Huang et al., 2020)."""

    def call(self, query, key):
        """Queries BTNK, keys BSNK -> scores BNTS, added to the keys' before these are scaled."""
        vectors_TSK = self._vectors(query, key)
        by_query = ops.einsum("BTNK,TSK->BNTS", query, vectors_TSK)
        return by_query + ops.einsum("BSNK,TSK->BNTS", key, vectors_TSK)


RELATIVE = {"relative_key": RelativeKey, "relative_key_query": RelativeKeyQuery}
