"""Configs of layers. Shared parts stay shared within one file or clone, and only there."""

from __future__ import annotations

import copy
import json
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras.layers import FeedForward, FirstToken, MaskedLMHead, TransformerBlock
from bert_keras.layers.sharing import NUMBERS, slots


def _block() -> TransformerBlock:
    return TransformerBlock(8, 2, 16, name="block")


def _of(*layers: Any) -> keras.Model:
    """Return a model that applies each of the layers to the same input."""
    symbol = keras.Input((5, 8), name="x")
    return keras.Model(symbol, [layer(symbol) for layer in layers])


def test_the_parts_of_a_layer_come_once_and_in_order() -> None:
    table = keras.layers.ReversibleEmbedding(50, 8, name="token")
    head = MaskedLMHead(table, name="mlm")
    _of(head)
    assert [slot.part.name for slot in slots(head)] == ["bias", "token", "dense", "layer_norm"]


def test_copies_that_were_made_one_by_one_are_independent() -> None:
    """Blocks that are rebuilt one by one are independent, even in one graph."""
    block = _block()
    _of(block, FirstToken(block))
    copies = [TransformerBlock.from_config(block.get_config()) for _ in range(2)]
    for number, each in enumerate(copies):
        each.name = f"copy_{number}"
    model = _of(*copies)
    assert len(model.weights) == 2 * len(block.weights)
    for rebuilt in (keras.models.clone_model(model), copy.deepcopy(model)):
        assert len(rebuilt.weights) == len(model.weights)


def test_copies_of_layers_that_met_in_no_graph_are_independent() -> None:
    """Layers from different graphs share no parts after `from_config`."""
    block = _block()
    for layer in (block, first := FirstToken(block)):
        _of(layer)
    copies = [type(layer).from_config(layer.get_config()) for layer in (block, first)]
    assert len(_of(*copies).weights) == 2 * len(block.weights)


@pytest.mark.parametrize("order", [1, -1])
def test_a_clone_shares_what_the_original_shares(order: int) -> None:
    block = _block()
    model = _of(*(block, FirstToken(block))[::order])
    clone: Any = keras.models.clone_model(model)
    assert len(clone.weights) == len(model.weights) == len(block.weights)
    clone.set_weights(model.get_weights())
    x = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")
    for found, expected in zip(clone(x), model(x), strict=True):
        np.testing.assert_allclose(
            *map(keras.ops.convert_to_numpy, (found, expected)), rtol=0.0, atol=1e-6
        )


def test_a_clone_of_a_clone() -> None:
    block = _block()
    clone: Any = keras.models.clone_model(_of(block, FirstToken(block)))
    again: Any = keras.models.clone_model(clone)
    assert len(again.weights) == len(block.weights)


def test_configs_list_parts_in_files_alone(tmp_path) -> None:
    model = _of(_block())
    assert NUMBERS not in json.dumps(model.get_config())
    model.save(tmp_path / "model.keras")
    loaded: Any = keras.models.load_model(tmp_path / "model.keras")
    assert json.dumps(loaded.get_config()) == json.dumps(model.get_config())


def test_a_file_with_another_number_of_parts_is_refused() -> None:
    layer = FeedForward(16, 8)
    _of(layer)
    from keras.src.saving.serialization_lib import ObjectSharingScope

    config = {**layer.get_config(), NUMBERS: [1]}
    with (
        ObjectSharingScope(),
        pytest.raises(ValueError, match="the file lists 1 parts, the layer has 2"),
    ):
        _of(FeedForward.from_config(config))
