"""Multi-head self-attention (Vaswani et al., 2017)."""

from __future__ import annotations

import keras
from keras import ops

from bert_keras import kernels
from bert_keras.kernels import query_blocks
from bert_keras.kernels.mask_values import MASKED, lowest
from bert_keras.layers.core import (
    Dense,
    LayerNorm,
    freeze_with,
    seeded_dropout,
    truncated_normal,
)
from bert_keras.layers.local_attention import (
    band_mask,
    has_bands,
    key_bands,
    out_of_bands,
    query_bands,
    window_mask,
)
from bert_keras.layers.normalization import after_norm
from bert_keras.layers.positions import biases_at, distance_rows, distances, rotated, rows_at
from bert_keras.layers.relative_positions import RELATIVE
from bert_keras.layers.serialization import SerializableLayer, build_once


@keras.saving.register_keras_serializable(package="bert_keras")
class SelfAttention(SerializableLayer):
    """Multi-head self-attention: every token attends to every token that is not padding.

    Axes: B batch, T query token, S key token, N head, K size of a head, H hidden, usually N * K.

    The kernels of the four projections are matrices, as in every checkpoint. At inference, and in
    training with `dropout` 0, PyTorch and JAX do not keep all probabilities in memory, except where
    PyTorch learns distances on a CPU. TensorFlow keeps those of rows of up to 2,048 tokens, and so
    does float16 on JAX with a CPU. What distances add to the scores is in memory for all pairs of
    tokens. `BertEncoder.describe_kernels` names the kernel in use.

    Args:
        num_heads: N.
        hidden_size: H, of the input and of the output.
        dropout: share of the attention probabilities that is dropped in training.
        initializer_range: standard deviation of the initial kernels.
        relative_positions: a name of `RELATIVE`; None if positions are in the input.
        max_positions: the longest sequence, for relative positions.
        head_size: K; None for hidden_size / num_heads.
        positions: kind of the argument `positions` of `call`: "rotary" or "rotary_interleaved" for
            angles of `RotaryAngles`; "alibi" or "buckets" for biases of the scores;
            "disentangled" or "disentangled_shared" for vectors of `DistanceVectors`; "none".
        position_buckets: buckets of "disentangled" for each sign of the distance; 0 for none.
        max_distance: distance of the last bucket or vector of "disentangled".
        num_key_value_heads: heads of keys and values, each for as many of the N heads; None for N.
        use_bias: whether the projections have biases.
        key_bias: whether the projections to keys have them, if `use_bias` is true.
        rotary_values: whether rotary positions turn the values too.
    """

    def __init__(
        self,
        num_heads: int,
        hidden_size: int,
        dropout: float = 0.0,
        initializer_range: float = 0.02,
        relative_positions: str | None = None,
        max_positions: int = 0,
        head_size: int | None = None,
        positions: str = "none",
        position_buckets: int = 0,
        max_distance: int = 0,
        num_key_value_heads: int | None = None,
        use_bias: bool = True,
        key_bias: bool = True,
        rotary_values: bool = False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.head_size = head_size or hidden_size // num_heads
        self.key_value_heads = num_key_value_heads or num_heads
        self.positions = positions
        self.position_buckets, self.max_distance = position_buckets, max_distance
        self.rotary_values = rotary_values
        width = num_heads * self.head_size  # of all heads
        narrow = self.key_value_heads * self.head_size

        def dense(name: str, units: int) -> Dense:
            """Make a projection."""
            return Dense(
                units,
                use_bias=use_bias and (key_bias or name not in ("key", "position_key")),
                kernel_initializer=truncated_normal(initializer_range),
                dtype=self.dtype_policy,
                trainable=self.trainable,
                name=name,
            )

        self.query, self.key = dense("query", width), dense("key", narrow)
        self.value, self.output_projection = dense("value", narrow), dense("output", hidden_size)
        self.position_query = self.position_key = None
        if positions == "disentangled":
            self.position_query = dense("position_query", width)
            self.position_key = dense("position_key", width)
        elif positions == "disentangled_shared":
            self.position_query, self.position_key = self.query, self.key
        self.distance = None
        if relative_positions is not None:
            self.distance = RELATIVE[relative_positions](
                max_positions,
                self.head_size,
                initializer_range,
                dtype=self.dtype_policy,
                trainable=self.trainable,
                name="distance",
            )
        self.dropout = seeded_dropout(dropout, "dropout", self.dtype_policy)

    def build(self, x_shape, padding_mask_shape=None):
        hidden_shape = (None, None, x_shape[-1])
        for projection in (self.query, self.key, self.value):
            build_once(projection, hidden_shape)
        for projection in filter(None, (self.position_query, self.position_key)):
            build_once(projection, hidden_shape)
        build_once(self.output_projection, (None, None, self.num_heads * self.head_size))
        if self.distance is not None:
            build_once(self.distance, None)
        self.built = True

    def call(
        self,
        x,
        padding_mask=None,
        training=None,
        queries=None,
        seed=None,
        positions=None,
        query_places=None,
        window=None,
        example_ids=None,
        norm=None,
    ):
        """Compute self-attention.

        Args:
            x: [batch, length, hidden_size].
            padding_mask: [batch, length], 1 for real tokens; or [batch, query, key], 1 where a
                token attends to a key. None if there is no padding.
            training: whether dropout is active.
            queries: [batch, queries, hidden_size], the tokens that attend to those of `x`; None
                for `x`. With relative positions they must be the first tokens of `x`.
            seed: seed of the dropout, a value of its `next_seed`; None to draw one.
            positions: what the kind of positions of this layer reads; see the constructor.
            query_places: int32 [batch, queries], places of `queries` in `x`, for such positions and
                for a window.
            window: number of tokens to each side that a token attends to; None for all. The mask is
                [batch, length] then.
            example_ids: int32 [batch, length], the example of each token in packed rows, in place
                of the mask of a window.
            norm: normalisation of `x` and of `queries`; None for none.

        Returns:
            [batch, queries, hidden_size].
        """
        if queries is None:
            query, key, value = after_norm(norm, (self.query, self.key, self.value), x, training)
        else:
            (query,) = after_norm(norm, (self.query,), queries, training)
            key, value = after_norm(norm, (self.key, self.value), x, training)
        query_BTNK, key_BSNK = self._heads(query, key, positions, query_places)
        value_BSNK = self._split(value, self.key_value_heads)
        if self.rotary_values:
            value_BSNK = self._turned(value_BSNK, positions)
        value_BSNK = self._for_all_heads(value_BSNK)
        if training and self.dropout.rate and seed is None:
            seed = self.dropout.next_seed()
        length, in_bands = x.shape[1], False
        if window is not None:
            ids, is_packed = (padding_mask, False) if example_ids is None else (example_ids, True)
            in_bands = queries is None and self._adds_nothing and has_bands(length, window)
            if in_bands:
                padding_mask = band_mask(ids, window, is_packed=is_packed)
            else:
                padding_mask = window_mask(
                    ids, window, is_packed=is_packed, query_places=query_places
                )
        # [B, 1, T, S]. T is 1 for a padding mask, which is the same for all queries.
        mask = None if padding_mask is None else kernels.over_heads(padding_mask)

        def of_bands(query_BTNK, key_BSNK, value_BSNK):
            """Return the attention within the bands of all rows, BTNK."""
            assert window is not None
            key_BSNK, value_BSNK = (key_bands(each, window) for each in (key_BSNK, value_BSNK))
            query_BTNK = query_bands(query_BTNK, window)
            context = self._context(query_BTNK, key_BSNK, value_BSNK, None, mask, training, seed)
            return out_of_bands(context, length)

        heads = query_BTNK, key_BSNK, value_BSNK
        if not in_bands:
            bias_BNTS = self._bias(query_BTNK, key_BSNK, positions, query_places)
            context_BTNK = self._context(*heads, bias_BNTS, mask, training, seed)
        elif training:  # bands have each key and value three times
            context_BTNK = kernels.recomputed(of_bands, part_of_block=True)(*heads)
        else:
            context_BTNK = of_bands(*heads)
        return self.output_projection(kernels.merge_heads(context_BTNK))

    def _context(self, query_BTNK, key_BSNK, value_BSNK, bias_BNTS, mask, training, seed):
        """Return the means of the values, weighted by the attention probabilities: BTNK."""
        if training and self.dropout.rate:
            probabilities_BNTS = self._probabilities(query_BTNK, key_BSNK, bias_BNTS, mask)
            probabilities_BNTS = self.dropout(probabilities_BNTS, training=training, seed=seed)
            return _weighted(probabilities_BNTS, value_BSNK)
        if not query_blocks.has_fused_attention(self.compute_dtype):
            return query_blocks.attention(
                self._attended, query_BTNK, key_BSNK, value_BSNK, bias_BNTS, mask
            )
        if bias_BNTS is not None:  # the kernels take a mask or a bias, and not both
            bias_BNTS = _masked(bias_BNTS, mask, lowest(self.compute_dtype))
            mask = None
        return kernels.fused_attention(query_BTNK, key_BSNK, value_BSNK, bias=bias_BNTS, mask=mask)

    def probabilities(self, x, padding_mask=None, positions=None, window=None):
        """Return attention probabilities without dropout: [batch, num_heads, length, length].

        See `call` for the arguments.
        """
        if window is not None:
            padding_mask = window_mask(padding_mask, window, is_packed=False)
        query_BTNK, key_BSNK = self._heads(self.query(x), self.key(x), positions, None)
        mask = None if padding_mask is None else kernels.over_heads(padding_mask)
        bias_BNTS = self._bias(query_BTNK, key_BSNK, positions, None)
        return self._probabilities(query_BTNK, key_BSNK, bias_BNTS, mask)

    def compute_output_shape(self, x_shape, padding_mask_shape=None):
        return x_shape

    @property
    def _scale(self) -> float:
        """Factor of the scores, one over the square root of K (Vaswani et al., 2017, §3.2.1)."""
        return self.head_size**-0.5

    @property
    def _adds_nothing(self) -> bool:
        """True where positions add nothing to the scores."""
        return self.distance is None and (self._is_rotary or self.positions == "none")

    @property
    def _is_rotary(self) -> bool:
        """True where positions turn queries and keys."""
        return self.positions in ("rotary", "rotary_interleaved")

    @property
    def _is_disentangled(self) -> bool:
        """True where the scores are the sum of three products (He et al., 2021, equation 4)."""
        return self.positions in ("disentangled", "disentangled_shared")

    def _split(self, x_BTH, num_heads: int):
        """Return the vectors of the heads, BTNK, from those of all heads, [B, T, N * K]."""
        return kernels.split_heads(x_BTH, num_heads, self.head_size)

    def _turned(self, x_BTNK, angles):
        """Return the vectors of all heads, turned by angles of `RotaryAngles`."""
        return rotated(x_BTNK, angles, interleaved=self.positions == "rotary_interleaved")

    def _for_all_heads(self, x_BSNK):
        """Return keys or values with N heads, where several heads of queries share one."""
        shared = self.num_heads // self.key_value_heads
        return x_BSNK if shared == 1 else ops.repeat(x_BSNK, shared, axis=2)

    def _heads(self, query, key, positions, query_places):
        """Return the queries BTNK and keys BSNK of all heads, turned by rotary positions."""
        query_BTNK = self._split(query, self.num_heads)
        key_BSNK = self._split(key, self.key_value_heads)
        if self._is_disentangled:
            query_BTNK = query_BTNK * 3**-0.5  # for a sum of three products
        if self._is_rotary:
            of_queries = positions if query_places is None else rows_at(positions, query_places)
            query_BTNK = self._turned(query_BTNK, of_queries)
            key_BSNK = self._turned(key_BSNK, positions)
        return query_BTNK, self._for_all_heads(key_BSNK)

    def _bias(self, query_BTNK, key_BSNK, positions, query_places):
        """Return what positions add to the scaled scores, BNTS; None where that is nothing."""
        if self.distance is not None:
            return self._scale * self.distance(query_BTNK, key_BSNK)
        if self._is_disentangled:
            return self._scale * self._disentangled(query_BTNK, key_BSNK, positions, query_places)
        if self.positions in ("alibi", "buckets"):
            return positions if query_places is None else biases_at(positions, query_places)
        return None

    def _disentangled(self, query_BTNK, key_BSNK, vectors, query_places):
        """Return the products of queries and keys with the vectors of their distances: BNTS.

        He et al., 2021, equation 4: content to position, and position to content.
        """
        assert self.position_key is not None
        assert self.position_query is not None
        layers = self.position_key, self.position_query
        position_keys, position_queries = (
            ops.squeeze(self._split(layer(vectors[None]), self.num_heads), 0) for layer in layers
        )
        position_queries = position_queries * 3**-0.5
        by_query = ops.einsum("BTNK,RNK->BNTR", query_BTNK, position_keys)
        by_key = ops.einsum("BSNK,RNK->BNRS", key_BSNK, position_queries)
        distances_TS = distances(key_BSNK)[None]
        if query_places is not None:
            distances_TS = rows_at(distances_TS, query_places)
        rows_BNTS = distance_rows(
            distances_TS,
            span=self.position_buckets or self.max_distance,
            max_distance=self.max_distance,
            buckets=self.position_buckets,
        )[:, None]
        return kernels.gathered(by_query, rows_BNTS, axis=3) + kernels.gathered(
            by_key, rows_BNTS, axis=2
        )

    def _attended(self, query_BTNK, key_BSNK, value_BSNK, bias_BNTS, mask):
        """Return the attention without a fused kernel and without dropout, BTNK."""
        return _weighted(self._probabilities(query_BTNK, key_BSNK, bias_BNTS, mask), value_BSNK)

    def _probabilities(self, query_BTNK, key_BSNK, bias_BNTS, mask):
        """Return the softmax of the scores over the keys, BNTS; masked keys have 0."""
        scores_BNTS = ops.einsum("BTNK,BSNK->BNTS", query_BTNK * self._scale, key_BSNK)
        if bias_BNTS is not None:
            scores_BNTS = scores_BNTS + bias_BNTS
        # float16 has neither the range of the mask nor the precision of the sum.
        scores_BNTS = ops.cast(scores_BNTS, "float32")
        scores_BNTS = _masked(scores_BNTS, mask, MASKED)
        return ops.cast(ops.softmax(scores_BNTS), self.compute_dtype)


@keras.saving.register_keras_serializable(package="bert_keras")
class AttentionProbabilities(SerializableLayer):
    """Attention probabilities of a `SelfAttention`, computed with its weights.

    This is a separate layer because a Keras layer must return the same structure at every call.
    The attention itself keeps its fused kernel, which has no probabilities.

    Args:
        attention: the attention.
        layer_norm: the normalisation before the attention, in a pre-norm block; None in a post-norm
            block.

    Output: [batch, num_heads, queries, keys].
    """

    def __init__(self, attention: SelfAttention, layer_norm: LayerNorm | None = None, **kwargs):
        kwargs.setdefault("dtype", attention.dtype_policy)
        super().__init__(**kwargs)
        self.attention, self.layer_norm = attention, layer_norm
        freeze_with(self, *filter(None, (attention, layer_norm)))

    def build(self, x_shape, padding_mask_shape=None):
        for layer in filter(None, (self.layer_norm, self.attention)):
            build_once(layer, x_shape)
        self.built = True

    def call(self, x, padding_mask=None, positions=None, window=None):
        """[batch, length, hidden_size] -> [batch, num_heads, length, length].

        See `SelfAttention.call` for the mask, the positions and the window.
        """
        if self.layer_norm is not None:
            x = self.layer_norm(x)
        return self.attention.probabilities(x, padding_mask, positions, window)

    def compute_output_spec(self, x, padding_mask=None, positions=None, window=None):
        batch, length, _ = x.shape
        shape = (batch, self.attention.num_heads, length, length)
        return keras.KerasTensor(shape, dtype=self.compute_dtype)


def _weighted(probabilities_BNTS, value_BSNK):
    """Return the means of the values, weighted by the probabilities: BTNK."""
    return ops.einsum("BNTS,BSNK->BTNK", probabilities_BNTS, value_BSNK)


def _masked(scores_BNTS, mask, low: float):
    """Add `low` to the scores of masked keys. The mask is B1TS or B11S."""
    if mask is None:
        return scores_BNTS
    # A sum, because the gradient of `where` needs one more pass over the scores.
    return scores_BNTS + ops.cast(ops.where(mask, 0.0, low), scores_BNTS.dtype)
