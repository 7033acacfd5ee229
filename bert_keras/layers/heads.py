"""Heads of an encoder: pooler, masked language model, sentence pairs, classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from bert_keras import kernels
from bert_keras.layers.core import (
    Dense,
    LayerNorm,
    ReversibleEmbedding,
    freeze_with,
    seeded_dropout,
    truncated_normal,
)
from bert_keras.layers.normalization import normalization
from bert_keras.layers.packing import tokens_at
from bert_keras.layers.serialization import SerializableLayer, build_once
from bert_keras.layers.transformer_block import ACTIVATIONS


@keras.saving.register_keras_serializable(package="bert_keras")
class Pooler(SerializableLayer):
    """Dense tanh layer over the first token, [CLS] (Devlin et al., 2019, §3.1)."""

    def __init__(self, hidden_size: int, initializer_range: float = 0.02, **kwargs):
        super().__init__(**kwargs)
        self.dense = Dense(
            hidden_size,
            activation="tanh",
            kernel_initializer=truncated_normal(initializer_range),
            dtype=self.dtype_policy,
            trainable=self.trainable,
            name="dense",
        )

    def build(self, x_shape, first_positions_shape=None):
        build_once(self.dense, (x_shape[0], x_shape[2]))
        self.built = True

    def call(self, x, first_positions=None, every=False):
        """Pool the first token of each example.

        Args:
            x: [batch, length, hidden_size].
            first_positions: [batch, examples], where each example of a row begins; None if a row
                is one example.
            every: whether to pool each vector of `x`, which then holds first tokens only.

        Returns:
            [batch, hidden_size]; with `first_positions` [batch, examples, hidden_size]; with
            `every` [batch, length, hidden_size].
        """
        if every:
            return self.dense(x)
        first = x[:, 0] if first_positions is None else tokens_at(x, first_positions)
        return self.dense(first)

    def compute_output_spec(self, x, first_positions=None, every=False):
        if every:
            leading = x.shape[:-1]
        else:
            leading = x.shape[:1] if first_positions is None else first_positions.shape
        return keras.KerasTensor((*leading, self.dense.units), dtype=self.compute_dtype)


@keras.saving.register_keras_serializable(package="bert_keras")
class MaskedLMHead(SerializableLayer):
    """Masked language model head: scores of every vocabulary entry at the masked positions.

    A dense layer, an activation and a layer normalisation come first. Then the vectors are
    multiplied with the transposed token table, and a bias is added (Devlin et al., 2019, §3.1).
    Only the masked positions are computed. With 15 % masked, that saves six sevenths of the largest
    product of a small model.

    Args:
        token_embedding: the encoder's token table, whose variable the head shares.
        activation: a name of `ACTIVATIONS`.
        layer_norm_epsilon: added to the variance.
        initializer_range: standard deviation of the initial kernels.
        use_bias: whether the dense layers have biases.
        norm_bias: whether the normalisation has a bias.
        hidden_sizes: widths of the dense layers, two at most; None for one of the table's width.
        norm: whether the last dense layer is followed by a normalisation.
        output_width: width of an output matrix of the head's own, which is that of the vectors
            before it; None for the token table.
        output_bias: whether the scores have a bias.
    """

    def __init__(
        self,
        token_embedding: keras.layers.ReversibleEmbedding,
        activation: str = "gelu",
        layer_norm_epsilon: float = 1e-12,
        initializer_range: float = 0.02,
        use_bias: bool = True,
        norm_bias: bool = True,
        hidden_sizes: Sequence[int] | None = None,
        norm: bool = True,
        output_width: int | None = None,
        output_bias: bool = True,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.token_embedding = token_embedding
        freeze_with(self, token_embedding)
        sizes = [token_embedding.output_dim] if hidden_sizes is None else list(hidden_sizes)
        self.dense, self.second_dense = (
            Dense(
                size,
                activation=ACTIVATIONS[activation],
                use_bias=use_bias,
                kernel_initializer=truncated_normal(initializer_range),
                dtype=self.dtype_policy,
                trainable=self.trainable,
                name=name,
            )
            if size is not None
            else None
            for size, name in zip([*sizes, None, None], ("dense", "second_dense"), strict=False)
        )
        self.layer_norm = None
        if norm:
            self.layer_norm = LayerNorm(
                epsilon=layer_norm_epsilon,
                center=norm_bias,
                dtype=self.dtype_policy,
                trainable=self.trainable,
                name="layer_norm",
            )
        self.output_table = None
        if output_width is not None:
            self.output_table = ReversibleEmbedding(
                token_embedding.input_dim,
                output_width,
                embeddings_initializer=truncated_normal(initializer_range),
                reverse_dtype="float32",
                dtype=self.dtype_policy,
                trainable=self.trainable,
                name="output",
            )
        self.has_output_bias = output_bias

    def build(self, x_shape, mask_positions_shape=None):
        build_once(self.token_embedding, None)
        for layer in filter(None, (self.dense, self.second_dense)):
            build_once(layer, x_shape)
            x_shape = (*x_shape[:-1], layer.units)
        if self.layer_norm is not None:
            build_once(self.layer_norm, x_shape)
        if self.output_table is not None:
            build_once(self.output_table, None)
        self.bias = None
        if self.has_output_bias:
            self.bias = self.add_weight(
                shape=(self.token_embedding.input_dim,), initializer="zeros", name="bias"
            )
        self.built = True

    @property
    def table(self) -> Any:
        """Layer of the output matrix, [vocab_size, width]: the token table or one of its own."""
        return self.token_embedding if self.output_table is None else self.output_table

    def table_and_bias(self) -> tuple[Any, Any]:
        """Return the output matrix, [vocab_size, width], and the bias, [vocab_size]."""
        bias = self.bias
        if bias is None:
            bias = ops.zeros((self.token_embedding.input_dim,), dtype="float32")
        return self.table.embeddings, bias

    def call(self, x, mask_positions=None):
        """Compute the scores.

        Args:
            x: [batch, length, hidden_size].
            mask_positions: [batch, predictions], in [0, length); None if `x` holds the vectors of
                the predicted tokens only.

        Returns:
            float32 logits [batch, predictions, vocab_size].
        """
        x = self.vectors(x, mask_positions)
        if self.table.quantization_mode is None:
            return kernels.tied_logits(x, *self.table_and_bias())
        logits = ops.cast(self.table(x, reverse=True), "float32")
        return logits if self.bias is None else logits + ops.cast(self.bias, "float32")

    def vectors(self, x, mask_positions=None):
        """Return the vectors to multiply with the token table: [batch, predictions, width]."""
        if mask_positions is not None:
            x = tokens_at(x, mask_positions)
        for layer in filter(None, (self.dense, self.second_dense)):
            x = layer(x)
        # There are few tokens, for which Keras's operations are as fast in training.
        return x if self.layer_norm is None else self.layer_norm(x, training=False)

    def compute_output_spec(self, x, mask_positions=None):
        predictions = x.shape[:-1] if mask_positions is None else mask_positions.shape
        shape = (*predictions, self.token_embedding.input_dim)
        return keras.KerasTensor(shape, dtype="float32")


@keras.saving.register_keras_serializable(package="bert_keras")
class PairHead(SerializableLayer):
    """Sentence-pair head: two scores, for next-sentence or sentence-order prediction.

    Index 0 is the pair in the order of the text, as in the published checkpoints.
    """

    def __init__(self, initializer_range: float = 0.02, **kwargs):
        super().__init__(**kwargs)
        self.dense = Dense(
            2,
            kernel_initializer=truncated_normal(initializer_range),
            dtype=self.dtype_policy,
            trainable=self.trainable,
            name="dense",
        )

    def build(self, x_shape):
        build_once(self.dense, x_shape)
        self.built = True

    def call(self, x):
        """[..., hidden_size] -> float32 logits [..., 2]."""
        return ops.cast(self.dense(x), "float32")

    def compute_output_spec(self, x):
        return keras.KerasTensor((*x.shape[:-1], 2), dtype="float32")


@keras.saving.register_keras_serializable(package="bert_keras")
class ClassificationHead(SerializableLayer):
    """Classification head: a dense layer that gives scores, with or without a hidden layer.

    Args:
        num_classes: number of scores.
        hidden_size: width of the hidden layer; used with `hidden_activation` only.
        hidden_activation: a name of `ACTIVATIONS`; None for no hidden layer.
        dropout: share dropped from the input of each layer.
        initializer_range: standard deviation of the initial kernels.
        hidden_dropout: share dropped from the input of the hidden layer; None for `dropout`.
        hidden_bias: whether the hidden layer has a bias.
        hidden_norm: kind of normalisation after the hidden layer, "layer" or "rms"; None for none.
        norm_bias: whether that normalisation has a bias, if it is a layer normalisation.
        layer_norm_epsilon: epsilon of that normalisation.
    """

    def __init__(
        self,
        num_classes: int,
        hidden_size: int,
        hidden_activation: str | None = None,
        dropout: float = 0.1,
        initializer_range: float = 0.02,
        hidden_dropout: float | None = None,
        hidden_bias: bool = True,
        hidden_norm: str | None = None,
        norm_bias: bool = True,
        layer_norm_epsilon: float = 1e-12,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_classes = num_classes
        kernel = truncated_normal(initializer_range)
        self.dense = self.layer_norm = None
        if hidden_activation is not None:
            rate = dropout if hidden_dropout is None else hidden_dropout
            self.hidden_dropout = seeded_dropout(rate, "hidden_dropout", self.dtype_policy)
            self.dense = Dense(
                hidden_size,
                activation=ACTIVATIONS[hidden_activation],
                use_bias=hidden_bias,
                kernel_initializer=kernel,
                dtype=self.dtype_policy,
                trainable=self.trainable,
                name="dense",
            )
        if self.dense is not None and hidden_norm is not None:
            self.layer_norm = normalization(
                hidden_norm,
                epsilon=layer_norm_epsilon,
                bias=norm_bias,
                dtype=self.dtype_policy,
                trainable=self.trainable,
                name="layer_norm",
            )
        self.dropout = seeded_dropout(dropout, "dropout", self.dtype_policy)
        self.output_projection = Dense(
            num_classes,
            kernel_initializer=kernel,
            dtype=self.dtype_policy,
            trainable=self.trainable,
            name="output",
        )

    def build(self, x_shape):
        if self.dense is not None:
            build_once(self.dense, x_shape)
            x_shape = (*x_shape[:-1], self.dense.units)
        if self.layer_norm is not None:
            build_once(self.layer_norm, x_shape)
        build_once(self.output_projection, x_shape)
        self.built = True

    def call(self, x, training=None):
        """[..., hidden_size] -> float32 logits [..., num_classes]."""
        if self.dense is not None:
            x = self.hidden_dropout(x, training=training)
            x = self.dense(x)
        if self.layer_norm is not None:
            x = self.layer_norm(x, training=training)
        x = self.dropout(x, training=training)
        return ops.cast(self.output_projection(x), "float32")

    def compute_output_spec(self, x, training=None):
        return keras.KerasTensor((*x.shape[:-1], self.num_classes), dtype="float32")


# === Loss in chunks ===


@keras.saving.register_keras_serializable(package="bert_keras")
class MaskedVectors(SerializableLayer):
    """Vectors of a `MaskedLMHead` before they are multiplied with the token table."""

    def __init__(self, head: MaskedLMHead, **kwargs):
        kwargs.setdefault("dtype", head.dtype_policy)
        super().__init__(**kwargs)
        self.head = head
        freeze_with(self, head)

    def build(self, x_shape):
        build_once(self.head, x_shape)
        self.built = True

    def call(self, x):
        """[batch, predictions, hidden_size] -> [batch, predictions, width of the table]."""
        return self.head.vectors(x)

    def compute_output_spec(self, x):
        shape = (*x.shape[:-1], self.head.table.output_dim)
        return keras.KerasTensor(shape, dtype=self.compute_dtype)


def token_losses_in_chunks(
    labels: Any, x: Any, table: Any, bias: Any, *, chunks: int
) -> tuple[Any, Any]:
    """Return negative log-likelihoods of labels, and whether the labels had the highest logits.

    The result is `kernels.token_losses` of `kernels.tied_logits`, but the logits are computed for
    one part of the table after the other. The gradient computes the logits of each part again, so
    that they are never all in memory.

    Args:
        labels: integers [...], in [0, classes).
        x: [..., width].
        table: [classes, width].
        bias: [classes].
        chunks: number of parts.

    Returns:
        losses: float32 [...], in nats.
        hits: bool [...].
    """
    x, table, bias = (ops.cast(value, "float32") for value in (x, table, bias))
    size = -(-table.shape[0] // chunks)
    starts = list(range(0, table.shape[0], size))
    tables, biases = [table], [bias]
    if len(starts) > 1:
        tables, biases = (ops.split(value, starts[1:]) for value in (table, bias))

    def statistics_from(start: int) -> Any:
        """Return a function for the part of the table whose first class is `start`."""

        def statistics(x: Any, rows: Any, shifts: Any) -> Any:
            """Return the log of the sum, the label's logit or 0, and the highest: [..., 3]."""
            logits = kernels.tied_logits(x, rows, shifts)
            is_label = ops.arange(start, start + rows.shape[0]) == labels[..., None]
            of_label = ops.sum(ops.where(is_label, logits, 0.0), axis=-1)
            highest = ops.stop_gradient(ops.max(logits, axis=-1))
            return ops.stack([ops.logsumexp(logits, axis=-1), of_label, highest], axis=-1)

        return kernels.recomputed(statistics)

    parts = ops.stack(
        [
            statistics_from(start)(x, rows, shifts)
            for start, rows, shifts in zip(starts, tables, biases, strict=True)
        ]
    )
    of_label = ops.sum(parts[..., 1], axis=0)
    losses = ops.logsumexp(parts[..., 0], axis=0) - of_label
    return losses, of_label >= ops.max(parts[..., 2], axis=0)
