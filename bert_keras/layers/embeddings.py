"""Token, segment and position embeddings (Devlin et al., 2019, Figure 2)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import keras
from keras import ops

from bert_keras.kernels import onnx_friendly
from bert_keras.layers.core import (
    Dense,
    Embedding,
    ReversibleEmbedding,
    seeded_dropout,
    truncated_normal,
)
from bert_keras.layers.normalization import normalization
from bert_keras.layers.serialization import SerializableLayer, build_once

_is_training: ContextVar[bool] = ContextVar("is_training", default=False)
_token_vectors: ContextVar[Any] = ContextVar("token_vectors", default=None)


@contextmanager
def in_training(is_training: bool) -> Iterator[None]:
    """Tell embeddings within this context that a model around them is trained.

    An encoder within a model that is trained may itself run as at inference.
    """
    token = _is_training.set(is_training or _is_training.get())
    try:
        yield
    finally:
        _is_training.reset(token)


@contextmanager
def token_vectors_from(vectors: Any) -> Iterator[None]:
    """Replace the rows that embeddings within this context read from their token table.

    A model that is called eagerly in this context is a function of the vectors, so that its outputs
    can be differentiated with respect to them. A compiled function ignores the context.

    Args:
        vectors: floats [batch, length, embedding_size], in place of the rows of `token_ids`.
    """
    token = _token_vectors.set(vectors)
    try:
        yield
    finally:
        _token_vectors.reset(token)


@keras.saving.register_keras_serializable(package="bert_keras")
class BertEmbeddings(SerializableLayer):
    """Token, segment and position embeddings: added, normalised, and dropped out.

    A projection follows if the tables are not as wide as the encoder.

    Args:
        vocab_size: rows of the token table.
        max_positions: length of the longest sequence.
        num_segments: rows of the segment table; 0 for no segment table.
        embedding_size: width of the tables.
        hidden_size: width of the output. If it is not `embedding_size`, there is a projection.
        position_offset: rows of the position table before the row of the first position.
        position_embedding: "absolute" for a learned table, "sinusoidal" for a fixed one. Any other
            value means no table, because the attention has the positions.
        layer_norm_epsilon: added to the variance.
        dropout: share dropped from the normalised sum.
        initializer_range: standard deviation of the initial tables.
        norm: kind of normalisation, "layer" or "rms"; None for none.
        norm_bias: whether a layer normalisation has a bias.
        num_tasks: rows of a task table, whose first row is added to every token; 0 for none.
    """

    def __init__(
        self,
        vocab_size: int,
        max_positions: int,
        num_segments: int,
        embedding_size: int,
        hidden_size: int,
        position_offset: int = 0,
        position_embedding: str = "absolute",
        layer_norm_epsilon: float = 1e-12,
        dropout: float = 0.1,
        initializer_range: float = 0.02,
        norm: str | None = "layer",
        norm_bias: bool = True,
        num_tasks: int = 0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.max_positions = max_positions
        # Relative distances within the attention have a table of so many positions.
        self.limits_rows = position_embedding in ("relative_key", "relative_key_query")
        self.embedding_size = embedding_size
        self.hidden_size = hidden_size
        self.position_offset = position_offset
        # The masked-LM head also multiplies with this table, in float32 under every policy.
        self.token = ReversibleEmbedding(
            vocab_size,
            embedding_size,
            embeddings_initializer=truncated_normal(initializer_range),
            reverse_dtype="float32",
            dtype=self.dtype_policy,
            trainable=self.trainable,
            name="token",
        )
        self.position = None
        rows = max_positions + position_offset
        if position_embedding == "absolute":
            self.position = self._table(rows, truncated_normal(initializer_range), "position")
        elif position_embedding == "sinusoidal":
            self.position = self._table(rows, sinusoids, "position", FixedTable)
        self.segment = None
        if num_segments:
            self.segment = self._table(num_segments, truncated_normal(initializer_range), "segment")
        self.task = None
        if num_tasks:
            self.task = self._table(num_tasks, truncated_normal(initializer_range), "task")
        self.layer_norm = None
        if norm is not None:
            self.layer_norm = normalization(
                norm,
                epsilon=layer_norm_epsilon,
                bias=norm_bias,
                dtype=self.dtype_policy,
                trainable=self.trainable,
                name="layer_norm",
            )
        self.dropout = seeded_dropout(dropout, "dropout", self.dtype_policy)
        self.projection = None
        if embedding_size != hidden_size:
            self.projection = Dense(
                hidden_size,
                kernel_initializer=truncated_normal(initializer_range),
                dtype=self.dtype_policy,
                trainable=self.trainable,
                name="projection",
            )

    def build(self, token_ids_shape, segment_ids_shape=None, position_ids_shape=None):
        for table in (self.token, self.position, self.segment, self.task):
            if table is not None:
                build_once(table, token_ids_shape)
        if self.layer_norm is not None:
            build_once(self.layer_norm, (*token_ids_shape, self.embedding_size))
        if self.projection is not None:
            build_once(self.projection, (*token_ids_shape, self.embedding_size))
        self.built = True

    def call(self, token_ids, segment_ids=None, position_ids=None, training=None):
        """Return `embed` of the inputs, projected: [batch, length, hidden_size]."""
        x = self.embed(token_ids, segment_ids, position_ids, training=training)
        return x if self.projection is None else self.projection(x)

    def embed(self, token_ids, segment_ids=None, position_ids=None, training=None):
        """Return the normalised sum of the table rows.

        Args:
            token_ids: [batch, length], in [0, vocab_size).
            segment_ids: [batch, length], in [0, num_segments); None for all zeros.
            position_ids: [batch, length], in [0, max_positions); None for 0, 1, 2 and so on.
            training: whether dropout is active.

        Returns:
            [batch, length, embedding_size].

        Raises:
            ValueError: the sequence is longer than `max_positions`, and `position_ids` are not
                given or the attention has a table of so many distances.
        """
        has_positions = position_ids is not None and not self.limits_rows
        length = token_ids.shape[1]
        if length is not None and length > self.max_positions and not has_positions:
            raise ValueError(
                f"The model has {self.max_positions} positions, but the rows of token_ids have "
                f"{length} tokens. Shorten the texts, as with max_length={self.max_positions}."
            )
        vectors = _token_vectors.get()
        if vectors is None:
            x = self._rows(self.token, token_ids, training)
        else:
            x = ops.cast(vectors, self.compute_dtype)
        if self.position is not None:
            x = x + self._positions(self.position, token_ids, position_ids, training)
        if self.segment is not None:
            if segment_ids is None:
                segment_ids = ops.zeros_like(token_ids)
            x = x + self._rows(self.segment, segment_ids, training)
        if self.task is not None:
            x = x + self.task(ops.zeros((1, 1), dtype="int32"))
        if self.layer_norm is not None:
            x = self.layer_norm(x, training=training)
        return self.dropout(x, training=training)

    def compute_output_spec(self, token_ids, segment_ids=None, position_ids=None, training=None):
        return keras.KerasTensor((*token_ids.shape, self.hidden_size), dtype=self.compute_dtype)

    def _rows(self, table, ids, training):
        """Return rows of a table: [batch, length] -> [batch, length, width].

        JAX returns NaN for a row that does not exist. At inference that shows the mistake, but one
        such training step would make every weight NaN. In training JAX therefore reads the last
        row, like a compiled program of TensorFlow. `fit` of our own models refuses such ids.
        """
        if keras.backend.backend() == "jax" and (training or _is_training.get()):
            ids = ops.clip(ids, 0, table.input_dim - 1)
        return table(ids)

    def _positions(self, table, token_ids, position_ids, training):
        """Return rows of the position table: [batch, length, width], or [1, length, width]."""
        if position_ids is not None:
            return self._rows(table, position_ids + self.position_offset, training)
        if onnx_friendly.is_active():
            return table(onnx_friendly.positions(token_ids) + self.position_offset)
        positions = ops.arange(ops.shape(token_ids)[1], dtype="int32") + self.position_offset
        return table(positions)[None]

    def _table(
        self, rows: int, initializer: Any, name: str, table_class: type[Embedding] = Embedding
    ) -> Embedding:
        """Make an embedding table, [rows, embedding_size], with the policy of this layer."""
        return table_class(
            rows,
            self.embedding_size,
            embeddings_initializer=initializer,
            dtype=self.dtype_policy,
            trainable=self.trainable,
            name=name,
        )


@keras.saving.register_keras_serializable(package="bert_keras")
class FixedTable(Embedding):
    """Embedding table that never trains, even if the layer around it is set to `trainable`."""

    @property
    def trainable(self) -> bool:
        """False; the setter does nothing, because Keras sets the value of the layer around it."""
        return False

    @trainable.setter
    def trainable(self, value: bool) -> None:
        del value


@keras.saving.register_keras_serializable(package="bert_keras")
def sinusoids(shape: tuple[int, int], dtype: str | None = None):
    """Return a table of sines and cosines in turn, with periods from 2 pi to 20,000 pi.

    Vaswani et al., 2017, §3.5, in DistilBERT's order.

    Args:
        shape: positions and width.
        dtype: dtype of the table; None for float32.
    """
    rows, width = shape
    rates = [10_000 ** (-2 * (column // 2) / width) for column in range(width)]
    waves = [math.cos if column % 2 else math.sin for column in range(width)]
    pairs = list(zip(waves, rates, strict=True))
    table = [[wave(row * rate) for wave, rate in pairs] for row in range(rows)]
    return ops.convert_to_tensor(table, dtype=dtype or "float32")
