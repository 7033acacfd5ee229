"""ELECTRA's generator: a small encoder over the embeddings of a large one."""

from __future__ import annotations

from collections.abc import Sequence

import keras

from bert_keras.layers.block import TransformerBlock
from bert_keras.layers.core import Dense
from bert_keras.layers.dropout import truncated_normal
from bert_keras.layers.embeddings import BertEmbeddings
from bert_keras.layers.serialization import SerializableLayer, build_once


@keras.saving.register_keras_serializable(package="bert_keras")
class Generator(SerializableLayer):
    """Blocks of another width over shared embeddings (Clark et al., 2020, §3.2).

    Args:
        embeddings: those of the encoder, shared: tables and normalisation, not the projection.
        blocks: of the generator, all of one width.
        hidden_size: that width; another one than the tables' adds a projection.
        initializer_range: standard deviation of the projection's initial kernel.
    """

    def __init__(
        self,
        embeddings: BertEmbeddings,
        blocks: Sequence[TransformerBlock],
        hidden_size: int,
        initializer_range: float = 0.02,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.embeddings = embeddings
        self.blocks = list(blocks)
        self.hidden_size = hidden_size
        self.projection = None
        if embeddings.embedding_size != hidden_size:
            self.projection = Dense(
                hidden_size,
                kernel_initializer=truncated_normal(initializer_range),
                dtype=self.dtype_policy,
                name="projection",
            )

    def build(self, token_ids_shape, segment_ids_shape=None, padding_mask_shape=None):
        build_once(self.embeddings, token_ids_shape)
        if self.projection is not None:
            build_once(self.projection, (*token_ids_shape, self.embeddings.embedding_size))
        for block in self.blocks:
            build_once(block, (*token_ids_shape, self.hidden_size))
        self.built = True

    def call(self, token_ids, segment_ids=None, padding_mask=None, training=None):
        """Encodes.

        Args:
            token_ids: [batch, length], in [0, vocab_size).
            segment_ids: [batch, length]; None for all zeros.
            padding_mask: [batch, length], 1 for real tokens; None when there is no padding.
            training: whether dropout is active.

        Returns:
            [batch, length, hidden_size].
        """
        x = self.embeddings.embed(token_ids, segment_ids, training=training)
        if self.projection is not None:
            x = self.projection(x)
        for block in self.blocks:
            x = block(x, padding_mask, training=training)
        return x

    def compute_output_spec(self, token_ids, segment_ids=None, padding_mask=None, training=None):
        return keras.KerasTensor((*token_ids.shape, self.hidden_size), dtype=self.compute_dtype)
