"""Masks and positions within the attention, which all blocks of an encoder share in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import keras

from bert_keras import features, kernels
from bert_keras.config import BertConfig
from bert_keras.config_checks import DISENTANGLED, ROTARY
from bert_keras.layers import BucketBias, DistanceVectors, ExampleMask, LinearBias, RotaryAngles
from bert_keras.layers.local_attention import describe_bands


class AttentionContext(NamedTuple):
    """Attention masks, and positions within the attention, that all blocks of one call share.

    Attributes:
        mask: mask of global layers, [B, L]; of packed rows [B, L, L].
        positions: positions of global layers; see `SelfAttention`. None where there are none.
        local_mask: padding mask of layers with a window, [B, L]; None for packed rows.
        local_options: the other arguments of these layers; see `SelfAttention.call`.
    """

    mask: Any
    positions: Any = None
    local_mask: Any = None
    local_options: Mapping[str, Any] = {}

    def of(self, is_local: bool) -> tuple[Any, dict[str, Any]]:
        """Return the mask of a layer, and its other arguments by name."""
        if is_local:
            return self.local_mask, dict(self.local_options)
        return self.mask, {} if self.positions is None else {"positions": self.positions}


def position_layers(config: BertConfig, policy: keras.DTypePolicy) -> list[keras.Layer]:
    """Make the layers of the positions within the attention: of global layers, then of local ones.

    There is none where only the embeddings have positions, and one where all layers have the same.
    """
    kind = config.attention_positions
    if kind in ROTARY:
        bases = {"rotary": config.rotary_base}
        if config.window is not None and config.local_rotary_base is not None:
            bases["local_rotary"] = config.local_rotary_base
        return [
            RotaryAngles(config.head_size, base, config.rotary_scale, dtype=policy, name=name)
            for name, base in bases.items()
        ]
    if kind == "alibi":
        return [LinearBias(config.num_heads, dtype=policy, name="distance_bias")]
    if kind == "buckets":
        return [
            BucketBias(
                config.num_heads,
                config.position_buckets,
                config.max_distance,
                config.initializer_range,
                dtype=policy,
                name="distance_bias",
            )
        ]
    if kind in DISENTANGLED:
        return [
            DistanceVectors(
                config.hidden_size,
                config.distance_span,
                config.position_norm,
                name="distance_vectors",
                layer_norm_epsilon=config.layer_norm_epsilon,
                dropout=config.dropout,
                initializer_range=config.initializer_range,
                dtype=policy,
            )
        ]
    return []


def attention_context(
    layers: Sequence[keras.Layer], inputs: Mapping[str, Any], config: BertConfig
) -> AttentionContext:
    """Return what the blocks share, for symbolic tensors.

    Args:
        layers: the layers of `position_layers`.
        inputs: those of the encoder or of packed rows, by name. Rotary positions read the positions
            of tokens in their examples. Distances within an example are the same in its row, and
            tokens of different examples do not attend to each other.
        config: the config of the encoder.
    """
    padding_mask = inputs.get(features.PADDING_MASK)
    example_ids = inputs.get(features.EXAMPLE_IDS)
    token_ids = inputs.get(features.TOKEN_IDS, padding_mask)
    mask = padding_mask
    if example_ids is not None:
        mask = ExampleMask(name="example_mask")(example_ids)
    position_ids = inputs.get(features.POSITION_IDS)
    is_rotary = config.attention_positions in ROTARY and position_ids is not None
    options = {features.POSITION_IDS: position_ids} if is_rotary else {}
    positions = [layer(token_ids, **options) for layer in layers]
    first, last = (positions[0], positions[-1]) if positions else (None, None)
    local = {"window": config.window, "positions": last, "example_ids": example_ids}
    given = {name: value for name, value in local.items() if value is not None}
    return AttentionContext(mask, first, padding_mask, given)


def describe_attention(config: BertConfig, dtype: str, *, is_fixed: bool = False) -> dict[str, str]:
    """Return a sentence on the attention kernel in use, for "inference" and for "training".

    Args:
        config: config of the encoder.
        dtype: dtype of the queries.
        is_fixed: True where no weight of the encoder is trained, so that nothing is dropped.
    """
    inference = training = kernels.attention_kernel(dtype)
    if not is_fixed:
        training = kernels.attention_kernel(dtype, learns_bias=config.learns_distances)
        if config.attention_dropout:
            training = (
                "the backend's own operations, all probabilities in memory: "
                f"attention_dropout={config.attention_dropout} drops some of them; with 0: "
                f"{training}"
            )
    sentences = {"inference": inference, "training": training}
    if config.band_window is None or not any(map(config.is_local, range(config.num_layers))):
        return sentences
    bands = describe_bands(config.band_window)
    return {use: f"{sentence}; {bands}" for use, sentence in sentences.items()}
