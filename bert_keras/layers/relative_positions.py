"""Learned vectors of distances that queries and keys are multiplied with (Shaw et al., 2018)."""

from __future__ import annotations

import keras
from keras import ops

from bert_keras.layers.core import truncated_normal
from bert_keras.layers.serialization import SerializableLayer


@keras.saving.register_keras_serializable(package="bert_keras")
class RelativeKey(SerializableLayer):
    """Relative positions: a learned vector for every distance, multiplied with queries like a key.

    Shaw et al., 2018, §3.2; "method 2" of Huang et al., 2020. Axes as in `SelfAttention`.

    Args:
        max_positions: length of the longest sequence; distances go from 1 - max_positions to
            max_positions - 1.
        head_size: K, the width of a head.
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
        """Return the scores of distances.

        Args:
            query: BTNK.
            key: BSNK.

        Returns:
            BNTS, to be added to the scores of keys before these are scaled.
        """
        return ops.einsum("BTNK,TSK->BNTS", query, self._vectors(query, key))

    def compute_output_shape(self, query_shape, key_shape):
        batch, length, heads, _ = query_shape
        return (batch, heads, length, key_shape[1])

    def _vectors(self, query, key):
        """Return the vector of the distance between each query and each key: TSK."""
        positions_T = ops.arange(ops.shape(query)[1], dtype="int32")
        positions_S = ops.arange(ops.shape(key)[1], dtype="int32")
        rows_TS = positions_T[:, None] - positions_S[None, :] + self.max_positions - 1
        return ops.cast(ops.take(self.embeddings, rows_TS, axis=0), self.compute_dtype)


@keras.saving.register_keras_serializable(package="bert_keras")
class RelativeKeyQuery(RelativeKey):
    """`RelativeKey` whose vectors are multiplied with keys too ("method 4"; Huang et al., 2020)."""

    def call(self, query, key):
        """Return the scores of distances, with queries and with keys.

        Args:
            query: BTNK.
            key: BSNK.

        Returns:
            BNTS, to be added to the scores of keys before these are scaled.
        """
        vectors_TSK = self._vectors(query, key)
        by_query = ops.einsum("BTNK,TSK->BNTS", query, vectors_TSK)
        return by_query + ops.einsum("BSNK,TSK->BNTS", key, vectors_TSK)


RELATIVE = {"relative_key": RelativeKey, "relative_key_query": RelativeKeyQuery}
