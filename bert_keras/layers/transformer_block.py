"""Transformer blocks, post-norm and pre-norm, and their feed-forward layers."""

from __future__ import annotations

import functools
from typing import Any

import keras
from keras import ops

from bert_keras import kernels
from bert_keras.layers.attention import SelfAttention
from bert_keras.layers.core import Dense, seeded_dropout, truncated_normal
from bert_keras.layers.normalization import after_norm, normalization
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

    Gated, the activation of a third dense layer multiplies the output of the first (Shazeer, 2020).

    Args:
        intermediate_size: width between the layers.
        hidden_size: width of the input and of the output.
        activation: a name of `ACTIVATIONS`.
        initializer_range: standard deviation of the initial kernels.
        gated: whether there is a third layer.
        intermediate_bias: whether the first layers have biases.
        output_bias: whether the last layer has a bias.
        dropout: share that is dropped from the input of the last layer.
    """

    def __init__(
        self,
        intermediate_size: int,
        hidden_size: int,
        activation: str = "gelu",
        initializer_range: float = 0.02,
        gated: bool = False,
        intermediate_bias: bool = True,
        output_bias: bool = True,
        dropout: float = 0.0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.intermediate_size = intermediate_size
        self.activation = self.training_activation = ACTIVATIONS[activation]
        if self.activation is kernels.gelu:
            self.training_activation = kernels.gelu_to_train

        def dense(name: str, units: int, use_bias: bool) -> Dense:
            """Make a dense layer."""
            return Dense(
                units,
                use_bias=use_bias,
                kernel_initializer=truncated_normal(initializer_range),
                dtype=self.dtype_policy,
                trainable=self.trainable,
                name=name,
            )

        self.intermediate = dense("intermediate", intermediate_size, intermediate_bias)
        self.gate = dense("gate", intermediate_size, intermediate_bias) if gated else None
        self.output_projection = dense("output", hidden_size, output_bias)
        self.dropout = seeded_dropout(dropout, "dropout", self.dtype_policy) if dropout else None

    def build(self, x_shape):
        for layer in filter(None, (self.intermediate, self.gate)):
            build_once(layer, x_shape)
        build_once(self.output_projection, (*x_shape[:-1], self.intermediate_size))
        self.built = True

    def call(self, x, training=None, seed=None, norm=None):
        """Apply the layers.

        Args:
            x: [..., hidden_size].
            training: whether dropout is active.
            seed: seed of the dropout, a value of its `next_seed`; None to draw one.
            norm: normalisation of `x`; None for none.

        Returns:
            [..., hidden_size].
        """
        # Both have the same values; the gradient of `training_activation` reads memory less often.
        activation = self.training_activation if training else self.activation
        if self.dropout is not None and training and seed is None:
            seed = self.dropout.next_seed()

        def dropped(x):
            """Return the input of the last layer after dropout."""
            if self.dropout is None:
                return x
            return self.dropout(x, training=training, seed=seed)

        fused = functools.partial(self.gate or self.intermediate, activation=activation)
        if self.gate is None:
            if norm is None or not training:
                (x,) = after_norm(norm, (fused,), x, training)
            else:
                (x,) = after_norm(norm, (self.intermediate,), x, training)
                x = activation(x)
            return self.output_projection(dropped(x))
        if not training:
            gate, x = after_norm(norm, (fused, self.intermediate), x, training)
            return self.output_projection(gate * x)
        gate, x = after_norm(norm, (self.gate, self.intermediate), x, training)
        # The activation and the product are two tensors as wide as what they are computed from.
        return kernels.after_recomputed(
            lambda gate, x: dropped(activation(gate) * x), self.output_projection, gate, x
        )

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
        positions: kind of positions of the attention; this and the next three as in
            `SelfAttention`.
        position_buckets: buckets of "disentangled" positions.
        max_distance: distance of their last bucket or vector.
        num_key_value_heads: heads of keys and values.
        attention_bias: whether the projections of the attention have biases.
        key_bias: whether those to keys have; this and the next one as in `SelfAttention`.
        rotary_values: whether rotary positions turn the values too.
        gated: whether the feed-forward layers are gated; this and the next three as in
            `FeedForward`.
        intermediate_bias: whether their first layers have biases.
        output_bias: whether their last layer has a bias.
        intermediate_dropout: share dropped from the input of their last layer.
        norm: kind of normalisation: "layer" or "rms".
        norm_bias: whether layer normalisations have a bias.
        attention_norm: whether there is a normalisation at the attention; False in a first pre-norm
            block whose input is normalised.

    Attributes:
        checkpoints_gradients: whether training uses gradient checkpointing (Chen et al., 2016): it
            keeps the block's input only, and computes the rest again for the gradients. `fit` reads
            it when it compiles its step.
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
        positions: str = "none",
        position_buckets: int = 0,
        max_distance: int = 0,
        num_key_value_heads: int | None = None,
        attention_bias: bool = True,
        key_bias: bool = True,
        rotary_values: bool = False,
        gated: bool = False,
        intermediate_bias: bool = True,
        output_bias: bool = True,
        intermediate_dropout: float = 0.0,
        norm: str = "layer",
        norm_bias: bool = True,
        attention_norm: bool = True,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.checkpoints_gradients = False
        shared: dict[str, Any] = {"dtype": self.dtype_policy, "trainable": self.trainable}
        self.attention = SelfAttention(
            num_heads,
            hidden_size,
            dropout=attention_dropout,
            initializer_range=initializer_range,
            relative_positions=relative_positions,
            max_positions=max_positions,
            head_size=head_size,
            positions=positions,
            position_buckets=position_buckets,
            max_distance=max_distance,
            num_key_value_heads=num_key_value_heads,
            use_bias=attention_bias,
            key_bias=key_bias,
            rotary_values=rotary_values,
            name="attention",
            **shared,
        )
        self.feedforward = FeedForward(
            intermediate_size,
            hidden_size,
            activation=activation,
            initializer_range=initializer_range,
            gated=gated,
            intermediate_bias=intermediate_bias,
            output_bias=output_bias,
            dropout=intermediate_dropout,
            name="feedforward",
            **shared,
        )
        shared |= {"epsilon": layer_norm_epsilon, "bias": norm_bias}
        self.attention_layer_norm = None
        if attention_norm:
            self.attention_layer_norm = normalization(norm, name="attention_layer_norm", **shared)
        self.feedforward_layer_norm = normalization(norm, name="feedforward_layer_norm", **shared)
        self.attention_dropout = seeded_dropout(dropout, "attention_dropout", self.dtype_policy)
        self.feedforward_dropout = seeded_dropout(dropout, "feedforward_dropout", self.dtype_policy)

    @property
    def takes_queries(self) -> bool:
        """True where the block can compute some tokens alone.

        With relative positions it cannot, because the distances are those of all tokens in order.
        """
        return self.attention.distance is None

    @property
    def norm_before_attention(self) -> Any:
        """The normalisation before the attention; None, because this block normalises after it."""
        return None

    def build(self, x_shape, padding_mask_shape=None):
        for sublayer in (
            self.attention,
            self.attention_layer_norm,
            self.feedforward,
            self.feedforward_layer_norm,
        ):
            if sublayer is not None:
                build_once(sublayer, x_shape)
        self.built = True

    def call(
        self,
        x,
        padding_mask=None,
        training=None,
        queries=None,
        positions=None,
        query_places=None,
        window=None,
        example_ids=None,
    ):
        """Apply the block.

        Args:
            x: [batch, length, hidden_size].
            padding_mask: as in `SelfAttention.call`.
            training: whether dropout is active.
            queries: [batch, queries, hidden_size], the tokens whose outputs are computed; None for
                all tokens of `x`.
            positions: as in `SelfAttention.call`.
            query_places: int32 [batch, queries], places of `queries` in `x`.
            window: as in `SelfAttention.call`.
            example_ids: as in `SelfAttention.call`.

        Returns:
            [batch, queries, hidden_size].
        """
        # Seeds are drawn before, so that both computations of a checkpoint drop the same numbers.
        seeds = self._seeds() if training else (None,) * 4
        attention = {
            "padding_mask": padding_mask,
            "query_places": query_places,
            "window": window,
            "example_ids": example_ids,
        }
        # What may have a gradient is an argument of the recomputed function.
        names = ("x", "queries", "positions")
        values = zip(names, (x, queries, positions), strict=True)
        tensors = {name: value for name, value in values if value is not None}

        def outputs(*arguments):
            """Return the outputs for the tensors of `tensors`."""
            given = dict(zip(tensors, arguments, strict=True))
            return self._outputs(training, seeds, attention, **given)

        if training and self.checkpoints_gradients:
            return kernels.recomputed(outputs)(*tensors.values())
        return outputs(*tensors.values())

    def _seeds(self) -> tuple[Any, Any, Any, Any]:
        """Draw the seeds of the dropouts for one call; None where a rate is 0."""
        dropouts = (self.attention.dropout, self.attention_dropout, self.feedforward_dropout)
        first, second, third = (dropout.next_seed() for dropout in dropouts)
        inner = self.feedforward.dropout
        return first, second, third, None if inner is None else inner.next_seed()

    def _outputs(self, training, seeds, attention, *, x, queries=None, positions=None):
        """Compute the block with drawn seeds and other arguments of the attention, by name."""
        attended = self._attended(x, training, seeds, attention, queries, positions)
        x = (x if queries is None else queries) + attended
        if self.attention_layer_norm is not None:
            x = self.attention_layer_norm(x, training=training)
        out = self._fed_forward(x, training, seeds)
        return self.feedforward_layer_norm(x + out, training=training)

    def _attended(self, x, training, seeds, attention, queries, positions):
        """Return the attention of some tokens to `x`, after dropout."""
        attended = self.attention(
            x,
            training=training,
            seed=seeds[0],
            queries=queries,
            positions=positions,
            norm=self.norm_before_attention,
            **attention,
        )
        return self.attention_dropout(attended, training=training, seed=seeds[1])

    def _fed_forward(self, x, training, seeds, norm=None):
        """Return the feed-forward layers of `x`, after dropout."""
        out = self.feedforward(x, training=training, seed=seeds[3], norm=norm)
        return self.feedforward_dropout(out, training=training, seed=seeds[2])

    def compute_output_spec(self, x, padding_mask=None, training=None, queries=None, **positions):
        shape = (x if queries is None else queries).shape
        return keras.KerasTensor(shape, dtype=self.compute_dtype)


@keras.saving.register_keras_serializable(package="bert_keras")
class PreNormBlock(TransformerBlock):
    """Pre-norm transformer block: each sublayer reads its normalised input (Xiong et al., 2020)."""

    @property
    def norm_before_attention(self) -> Any:
        """The normalisation before the attention; None where its input is not normalised."""
        return self.attention_layer_norm

    def _outputs(self, training, seeds, attention, *, x, queries=None, positions=None):
        """Compute the block with drawn seeds and other arguments of the attention, by name."""
        attended = self._attended(x, training, seeds, attention, queries, positions)
        x = kernels.computed_once((x if queries is None else queries) + attended)
        out = self._fed_forward(x, training, seeds, norm=self.feedforward_layer_norm)
        return kernels.computed_once(x + out)
