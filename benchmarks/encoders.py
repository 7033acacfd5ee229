"""Encoders of given sizes: ours, KerasHub's and transformers'.

Sizes are those of `train_steppers.sizes_of`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


def our_encoder(
    sizes: Mapping[str, int],
    dtype: str,
    *,
    attention_dropout: float = 0.1,
    checkpointed: bool = False,
    activation: str = "gelu",
) -> Any:
    """A `BertEncoder`.

    Args:
        sizes: the model's.
        dtype: a Keras dtype policy.
        attention_dropout: share of the probabilities dropped; at 0 the kernel is fused.
        checkpointed: whether each block is computed again for its gradients.
        activation: of the feed-forward layers; KerasHub's is always "gelu_tanh".
    """
    from bert_keras import BertConfig, BertEncoder

    config = BertConfig(
        vocab_size=sizes["vocabulary"],
        hidden_size=sizes["width"],
        num_layers=sizes["layers"],
        num_heads=sizes["heads"],
        intermediate_size=4 * sizes["width"],
        max_positions=sizes["positions"],
        attention_dropout=attention_dropout,
        activation=activation,
    )
    encoder = BertEncoder(config, dtype=dtype)
    if checkpointed:
        encoder.checkpoint_gradients()
    return encoder


def keras_hub_backbone(sizes: Mapping[str, int], dtype: str, *, dropout: float = 0.1) -> Any:
    """KerasHub's `BertBackbone`; it has one rate of dropout, attention's included."""
    import keras_hub

    return keras_hub.models.BertBackbone(
        vocabulary_size=sizes["vocabulary"],
        num_layers=sizes["layers"],
        num_heads=sizes["heads"],
        hidden_dim=sizes["width"],
        intermediate_dim=4 * sizes["width"],
        max_sequence_length=sizes["positions"],
        dropout=dropout,
        dtype=dtype,
    )


def transformers_config(sizes: Mapping[str, int], *, attention_dropout: float = 0.1) -> Any:
    """The config of a BERT of transformers; its attention is SDPA by default."""
    from transformers import BertConfig

    return BertConfig(
        vocab_size=sizes["vocabulary"],
        hidden_size=sizes["width"],
        num_hidden_layers=sizes["layers"],
        num_attention_heads=sizes["heads"],
        intermediate_size=4 * sizes["width"],
        max_position_embeddings=sizes["positions"],
        attention_probs_dropout_prob=attention_dropout,
    )


def tell_kernels(size: Mapping[str, int], dtype: str, told: str) -> Callable[[], dict[str, float]]:
    """Writes, as JSON, which attention kernels our encoder uses; a contender without figures."""
    found = our_encoder(size, dtype).describe_kernels()
    Path(told).write_text(json.dumps(found, default=str), encoding="utf-8")
    return dict
