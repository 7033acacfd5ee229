"""Post-norm transformer block of BERT, its feed-forward layers, and its outputs for some tokens."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from bert_keras import kernels
from bert_keras.layers.attention import SelfAttention
from bert_keras.layers.core import (
    Dense,
    LayerNorm,
    freeze_with,
    seeded_dropout,
    truncated_normal,
)
from bert_keras.layers.packing import tokens_at
from bert_keras.layers.serialization import SerializableLayer, build_once


def gelu_tanh(x):
    """Return the tanh approximation of GELU, which Google's TF1 code calls "gelu"."""
    return ops.gelu(x, approximate=True)


ACTIVATIONS = {
    "gelu": kernels.gelu,
    "gelu_tanh": gelu_tanh,
    "relu": ops.relu,
    "silu": ops.silu,
    "tanh": ops.tanh,
}


@keras.saving.register_keras_serializable(package="bert_keras")
class FeedForward(SerializableLayer):
    """Feed-forward layers: two dense layers with an activation between them.

    Args:
        intermediate_size: width between the two layers.
        hidden_size: width of the input and of the output.
        activation: a name of `ACTIVATIONS`.
        initializer_range: standard deviation of the initial kernels.
    """

    def __init__(
        self,
        intermediate_size: int,
        hidden_size: int,
        activation: str = "gelu",
        initializer_range: float = 0.02,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.intermediate_size = intermediate_size
        self.activation = self.training_activation = ACTIVATIONS[activation]
        if self.activation is kernels.gelu:
            self.training_activation = kernels.gelu_to_train
        self.intermediate, self.output_projection = (
            Dense(
                size,
                kernel_initializer=truncated_normal(initializer_range),
                dtype=self.dtype_policy,
                trainable=self.trainable,
                name=name,
            )
            for size, name in ((intermediate_size, "intermediate"), (hidden_size, "output"))
        )

    def build(self, x_shape):
        build_once(self.intermediate, x_shape)
        build_once(self.output_projection, (*x_shape[:-1], self.intermediate_size))
        self.built = True

    def call(self, x, training=None):
        """[..., hidden_size] -> [..., hidden_size]."""
        # Both have the same values; the gradient of `training_activation` reads memory less often.
        activation = self.training_activation if training else self.activation
        return self.output_projection(self.intermediate(x, activation=activation))

    def compute_output_shape(self, x_shape):
        return x_shape


# === Block ===


@keras.saving.register_keras_serializable(package="bert_keras")
class TransformerBlock(SerializableLayer):
    """Post-norm transformer block: self-attention, then feed-forward layers.

    The output of each goes through dropout, is added to its input, and normalised.

    Args:
        hidden_size: width of the input and of the output.
        num_heads: attention heads.
        intermediate_size: inner width of the feed-forward layers.
        activation: activation of the feed-forward layers.
        layer_norm_epsilon: added to the variance.
        dropout: share dropped from each sublayer's output.
        attention_dropout: share dropped from the attention probabilities.
        initializer_range: standard deviation of the initial kernels.
        relative_positions: relative positions of the attention; see `SelfAttention`.
        max_positions: length of the longest sequence, for relative positions.
        head_size: width of a head; None for hidden_size / num_heads.

    Attributes:
        checkpoints_gradients: whether training uses gradient checkpointing (Chen et al., 2016): it
            keeps the block's input only, and computes the rest again for the gradients. `fit` reads
            it when it compiles its step.
        reads_positions: False, because the embeddings or distances have the positions. A block
            that reads them is called with `position_ids` as well, int32 [batch, length] or None
            for 0, 1, 2 and so on. With `queries` it is called with `query_position_ids` too, int32
            [batch, queries]: the positions of the tokens that it computes.
        norm_before_attention: None, because the block normalises after each part.
    """

    reads_positions = False
    norm_before_attention = None

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
            trainable=self.trainable,
            name="attention",
        )
        self.feedforward = FeedForward(
            intermediate_size,
            hidden_size,
            activation=activation,
            initializer_range=initializer_range,
            dtype=self.dtype_policy,
            trainable=self.trainable,
            name="feedforward",
        )
        self.attention_layer_norm, self.feedforward_layer_norm = (
            LayerNorm(
                epsilon=layer_norm_epsilon,
                dtype=self.dtype_policy,
                trainable=self.trainable,
                name=name,
            )
            for name in ("attention_layer_norm", "feedforward_layer_norm")
        )
        self.attention_dropout = seeded_dropout(dropout, "attention_dropout", self.dtype_policy)
        self.feedforward_dropout = seeded_dropout(dropout, "feedforward_dropout", self.dtype_policy)

    @property
    def takes_queries(self) -> bool:
        """True where the block can compute some tokens alone.

        With relative positions it cannot, because the distances are those of all tokens in order.
        """
        return self.attention.distance is None

    def build(self, x_shape, padding_mask_shape=None):
        for sublayer in (
            self.attention,
            self.attention_layer_norm,
            self.feedforward,
            self.feedforward_layer_norm,
        ):
            build_once(sublayer, x_shape)
        self.built = True

    def call(self, x, padding_mask=None, training=None, queries=None):
        """Apply the block.

        Args:
            x: [batch, length, hidden_size].
            padding_mask: as in `SelfAttention.call`.
            training: whether dropout is active.
            queries: [batch, queries, hidden_size], the tokens whose outputs are computed; None for
                all tokens of `x`.

        Returns:
            [batch, queries, hidden_size].
        """
        # Seeds are drawn before, so that both computations of a checkpoint drop the same numbers.
        seeds = self._seeds() if training else (None,) * 3
        if training and self.checkpoints_gradients:
            tokens = (x,) if queries is None else (x, queries)
            return kernels.recomputed(
                lambda x, queries=None: self._outputs(x, padding_mask, True, queries, seeds)
            )(*tokens)
        return self._outputs(x, padding_mask, training, queries, seeds)

    def _seeds(self) -> tuple[Any, Any, Any]:
        """Draw the seeds of the three dropouts for one call; None where a rate is 0."""
        dropouts = (self.attention.dropout, self.attention_dropout, self.feedforward_dropout)
        first, second, third = (dropout.next_seed() for dropout in dropouts)
        return first, second, third

    def _outputs(self, x, padding_mask, training, queries, seeds):
        """Compute the block with drawn seeds; the other arguments are those of `call`."""
        in_attention, after_attention, after_feedforward = seeds
        attended = self.attention(
            x, padding_mask, training=training, queries=queries, seed=in_attention
        )
        attended = self.attention_dropout(attended, training=training, seed=after_attention)
        if queries is not None:
            x = queries
        x = self.attention_layer_norm(x + attended, training=training)
        out = self.feedforward(x, training=training)
        out = self.feedforward_dropout(out, training=training, seed=after_feedforward)
        return self.feedforward_layer_norm(x + out, training=training)

    def compute_output_shape(self, x_shape, padding_mask_shape=None):
        return x_shape


