"""Masks and positions that the blocks of an encoder share."""

from __future__ import annotations

import keras
import pytest

from bert_keras.config_checks import ATTENTION_POSITIONS
from bert_keras.models.attention_context import (
    AttentionContext,
    attention_context,
    position_layers,
)
from tests.contracts import TINY, VALUES

_POLICY = keras.DTypePolicy("float32")


@pytest.mark.parametrize("name", VALUES)
def test_layers_and_tensors_are_those_of_the_config(name: str) -> None:
    config = VALUES[name]
    layers = position_layers(config, _POLICY)
    has_two = config.local_rotary_base is not None and config.window is not None
    assert len(layers) == (config.attention_positions != "none") + has_two
    ids = keras.Input((None,), dtype="int32")
    context = attention_context(layers, ids, ids, None, config)
    assert context.mask is ids
    assert (context.local_mask is None) == (config.window is None)
    assert (context.positions is None) == (config.attention_positions == "none")


def test_every_kind_of_positions_has_a_config_here() -> None:
    kinds = {config.attention_positions for config in VALUES.values()}
    assert kinds == set(ATTENTION_POSITIONS)


def test_layers_get_their_mask_and_positions() -> None:
    context = AttentionContext("mask", "angles", "near", "local angles")
    assert context.of(False) == ("mask", {"positions": "angles"})
    assert context.of(True) == ("near", {"positions": "local angles"})
    assert AttentionContext("mask").of(False) == ("mask", {})


def test_without_local_layers_there_is_no_mask_of_a_window() -> None:
    """Every layer of a config with `global_every` 1 is global."""
    ids = keras.Input((None,), dtype="int32")
    config = TINY.replace(window=3)
    assert attention_context([], ids, ids, None, config).local_mask is None
