"""Masks and positions within the attention, which all blocks of an encoder share in one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import keras

from bert_keras import features
from bert_keras.config import BertConfig
from bert_keras.config_checks import DISENTANGLED, ROTARY
from bert_keras.layers import BucketBias, DistanceVectors, LinearBias, RotaryAngles, WindowMask


class AttentionContext(NamedTuple):
    """Attention masks, and positions within the attention, that all blocks of one call share.

    Attributes:
        mask: mask of global layers, [B, L]; of packed rows [B, L, L].
        positions: positions of global layers; see `SelfAttention`. None where there are none.
        local_mask: mask of layers with a window, [B, L, L]; None without such layers.
        local_positions: positions of these layers.
    """

    mask: Any
    positions: Any = None
    local_mask: Any = None
    local_positions: Any = None

    def of(self, is_local: bool) -> tuple[Any, dict[str, Any]]:
        """Return the mask of a layer, and the argument `positions` where it has such."""
        mask = self.local_mask if is_local else self.mask
        positions = self.local_positions if is_local else self.positions
        return mask, {} if positions is None else {"positions": positions}


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
            RotaryAngles(config.head_size, base, dtype=policy, name=name)
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
    layers: Sequence[keras.Layer],
    token_ids: Any,
    mask: Any,
    position_ids: Any,
    config: BertConfig,
) -> AttentionContext:
    """Return what the blocks share, for symbolic tensors.

    Args:
        layers: the layers of `position_layers`.
        token_ids: [B, L], for the length alone.
        mask: mask of global layers.
        position_ids: int32 [B, L], where each token is in its example; None for 0, 1, 2 and so on.
            Only rotary positions read them. Distances within an example are the same in its row,
            and tokens of different examples do not attend to each other.
        config: the config of the encoder.
    """
    is_rotary = config.attention_positions in ROTARY and position_ids is not None
    options = {features.POSITION_IDS: position_ids} if is_rotary else {}
    positions = [layer(token_ids, **options) for layer in layers]
    first, last = (positions[0], positions[-1]) if positions else (None, None)
    if not any(map(config.is_local, range(config.num_layers))):
        return AttentionContext(mask, first)
    assert config.window is not None
    local_mask = WindowMask(config.window, name="window_mask")(mask)
    return AttentionContext(mask, first, local_mask, last)
