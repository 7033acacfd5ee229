"""Replacing tokens by a generator's samples."""

from __future__ import annotations

import random

import keras
from keras import ops

from bert_keras.layers.serialization import SerializableLayer

_SEED = 0  # where nothing is trained


@keras.saving.register_keras_serializable(package="bert_keras")
class TokenReplacement(SerializableLayer):
    """Puts a token drawn from a distribution at each masked position (Clark et al., 2020, §3.1).

    No gradient flows through the draw. In training its seed is a variable of the model, as
    dropout's is; else it is always the same, so that what is measured can be compared.
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        # Drawn from Python's generator, which `keras.utils.set_random_seed` sets.
        self.seed_generator = keras.random.SeedGenerator(random.randint(1, 2**31 - 1))

    def build(self, token_ids_shape, logits_shape=None, mask_positions_shape=None):
        self.built = True

    def call(self, token_ids, logits, mask_positions, training=None):
        """Replaces.

        Args:
            token_ids: [batch, length].
            logits: [batch, predictions, vocab_size], of the tokens at `mask_positions`.
            mask_positions: [batch, predictions]; slots that are not used have 0, where there is
                [CLS], which is never masked.
            training: whether each call draws anew.

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
