"""Positions within the attention: rotary angles, biases of distances, and windows.

An encoder computes these once for all of its blocks. Axes: B batch, or 1 where all rows are equal;
T query token; S key token; L length; N head; K size of a head.
"""

from __future__ import annotations

import math

import keras
import numpy as np
from keras import ops

from bert_keras.layers.core import Embedding, seeded_dropout, truncated_normal
from bert_keras.layers.normalization import normalization
from bert_keras.layers.packing import tokens_at
from bert_keras.layers.serialization import SerializableLayer, build_once

# Limit of a table of distances, longer than any text.
_MOST_DISTANCES = 2**20

# === Rotary positions ===


@keras.saving.register_keras_serializable(package="bert_keras")
class RotaryAngles(SerializableLayer):
    """Cosines and sines of the angles by which queries and keys are turned (Su et al., 2021).

    They are computed in float32, because half precision has few whole numbers.

    Args:
        head_size: K, an even number.
        base: number whose powers are the periods, divided by 2 pi.
        scale: factor of NTK scaling, 1 for none. It multiplies the base, and its power
            2 / `head_size` divides all rates (https://kexue.fm/archives/9706, equation 6).
    """

    def __init__(self, head_size: int, base: float = 10_000.0, scale: float = 1.0, **kwargs):
        super().__init__(**kwargs)
        self.head_size = head_size
        exponents = np.arange(0, head_size, 2, dtype="float32") / np.float32(head_size)
        # In float32, as the published encoders compute them.
        self.rates = np.float32(1.0) / np.float32(base * scale) ** exponents
        self.rates /= np.float32(scale ** (2 / head_size))

    def call(self, token_ids, position_ids=None):
        """Return the angles of all positions.

        Args:
            token_ids: [batch, length], for the length alone.
            position_ids: [batch, length]; None for 0, 1, 2 and so on.

        Returns:
            [B, L, K]: the cosines of K / 2 angles, then their sines.
        """
        if position_ids is None:
            position_ids = ops.arange(ops.shape(token_ids)[1], dtype="int32")[None]
        angles = ops.cast(position_ids, "float32")[..., None] * ops.convert_to_tensor(self.rates)
        both = ops.concatenate([ops.cos(angles), ops.sin(angles)], axis=-1)
        return ops.cast(both, self.compute_dtype)

    def compute_output_spec(self, token_ids, position_ids=None):
        batch, length = token_ids.shape
        shape = (1 if position_ids is None else batch, length, self.head_size)
        return keras.KerasTensor(shape, dtype=self.compute_dtype)


def rotated(x_BTNK, angles_BTK, *, interleaved: bool):
    """Turn the vectors of heads by the angles of their positions.

    Args:
        x_BTNK: vectors of heads.
        angles_BTK: an output of `RotaryAngles`.
        interleaved: True to turn each number with the next one, as the paper does; False to turn it
            with the number half a head away.
    """
    half = x_BTNK.shape[-1] // 2
    # Two steps, because LiteRT has no slice that also adds an axis.
    parts = angles_BTK[..., :half], angles_BTK[..., half:]
    cosine, sine = (ops.expand_dims(part, 2) for part in parts)
    # The gradient of an index is slow on TensorFlow; see decision 181.
    if interleaved:
        pairs = ops.reshape(x_BTNK, (*ops.shape(x_BTNK)[:-1], half, 2))
        first, second = ops.unstack(pairs, 2, axis=-1)
    else:
        first, second = ops.split(x_BTNK, 2, axis=-1)
    turned = [first * cosine - second * sine, second * cosine + first * sine]
    if interleaved:
        return ops.reshape(ops.stack(turned, axis=-1), ops.shape(x_BTNK))
    return ops.concatenate(turned, axis=-1)


# === Biases of distances ===


class _DistanceBias(SerializableLayer):
    """Base of layers that give each head a number for each pair of tokens: [1, N, L, L]."""

    num_heads: int

    def compute_output_spec(self, token_ids):
        length = token_ids.shape[1]
        shape = (1, self.num_heads, length, length)
        return keras.KerasTensor(shape, dtype=self.compute_dtype)


