"""Pooling of token vectors into a sentence vector, and a learned mixture of layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

import keras
from keras import ops

from bert_keras.kernels.mask_values import MASKED
from bert_keras.layers.packing import tokens_at
from bert_keras.layers.serialization import SerializableLayer

# The functions of `POOLINGS`, which describes their arguments.


def _mean(x_BTH, mask_BT1, start_B1):
    """Return the mean of the tokens that count."""
    del start_B1
    total_B1 = ops.maximum(ops.sum(mask_BT1, axis=1), 1.0)
    return ops.sum(x_BTH * mask_BT1, axis=1) / total_B1


def _mean_sqrt_len(x_BTH, mask_BT1, start_B1):
    """Return the sum of the tokens that count over the square root of their number."""
    del start_B1
    total_B1 = ops.maximum(ops.sum(mask_BT1, axis=1), 1.0)
    return ops.sum(x_BTH * mask_BT1, axis=1) / ops.sqrt(total_B1)


def _weighted_mean(x_BTH, mask_BT1, start_B1):
    """Return the mean with weight 1 for the first token, 2 for the second (Muennighoff, 2022)."""
    del start_B1
    weights_BT1 = mask_BT1 * (_places(x_BTH) + 1.0)
    return ops.sum(x_BTH * weights_BT1, axis=1) / ops.maximum(ops.sum(weights_BT1, axis=1), 1.0)


def _max(x_BTH, mask_BT1, start_B1):
    """Return the largest value of each dimension over the tokens that count."""
    del start_B1
    return ops.max(ops.where(mask_BT1 > 0, x_BTH, MASKED), axis=1)


def _cls(x_BTH, mask_BT1, start_B1):
    """Return the first token that counts: [CLS], or the first one after a prompt."""
    if start_B1 is None:
        return x_BTH[:, 0]
    has_more_B1 = ops.cast(ops.max(mask_BT1, axis=1), "int32")
    return tokens_at(x_BTH, start_B1 * has_more_B1)[:, 0]


def _last_token(x_BTH, mask_BT1, start_B1):
    """Return the last token that counts; zeros where none does."""
    del start_B1
    last_B1 = ops.cast(ops.max(mask_BT1 * _places(x_BTH), axis=1), "int32")
    return tokens_at(x_BTH, last_B1)[:, 0] * ops.max(mask_BT1, axis=1)


def _places(x_BTH):
    """Return the position of each token: float32 [length, 1]."""
    # LiteRT's converter does not take an index with a new axis here.
    return ops.expand_dims(ops.arange(ops.shape(x_BTH)[1], dtype="float32"), -1)


# By the names of sentence-transformers. Each function takes three tensors and returns float32
# [batch, size]: token vectors, float32 [batch, length, size]; 1.0 for tokens that count, float32
# [batch, length, 1]; the position of the first of these, int32 [batch, 1], or None for 0.
POOLINGS = {
    "mean": _mean,
    "cls": _cls,
    "max": _max,
    "mean_sqrt_len_tokens": _mean_sqrt_len,
    "weightedmean": _weighted_mean,
    "lasttoken": _last_token,
}
# Keras's names of the activations that PyTorch has too.
ACTIVATIONS = (
    *("linear", "tanh", "relu", "gelu", "sigmoid", "silu", "elu", "selu", "celu", "softplus"),
    *("softsign", "mish", "relu6", "hard_tanh", "hard_silu", "hard_sigmoid", "log_sigmoid"),
    *("soft_shrink", "hard_shrink", "tanh_shrink"),
)
MOST_UNITS = 2**14  # of a dense layer
MOST_DENSE = 8  # dense layers of a model
MOST_POOLINGS = 16  # of a model, whose vectors are concatenated
_DENSE = {"units": None, "activation": "linear", "use_bias": True, "residual": False}


def pooling_names(pooling: str | Sequence[str]) -> tuple[str, ...]:
    """Return the names of one pooling or several.

    Raises:
        ValueError: a name is unknown, or there is none.
    """
    names = (pooling,) if isinstance(pooling, str) else tuple(pooling)
    is_known = names and all(isinstance(name, str) and name in POOLINGS for name in names)
    if not is_known or len(names) > MOST_POOLINGS:
        raise ValueError(
            f"`pooling` must be one of {', '.join(POOLINGS)}, or a list of "
            f"{MOST_POOLINGS} of them at most. "
            f"Received: pooling={pooling!r:.200}"
        )
    return names


def plain_count(value: Any) -> Any:
    """Return an integer of any library as an int, which JSON can hold; other values as they are."""
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    return int(value) if is_whole else value


def dense_options(dense: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the options of dense layers, with the default of each missing option.

    Raises:
        ValueError: an option is unknown, missing or out of range, or there are too many layers.
    """
    if len(dense) > MOST_DENSE:
        raise ValueError(f"`dense` may have {MOST_DENSE} layers at most. Received: {len(dense)}")
    complete = []
    for options in dense:
        values = {**_DENSE, **options}
        units = values["units"] = plain_count(values["units"])
        flags = values["use_bias"], values["residual"]
        if (
            set(values) != set(_DENSE)
            or type(units) is not int
            or not 1 <= units <= MOST_UNITS
            or values["activation"] not in ACTIVATIONS
            or not all(isinstance(flag, bool) for flag in flags)
        ):
            raise ValueError(
                f"`dense` must be a list of {{{', '.join(_DENSE)}}} with 1 to {MOST_UNITS:,} "
                f"units and an activation of {', '.join(ACTIVATIONS)}. Received: {dict(options)}"
            )
        complete.append(values)
    return complete


