"""ELECTRA's generator: a small encoder over the embeddings of a large one."""

from __future__ import annotations

import keras

from bert_keras.layers.block import TransformerBlock
from bert_keras.layers.dropout import truncated_normal
from bert_keras.layers.embeddings import BertEmbeddings


@keras.saving.register_keras_serializable(package="bert_keras")
class Generator(keras.layers.Layer):
    """Blocks of another width over shared embeddings (Clark et al., 2020, §3.2).

    Args:
        embeddings: those of the encoder, shared: tables and normalisation, not the projection.
        hidden_size: width of the output; another width than the tables' adds a projection.
        num_layers: how many blocks.
        num_heads: attention heads of a block.
        intermediate_size: inner width of the feed-forward layers.
        activation: of the feed-forward layers.
        layer_norm_epsilon: added to the variance.
        dropout: share dropped from each sublayer's output.
        attention_dropout: share dropped from the attention probabilities.
        initializer_range: standard deviation of the initial kernels.
    """

    def __init__(
        self,
        embeddings: BertEmbeddings,
        hidden_size: int,
        num_layers: int,
        num_heads: int,
        intermediate_size: int,
        activation: str = "gelu",
        layer_norm_epsilon: float = 1e-12,
        dropout: float = 0.1,
        attention_dropout: float = 0.1,
        initializer_range: float = 0.02,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.embeddings = embeddings
        self.hidden_size = hidden_size
        self.projection = None
        if embeddings.embedding_size != hidden_size:
            self.projection = keras.layers.Dense(
                hidden_size,
                kernel_initializer=truncated_normal(initializer_range),
                dtype=self.dtype_policy,
                name="projection",
            )
        self.blocks = [
            TransformerBlock(
                hidden_size,
                num_heads,
                intermediate_size,
                activation=activation,
                layer_norm_epsilon=layer_norm_epsilon,
                dropout=dropout,
                attention_dropout=attention_dropout,
                initializer_range=initializer_range,
                dtype=self.dtype_policy,
                name=f"block_{index}",
            )
            for index in range(num_layers)
        ]

    def build(self, token_ids_shape, segment_ids_shape=None, padding_mask_shape=None):
        if self.projection is not None:
            self.projection.build((*token_ids_shape, self.embeddings.embedding_size))
        for block in self.blocks:
            block.build((*token_ids_shape, self.hidden_size))
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
        x = self.embeddings.embed(token_ids, segment_ids, training)
        if self.projection is not None:
            x = self.projection(x)
        for block in self.blocks:
            x = block(x, padding_mask, training=training)
        return x

    def compute_output_spec(self, token_ids, segment_ids=None, padding_mask=None, training=None):
        return keras.KerasTensor((*token_ids.shape, self.hidden_size), dtype=self.compute_dtype)
