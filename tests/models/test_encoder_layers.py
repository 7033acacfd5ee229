"""The layers by their config. What they compute is in test_encoder.py."""

from __future__ import annotations

import keras
import pytest

from bert_keras.models.encoder_layers import EncoderLayers, transformer_blocks
from tests.contracts import TINY

_POLICY = keras.DTypePolicy("float32")


def test_layers_are_named_and_as_many_as_the_config_says() -> None:
    layers = EncoderLayers.of(TINY, _POLICY)
    assert [block.name for block in layers.blocks] == [f"block_{n}" for n in range(TINY.num_layers)]
    assert layers.embeddings.name == "embeddings"
    assert layers.pooler is not None
    assert EncoderLayers.of(TINY.replace(pooler=False), _POLICY).pooler is None


@pytest.mark.parametrize("unique", [1, TINY.num_layers])
def test_shared_blocks_are_made_once(unique: int) -> None:
    assert len(transformer_blocks(TINY.replace(num_unique_layers=unique), _POLICY)) == unique
