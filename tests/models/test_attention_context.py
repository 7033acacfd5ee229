"""Masks and positions that the blocks of an encoder share."""

from __future__ import annotations

import keras
import pytest

from bert_keras import features
from bert_keras.config_checks import ATTENTION_POSITIONS
from bert_keras.models.attention_context import (
    AttentionContext,
    attention_context,
    position_layers,
)
from bert_keras.models.encoder_layers import encoder_inputs, packed_inputs
from tests.contracts import VALUES

_POLICY = keras.DTypePolicy("float32")


@pytest.mark.parametrize("name", VALUES)
def test_layers_and_tensors_are_those_of_the_config(name: str) -> None:
    config = VALUES[name]
    layers = position_layers(config, _POLICY)
    has_two = config.local_rotary_base is not None and config.window is not None
    assert len(layers) == (config.attention_positions != "none") + has_two
    inputs = encoder_inputs(config)
    context = attention_context(layers, inputs, config)
    assert context.mask is context.local_mask is inputs[features.PADDING_MASK]
    assert (context.positions is None) == (config.attention_positions == "none")
    packed = attention_context(layers, packed_inputs(config), config)
    assert packed.local_mask is None
    assert len(packed.mask.shape) == 3
    assert features.EXAMPLE_IDS in packed.local_options


def test_every_kind_of_positions_has_a_config_here() -> None:
    kinds = {config.attention_positions for config in VALUES.values()}
    assert kinds == set(ATTENTION_POSITIONS)


def test_layers_get_their_mask_and_options() -> None:
    context = AttentionContext("mask", "angles", "ids", {"window": 2})
    assert context.of(False) == ("mask", {"positions": "angles"})
    assert context.of(True) == ("ids", {"window": 2})
    assert AttentionContext("mask").of(False) == ("mask", {})
