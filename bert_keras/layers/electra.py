"""ELECTRA's generator, and the replacement of tokens by its samples (Clark et al., 2020)."""

from __future__ import annotations

import random
from collections.abc import Sequence

import keras
from keras import ops

from bert_keras.layers.core import Dense, freeze_with, truncated_normal
from bert_keras.layers.embeddings import BertEmbeddings
from bert_keras.layers.serialization import SerializableLayer, build_once
from bert_keras.layers.transformer_block import TransformerBlock


@keras.saving.register_keras_serializable(package="bert_keras")
class Generator(SerializableLayer):
    """Blocks of another width over shared embeddings (Clark et al., 2020, §3.2).

    Args:
        embeddings: embeddings of the encoder; their tables and normalisation are shared, and their
            projection is not used.
        blocks: blocks of the generator, all of one width.
        hidden_size: width of the blocks. If it is not that of the tables, there is a projection.
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
        freeze_with(self, embeddings, *self.blocks)
        self.hidden_size = hidden_size
        self.projection = None
        if embeddings.embedding_size != hidden_size:
            self.projection = Dense(
                hidden_size,
                kernel_initializer=truncated_normal(initializer_range),
                dtype=self.dtype_policy,
                trainable=self.trainable,
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
        """Return the hidden states of the generator's last block.

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


# === Token replacement ===


_SEED = 0  # outside training


@keras.saving.register_keras_serializable(package="bert_keras")
class TokenReplacement(SerializableLayer):
    """Puts a token drawn from a distribution at each masked position (Clark et al., 2020, §3.1).

    No gradient flows through the draw. In training its seed is a variable of the model, as
    dropout's is. Outside training the seed is fixed, so that two evaluations give the same figures.
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        # Drawn from Python's generator, which `keras.utils.set_random_seed` sets.
        self.seed_generator = keras.random.SeedGenerator(random.randint(1, 2**31 - 1))

    def build(self, token_ids_shape, logits_shape=None, mask_positions_shape=None):
        self.built = True

    def call(self, token_ids, logits, mask_positions, training=None):
        """Return the token ids with drawn tokens at the masked positions.

        Args:
            token_ids: int32 [batch, length].
            logits: float [batch, predictions, vocab_size], of the tokens at `mask_positions`.
            mask_positions: int32 [batch, predictions]. Unused entries are 0, the position of
                [CLS], which is never masked.
            training: True to draw other tokens in each call.

        Returns:
            int32 [batch, length].
        """
        batch, predictions, vocab_size = ops.shape(logits)
        logits = ops.reshape(ops.stop_gradient(logits), (batch * predictions, vocab_size))
        seed = self.seed_generator if training else _SEED
        drawn = keras.random.categorical(logits, 1, dtype="int32", seed=seed)
        drawn = ops.reshape(drawn, (batch, predictions, 1))
        mask_positions = ops.cast(mask_positions, "int32")[:, :, None]
        columns = ops.arange(ops.shape(token_ids)[1], dtype="int32")[None, None]
        hits = ops.logical_and(mask_positions == columns, mask_positions > 0)
        drawn = ops.max(ops.where(hits, drawn, 0), axis=1)
        return ops.where(ops.any(hits, axis=1), drawn, ops.cast(token_ids, "int32"))

    def compute_output_spec(self, token_ids, logits, mask_positions, training=None):
        return keras.KerasTensor(token_ids.shape, dtype="int32")
