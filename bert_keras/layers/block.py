"""One transformer block, layer normalisation after each sum (post-norm), as in BERT."""

from __future__ import annotations

import operator
from typing import Any

import keras

from bert_keras.layers.attention import SelfAttention
from bert_keras.layers.dropout import seeded_dropout
from bert_keras.layers.feedforward import FeedForward
from bert_keras.layers.inner import inner
from bert_keras.layers.layer_norm import LayerNorm


@keras.saving.register_keras_serializable(package="bert_keras")
class TransformerBlock(keras.layers.Layer):
    """Self-attention and feed-forward, each dropped out, added to its input and normalised.

    Args:
        hidden_size: width of the input and of the output.
        num_heads: attention heads.
        intermediate_size: inner width of the feed-forward layers.
        activation: of the feed-forward layers.
        layer_norm_epsilon: added to the variance.
        dropout: share dropped from each sublayer's output.
        attention_dropout: share dropped from the attention probabilities.
        initializer_range: standard deviation of the initial kernels.
        relative_positions: of the attention; see `SelfAttention`.
        max_positions: the longest sequence, for relative positions.
        head_size: width of a head; None for hidden_size / num_heads.

    Attributes:
        checkpoints_gradients: whether training keeps the block's input alone, and computes the rest
            again for the gradients (Chen et al., 2016); read where `fit` compiles its step.
    """

    def __init__(
        self,
        hidden_size: int,
        num_heads: int,
        intermediate_size: int,
        activation: str = "gelu",
        layer_norm_epsilon: float = 1e-12,
        dropout: float = 0.1,
        attention_dropout: float = 0.1,
        initializer_range: float = 0.02,
        relative_positions: str | None = None,
        max_positions: int = 0,
        head_size: int | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.checkpoints_gradients = False
        self.attention = SelfAttention(
            num_heads,
            hidden_size,
            dropout=attention_dropout,
            initializer_range=initializer_range,
            relative_positions=relative_positions,
            max_positions=max_positions,
            head_size=head_size,
            dtype=self.dtype_policy,
            name="attention",
        )
        self.feedforward = FeedForward(
            intermediate_size,
            hidden_size,
            activation=activation,
            initializer_range=initializer_range,
            dtype=self.dtype_policy,
            name="feedforward",
        )
        self.attention_layer_norm, self.feedforward_layer_norm = (
            LayerNorm(epsilon=layer_norm_epsilon, dtype=self.dtype_policy, name=name)
            for name in ("attention_layer_norm", "feedforward_layer_norm")
        )
        self.attention_dropout = seeded_dropout(dropout, "attention_dropout", self.dtype_policy)
        self.feedforward_dropout = seeded_dropout(dropout, "feedforward_dropout", self.dtype_policy)

    def build(self, x_shape, padding_mask_shape=None):
        for sublayer in (
            self.attention,
            self.attention_layer_norm,
            self.feedforward,
            self.feedforward_layer_norm,
        ):
            sublayer.build(x_shape)
        self.built = True

    def call(self, x, padding_mask=None, training=None, first_token: bool = False):
        """Applies the block.

        Args:
            x: [batch, length, hidden_size].
            padding_mask: as of `SelfAttention`.
            training: whether dropout is active.
            first_token: whether it is for the first token alone.

        Returns:
            [batch, length, hidden_size]; the length is 1 for the first token alone.
        """
        # Drawn before, so that what is computed twice is dropped twice alike.
        seeds = self._seeds() if training else (None,) * 3
        if training and self.checkpoints_gradients:
            # By Keras: when it is computed again, no scope of Keras's says in which dtype.
            return keras.remat(
                lambda x: self._outputs(operator.call, x, padding_mask, True, first_token, seeds)
            )(x)
        return self._outputs(inner, x, padding_mask, training, first_token, seeds)

    def _seeds(self) -> tuple[Any, Any, Any]:
        dropouts = (self.attention.dropout, self.attention_dropout, self.feedforward_dropout)
        first, second, third = (dropout.next_seed() for dropout in dropouts)
        return first, second, third

    def _outputs(self, part, x, padding_mask, training, first_token, seeds):
        in_attention, after_attention, after_feedforward = seeds
        attended = part(
            *(self.attention, x, padding_mask),
            training=training,
            first_token=first_token,
            seed=in_attention,
        )
        attended = part(self.attention_dropout, attended, training=training, seed=after_attention)
        if first_token:
            x = x[:, :1]
        x = part(self.attention_layer_norm, x + attended, training=training)
        out = part(self.feedforward, x, training=training)
        out = part(self.feedforward_dropout, out, training=training, seed=after_feedforward)
        return part(self.feedforward_layer_norm, x + out, training=training)

    def compute_output_shape(self, x_shape, padding_mask_shape=None):
        return x_shape


@keras.saving.register_keras_serializable(package="bert_keras")
class FirstToken(keras.layers.Layer):
    """A view of a `TransformerBlock`: what it makes of the first token, [CLS], alone.

    A text's label is read from nothing else of the last block, and nothing else is computed: of
    its products those for keys and values stay, a sixth.
    """

    def __init__(self, block: TransformerBlock, **kwargs):
        super().__init__(dtype=block.dtype_policy, **kwargs)
        self.block = block

    def build(self, x_shape, padding_mask_shape=None):
        if not self.block.built:
            self.block.build(x_shape)
        self.built = True

    def call(self, x, padding_mask=None, training=None):
        """[batch, length, hidden_size] -> [batch, 1, hidden_size]."""
        return inner(self.block, x, padding_mask, training=training, first_token=True)

    def compute_output_shape(self, x_shape, padding_mask_shape=None):
        return (x_shape[0], 1, x_shape[2])
