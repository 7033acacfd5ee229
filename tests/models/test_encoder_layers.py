"""Layers that the encoder builds from its config. test_encoder.py tests their outputs."""

from __future__ import annotations

import keras
import pytest

import bert_keras as bk
from bert_keras import config_checks
from bert_keras.models.encoder_layers import (
    BLOCKS,
    EncoderLayers,
    encoder_inputs,
    packed_inputs,
    transformer_blocks,
)
from tests.contracts import TINY

_POLICY = keras.DTypePolicy("float32")


def test_a_config_names_every_kind_of_block() -> None:
    assert tuple(BLOCKS) == config_checks.BLOCKS


def test_layers_are_named_and_as_many_as_the_config_says() -> None:
    layers = EncoderLayers.of(TINY, _POLICY)
    assert [block.name for block in layers.blocks] == [f"block_{n}" for n in range(TINY.num_layers)]
    assert layers.embeddings.name == "embeddings"
    assert layers.pooler is not None
    assert EncoderLayers.of(TINY.replace(pooler=False), _POLICY).pooler is None


@pytest.mark.parametrize("unique", [1, TINY.num_layers])
def test_shared_blocks_are_made_once(unique: int) -> None:
    assert len(transformer_blocks(TINY.replace(num_unique_layers=unique), _POLICY)) == unique


# === Symbolic inputs have the names of a batch ===


CONFIG = bk.BertConfig(
    vocab_size=40, hidden_size=8, num_layers=1, num_heads=2, intermediate_size=16, max_positions=12
)


@pytest.mark.parametrize(("segments", "is_read"), [(2, True), (1, False), (0, False)])
def test_names(segments: int, is_read: bool) -> None:
    config = CONFIG.replace(num_segments=segments)
    segment_ids = ["segment_ids"] if is_read else []
    assert list(encoder_inputs(config)) == ["token_ids", *segment_ids, "padding_mask"]
    places = ["position_ids", "example_ids", "first_positions"]
    found = packed_inputs(config)
    assert list(found) == ["token_ids", *segment_ids, *places]
    for name, tensor in found.items():
        assert (tensor.name, tensor.dtype, tensor.shape) == (name, "int32", (None, None))