class _SomeTokens(SerializableLayer):
    """Base of layers that compute the outputs of a `TransformerBlock` for some tokens only.

    Keys and values are still computed for all tokens: a sixth of the products of a block.
    """

    def __init__(self, block: TransformerBlock, **kwargs):
        kwargs.setdefault("dtype", block.dtype_policy)
        super().__init__(**kwargs)
        self.block = block
        freeze_with(self, block)

    def build(self, x_shape, *_args, **_kwargs):
        build_once(self.block, x_shape)
        self.built = True


@keras.saving.register_keras_serializable(package="bert_keras")
class FirstToken(_SomeTokens):
    """Outputs of a `TransformerBlock` for the first token, [CLS], only."""

    def call(self, x, padding_mask=None, training=None, position_ids=None):
        """[batch, length, hidden_size] -> [batch, 1, hidden_size]."""
        positions = {}
        if position_ids is not None:
            positions = {
                "position_ids": position_ids,
                "query_position_ids": position_ids[:, :1],
            }
        return self.block(x, padding_mask, training=training, queries=x[:, :1], **positions)

    def compute_output_shape(self, x_shape, padding_mask_shape=None):
        return (x_shape[0], 1, x_shape[2])


@keras.saving.register_keras_serializable(package="bert_keras")
class TokensOf(_SomeTokens):
    """Outputs of a `TransformerBlock` at some positions only.

    A masked language model reads about 15 % of the tokens.

    Args:
        block: the block.
        first: True to compute the first token of each example, [CLS], too.
    """

    def __init__(self, block: TransformerBlock, first: bool = False, **kwargs):
        super().__init__(block, **kwargs)
        self.first = first

    def call(
        self,
        x,
        positions,
        padding_mask=None,
        first_positions=None,
        training=None,
        position_ids=None,
    ):
        """Apply the block.

        Args:
            x: [batch, length, hidden_size].
            positions: [batch, tokens], in [0, length).
            padding_mask: as in `SelfAttention.call`.
            first_positions: [batch, examples], where each example of a row begins; None where a
                row is one example.
            training: whether dropout is active.
            position_ids: int32 [batch, length], of a block that reads positions; None for 0, 1, 2
                and so on.

        Returns:
            [batch, tokens, hidden_size]. With `first` a tuple of this and the vectors of [CLS],
            [batch, examples, hidden_size].
        """
        if not self.block.takes_queries:
            all_outputs = self.block(x, padding_mask, training=training)
            outputs = self._gather(all_outputs, positions, first_positions)
        else:
            if padding_mask is not None and len(padding_mask.shape) == 3:
                padding_mask = self._gather(padding_mask, positions, first_positions)
            queries = self._gather(x, positions, first_positions)
            options = {}
            if self.block.reads_positions:
                if position_ids is None:
                    batch, length, _ = ops.shape(x)
                    position_ids = ops.tile(ops.arange(length, dtype="int32")[None], (batch, 1))
                of_queries = self._gather(position_ids[..., None], positions, first_positions)
                options = {
                    "position_ids": position_ids,
                    "query_position_ids": of_queries[..., 0],
                }
            outputs = self.block(x, padding_mask, training=training, queries=queries, **options)
        if not self.first:
            return outputs
        count = 1 if first_positions is None else ops.shape(first_positions)[1]
        return outputs[:, count:], outputs[:, :count]

    def _gather(self, x, positions, first_positions):
        """Return the vectors of `x` at the positions; with `first`, those of each [CLS] before.

        A row has one example, unless it is packed: then it has several, each with its [CLS].

        [batch, length, width] -> [batch, examples + tokens, width].
        """
        tokens = tokens_at(x, positions)
        if not self.first:
            return tokens
        first = x[:, :1] if first_positions is None else tokens_at(x, first_positions)
        return ops.concatenate([first, tokens], axis=1)

    def compute_output_spec(
        self,
        x,
        positions,
        padding_mask=None,
        first_positions=None,
        training=None,
        position_ids=None,
    ):
        batch, _, width = x.shape
        outputs = keras.KerasTensor((*positions.shape, width), dtype=self.compute_dtype)
        if not self.first:
            return outputs
        examples = 1 if first_positions is None else first_positions.shape[1]
        return outputs, keras.KerasTensor((batch, examples, width), dtype=self.compute_dtype)