@keras.saving.register_keras_serializable(package="bert_keras")
class SentencePooling(SerializableLayer):
    """Sentence pooling: one vector of the vectors of the real tokens (Reimers & Gurevych, 2019).

    [CLS] and [SEP] count as tokens.

    Args:
        pooling: a name of `POOLINGS`, or a list of names, whose vectors are concatenated.
        normalize: whether the vector is scaled to length 1, after the dense layers.
        dense: options of dense layers after the pooling. Each has "units", and may have
            "activation" (a name of `ACTIVATIONS`), "use_bias" and "residual". With "residual" the
            layer's input is added to its output, through a matrix if the sizes differ.
        truncate_dim: number of dimensions that are kept after the normalisation; None for all.
    """

    def __init__(
        self,
        pooling: str | Sequence[str] = "mean",
        normalize: bool = True,
        dense: Sequence[Mapping[str, Any]] = (),
        truncate_dim: int | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        truncate_dim = plain_count(truncate_dim)
        if truncate_dim is not None and (type(truncate_dim) is not int or truncate_dim < 1):
            raise ValueError(
                "`truncate_dim` must be a whole number from 1, or None. "
                f"Received: truncate_dim={truncate_dim!r}"
            )
        self.pooling_names = pooling_names(pooling)
        self.normalize = normalize
        self.truncate_dim = truncate_dim
        self.dense_options = dense_options(dense)
        self.dense_layers: list[Any] = []
        self.residual_layers: list[Any] = []

    def build(self, x_shape, padding_mask_shape=None, prompt_length_shape=None):
        size = x_shape[-1] * len(self.pooling_names)
        for number, options in enumerate(self.dense_options):
            units = options["units"]
            layer = _dense(f"dense_{number}", units, options["activation"], options["use_bias"])
            layer.build((x_shape[0], size))
            residual = None
            if options["residual"] and size != units:
                residual = _dense(f"residual_{number}", units, "linear", False)
                residual.build((x_shape[0], size))
            self.dense_layers.append(layer)
            self.residual_layers.append(residual)
            size = units
        self.built = True

    def call(self, x, padding_mask, prompt_length=None, normalized=True):
        """Pool the token vectors.

        Args:
            x: [batch, length, hidden_size].
            padding_mask: [batch, length], 1 for a real token.
            prompt_length: int32 [batch, 1], number of first tokens that do not count; None for 0.
            normalized: whether the vector is normalised, if the layer normalises.

        Returns:
            float32 [batch, size].
        """
        x_BTH = ops.cast(x, "float32")
        mask_BT1 = ops.expand_dims(ops.cast(padding_mask, "float32"), -1)
        start_B1 = None
        if prompt_length is not None:
            start_B1 = ops.cast(prompt_length, "int32")
            start_B11 = ops.expand_dims(ops.cast(prompt_length, "float32"), -1)
            mask_BT1 = mask_BT1 * ops.cast(_places(x_BTH) >= start_B11, "float32")
        vectors = [POOLINGS[name](x_BTH, mask_BT1, start_B1) for name in self.pooling_names]
        vector = vectors[0] if len(vectors) == 1 else ops.concatenate(vectors, axis=-1)
        for number, layer in enumerate(self.dense_layers):
            output = layer(vector)
            if self.dense_options[number]["residual"]:
                residual = self.residual_layers[number]
                output = output + (vector if residual is None else residual(vector))
            vector = output
        if self.normalize and normalized:
            vector = ops.normalize(vector, axis=-1)
        return vector if self.truncate_dim is None else vector[:, : self.truncate_dim]

    def size_for(self, hidden_size: int) -> int:
        """Return the size of the sentence vectors for token vectors of this size."""
        size = hidden_size * len(self.pooling_names)
        if self.dense_options:
            size = self.dense_options[-1]["units"]
        return size if self.truncate_dim is None else min(size, self.truncate_dim)

    def compute_output_spec(self, x, padding_mask, prompt_length=None, normalized=True):
        return keras.KerasTensor((x.shape[0], self.size_for(x.shape[2])), dtype="float32")

    @property
    def options(self) -> dict[str, Any]:
        """The arguments `pooling` and `dense` as values of JSON.

        `get_config` has them too, but calls Keras, which imports TensorFlow on every backend.
        """
        names = self.pooling_names
        return {
            "pooling": names[0] if len(names) == 1 else list(names),
            "dense": [dict(options) for options in self.dense_options],
        }

    def get_config(self):
        return {**super().get_config(), **self.options}


def _dense(name: str, units: int, activation: str, use_bias: bool) -> keras.layers.Dense:
    """Make a dense layer over sentence vectors."""
    return keras.layers.Dense(
        units,
        activation=activation,
        use_bias=use_bias,
        dtype="float32",  # as the pooling
        name=name,
    )


# === Scalar mix ===


@keras.saving.register_keras_serializable(package="bert_keras")
class ScalarMix(SerializableLayer):
    """Weighted sum of the outputs of layers (ELMo; Peters et al., 2018, equation 1).

    The weights are a softmax of learned scores, times a learned scale. All scores begin as 0, the
    scale as 1.
    """

    def build(self, states_shape):
        self.scores = self.add_weight((len(states_shape),), "zeros", name="scores")
        self.scale = self.add_weight((1,), "ones", name="scale")
        self.built = True

    def call(self, states):
        """Return the weighted sum of a list of tensors [batch, length, hidden_size]."""
        weights = ops.softmax(ops.cast(self.scores, "float32")) * ops.cast(self.scale, "float32")
        mixed = sum(weights[i] * ops.cast(state, "float32") for i, state in enumerate(states))
        return ops.cast(mixed, self.compute_dtype)

    def compute_output_spec(self, states):
        return keras.KerasTensor(states[0].shape, dtype=self.compute_dtype)