@keras.saving.register_keras_serializable(package="bert_keras")
class LinearBias(_DistanceBias):
    """Negative distance of two tokens, times a slope for each head (ALiBi; Press et al., 2022).

    It is symmetric, because an encoder reads in both directions.

    Args:
        num_heads: N.
    """

    def __init__(self, num_heads: int, **kwargs):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.slopes = np.array(alibi_slopes(num_heads), "float32")

    def call(self, token_ids):
        """Return the biases for rows of the length of `token_ids`: [1, N, L, L]."""
        distances_LL = ops.cast(ops.absolute(distances(token_ids)), "float32")
        slopes = ops.convert_to_tensor(self.slopes[None, :, None, None])
        return ops.cast(-slopes * distances_LL, self.compute_dtype)


def alibi_slopes(num_heads: int) -> list[float]:
    """Return the slopes of the heads, which fall geometrically.

    For a number of heads that is no power of two, the slopes of the next smaller power come first,
    then every second one of the next larger power, as in the authors' code.
    """
    power = 2 ** math.floor(math.log2(num_heads))
    slopes = [2.0 ** (-8.0 * (head + 1) / power) for head in range(power)]
    more = [2.0 ** (-4.0 * (head + 1) / power) for head in range(0, 2 * power, 2)]
    return slopes + more[: num_heads - power]


@keras.saving.register_keras_serializable(package="bert_keras")
class BucketBias(_DistanceBias):
    """Learned number for each head and range of distances (Raffel et al., 2020, §2.1).

    Half of the buckets are for keys after the query. Short distances have buckets of their own,
    longer ones share buckets whose width grows with the logarithm of the distance.

    Args:
        num_heads: N.
        num_buckets: number of buckets.
        max_distance: distance from which on all have the last bucket.
        initializer_range: standard deviation of the initial numbers.
    """

    def __init__(
        self,
        num_heads: int,
        num_buckets: int,
        max_distance: int = 128,
        initializer_range: float = 0.02,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_heads, self.num_buckets, self.max_distance = num_heads, num_buckets, max_distance
        self.table = Embedding(
            num_buckets,
            num_heads,
            embeddings_initializer=truncated_normal(initializer_range),
            dtype=self.dtype_policy,
            trainable=self.trainable,
            name="table",
        )

    def build(self, token_ids_shape):
        build_once(self.table, None)
        self.built = True

    def call(self, token_ids):
        """Return the biases for rows of the length of `token_ids`: [1, N, L, L]."""
        buckets_LL = self._buckets(distances(token_ids))
        return ops.transpose(self.table(buckets_LL), (2, 0, 1))[None]

    def _buckets(self, distances_LL):
        """Return the bucket of each distance of a query from a key."""
        buckets = self.num_buckets // 2
        exact = buckets // 2
        away = ops.absolute(distances_LL)
        ratio = ops.cast(ops.maximum(away, 1), "float32") / exact
        steps = ops.log(ratio) / math.log(self.max_distance / exact) * (buckets - exact)
        far = ops.minimum(exact + ops.cast(steps, "int32"), buckets - 1)
        is_after = ops.cast(distances_LL < 0, "int32")
        return is_after * buckets + ops.where(away < exact, away, far)


def distances(token_ids):
    """Return the place of each query minus that of each key: int32 [L, L]."""
    places = ops.arange(ops.shape(token_ids)[1], dtype="int32")
    return places[:, None] - places[None, :]


# === Vectors of distances ===


@keras.saving.register_keras_serializable(package="bert_keras")
class DistanceVectors(SerializableLayer):
    """Learned vector of each distance or range of distances (DeBERTa; He et al., 2021, §3.1).

    Args:
        hidden_size: width of the vectors.
        span: number of vectors for each sign of the distance.
        is_normalised: whether the vectors are normalised.
        layer_norm_epsilon: added to the variance.
        dropout: share that is dropped from the vectors.
        initializer_range: standard deviation of the initial vectors.
    """

    def __init__(
        self,
        hidden_size: int,
        span: int,
        is_normalised: bool = False,
        layer_norm_epsilon: float = 1e-7,
        dropout: float = 0.1,
        initializer_range: float = 0.02,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.hidden_size, self.span = hidden_size, span
        self.table = Embedding(
            2 * span,
            hidden_size,
            embeddings_initializer=truncated_normal(initializer_range),
            dtype=self.dtype_policy,
            trainable=self.trainable,
            name="table",
        )
        self.layer_norm = None
        if is_normalised:
            self.layer_norm = normalization(
                "layer",
                epsilon=layer_norm_epsilon,
                bias=True,
                dtype=self.dtype_policy,
                trainable=self.trainable,
                name="layer_norm",
            )
        self.dropout = seeded_dropout(dropout, "dropout", self.dtype_policy)

    def build(self, token_ids_shape):
        build_once(self.table, None)
        if self.layer_norm is not None:
            build_once(self.layer_norm, (2 * self.span, self.hidden_size))
        self.built = True

    def call(self, token_ids, training=None):
        """Return the vectors, [2 * span, hidden_size]; `token_ids` are not read."""
        del token_ids
        vectors = self.table(ops.arange(2 * self.span, dtype="int32"))
        if self.layer_norm is not None:
            vectors = self.layer_norm(vectors, training=training)
        return self.dropout(vectors, training=training)

    def compute_output_spec(self, token_ids, training=None):
        return keras.KerasTensor((2 * self.span, self.hidden_size), dtype=self.compute_dtype)


def distance_rows(distances_TS, *, span: int, max_distance: int, buckets: int):
    """Return the row of `DistanceVectors` of each distance of a query from a key: int32.

    Args:
        distances_TS: int32, of any shape.
        span: number of vectors for each sign.
        max_distance: distance of the last bucket.
        buckets: number of buckets for each sign; 0 for a vector of every distance.
    """
    rows = distances_TS
    if buckets:
        # Of two axes, because PyTorch cannot export Keras's `take` of other tables.
        table = log_buckets(max_distance, buckets)[:, None]
        away = ops.minimum(ops.absolute(distances_TS), len(table) - 1)
        bucket_TS = ops.take(ops.convert_to_tensor(table), away, axis=0)[..., 0]
        rows = ops.sign(distances_TS) * bucket_TS
    return ops.clip(rows + span, 0, 2 * span - 1)


def log_buckets(max_distance: int, buckets: int) -> np.ndarray:
    """Return the bucket of each absolute distance, int32 [distances]; all others have the last.

    Half of the buckets hold one distance each; those of the others grow with the logarithm. They
    are computed as in the authors' code, in float32. A logarithm of a backend, with another
    rounding, would put the distance `max_distance - 1` into another bucket.

    Args:
        max_distance: one more than the largest distance of the last bucket but one.
        buckets: number of buckets for each sign, 4 or more.
    """
    middle = buckets // 2
    ratio = (max_distance - 1) / middle
    last = middle * ratio ** ((buckets - middle) / (middle - 1))
    away = np.arange(min(int(last), _MOST_DISTANCES) + 2, dtype="float32")
    logs = np.log(np.maximum(away, middle) / np.float32(middle)) / np.log(np.float32(ratio))
    far = np.ceil(logs * np.float32(middle - 1)) + middle
    return np.where(away <= middle, away, far).astype("int32")


# === Some queries ===


def rows_at(x, places):
    """Return the rows of a tensor at some places of each batch row: [batch, n, width].

    Args:
        x: [batch, length, width]; or [1, length, width], where all batch rows are equal.
        places: int32 [batch, n], in [0, length).
    """
    return ops.take(x[0], places, axis=0) if x.shape[0] == 1 else tokens_at(x, places)


def biases_at(bias_NTS, places):
    """Return the biases of the queries at some places of each row: [batch, N, n, S].

    Args:
        bias_NTS: biases of all queries, the same for all rows of the batch: [1, N, L, S].
        places: int32 [batch, n], in [0, L).
    """
    _, heads, queries, keys = ops.shape(bias_NTS)
    # Of two axes, because PyTorch cannot export Keras's `take` of other tables.
    table = ops.reshape(ops.transpose(bias_NTS[0], (1, 0, 2)), (queries, heads * keys))
    rows = ops.reshape(ops.take(table, places, axis=0), (*ops.shape(places), heads, keys))
    return ops.transpose(rows, (0, 2, 1, 3))
