"""State of layers (frozen parts, adapters, checkpointing) as JSON: read, set, and refused."""

from __future__ import annotations

import json
from typing import Any

import keras
import pytest

from bert_keras import BertEncoder, MaskedLM
from bert_keras.layers import state
from tests.contracts import TINY


def _paths(variables: list[Any]) -> list[str]:
    return [variable.path for variable in variables]


def test_an_untouched_model_has_no_state() -> None:
    assert state.get_state(BertEncoder(TINY)) == {}
    assert state.get_state(MaskedLM(BertEncoder(TINY, name="other"))) == {}


def test_a_frozen_encoder_is_one_line_and_not_one_for_each_part() -> None:
    encoder = BertEncoder(TINY)
    encoder.trainable = False
    assert state.get_state(encoder) == {"trainable": {"": False}}
    assert encoder.pooler is not None
    encoder.pooler.trainable = True
    assert state.get_state(encoder) == {"trainable": {"": False, "pooler": True}}


def test_what_is_set_is_described() -> None:
    """`set_state` restores what `get_state` describes, through JSON and when it is called twice."""
    encoder, other = BertEncoder(TINY), BertEncoder(TINY)
    encoder.blocks[1].trainable = False
    norm: Any = encoder.embeddings.layer_norm
    norm.beta.trainable = False
    encoder.enable_lora(2, alpha=3.0, layers=("key",))
    encoder.blocks[0].checkpoints_gradients = True
    described = state.get_state(encoder)
    assert described["adapters"] == {
        "default": {f"block_{block}/attention/key": {"rank": 2, "alpha": 3.0} for block in range(2)}
    }
    assert described["checkpointed_gradients"] == ["block_0"]
    for _ in range(2):
        state.set_state(other, json.loads(json.dumps(described)))
        assert state.get_state(other) == described
        assert _paths(other.trainable_variables) == _paths(encoder.trainable_variables)
    state.set_state(other, {"adapters": described["adapters"]})
    assert "checkpointed_gradients" not in state.get_state(other)
    # Parts that the state does not name are trainable.
    assert len(other.trainable_variables) == len(other.weights)


def test_a_task_calls_its_encoder_encoder_whatever_its_name_is() -> None:
    task, other = MaskedLM(BertEncoder(TINY, name="mine")), MaskedLM(BertEncoder(TINY))
    task.encoder.blocks[0].trainable = False
    task.layers[-2].trainable = False  # the view of the encoder
    described = state.get_state(task)
    assert not any("mine" in name for name in described["trainable"])
    state.set_state(other, described)
    assert state.get_state(other) == described


def test_every_layer_has_a_name_of_its_own_and_comes_after_those_around_it() -> None:
    task = MaskedLM(BertEncoder(TINY))
    layers = state.layers_by_name(task)
    assert {id(layer) for layer in layers.values()} == {id(each) for each in task._flatten_layers()}
    places = {id(layer): place for place, layer in enumerate(layers.values())}
    for layer in layers.values():
        for below in layer._flatten_layers(include_self=False):
            assert places[id(below)] > places[id(layer)]
    assert layers["encoder/block_0/attention/query"] is task.encoder.blocks[0].attention.query
    assert layers["encoder/embeddings/token"] is task.encoder.embeddings.token


QUANTIZER = keras.saving.serialize_keras_object(keras.quantizers.Int8QuantizationConfig())


@pytest.mark.parametrize(
    "bad",
    [
        [],
        {"frozen": {}},
        {"trainable": ["block_0"]},
        {"trainable": {"block_0": 1}},
        {"trainable_variables": {"block_0": None}},
        {"adapters": {"default": {"block_0": {"rank": 2}}}},
        {"adapters": {"default": {"block_0": {"rank": 0, "alpha": 1.0}}}},
        {"adapters": {"default": {"block_0": {"rank": True, "alpha": 1.0}}}},
        {"adapters": {"default": {"block_0": {"rank": 2, "alpha": "1"}}}},
        {"frozen_before_adapters": {"": "all"}},
        {"quantization": {"block_0": "int8"}},
        {"quantization": {"block_0": {**QUANTIZER, "module": "os"}}},
        {"quantization": {"block_0": {**QUANTIZER, "config": {"weight_quantizer": {"a": 1}}}}},
        {"checkpointed_gradients": "block_0"},
        {"checkpointed_gradients": [0]},
    ],
)
def test_another_form_is_refused(bad: Any) -> None:
    """A value that is not the state of a layer is refused and changes nothing."""
    encoder = BertEncoder(TINY)
    with pytest.raises(ValueError, match="not the state of a layer"):
        state.set_state(encoder, bad)
    assert state.get_state(encoder) == {}


@pytest.mark.parametrize("key", ["trainable", "trainable_variables"])
def test_a_name_that_the_model_has_not(key: str) -> None:
    """A state that names an unknown layer is refused."""
    with pytest.raises(ValueError, match="names 'block_7', and this model has no layer"):
        state.set_state(BertEncoder(TINY), {key: {"block_7": False}})


def test_layers_of_one_name_are_numbered() -> None:
    class Twins(keras.layers.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = (keras.layers.Dense(1, name="twin") for _ in range(2))

    twins, others = Twins(), Twins()
    twins.first.trainable = False
    state.set_state(others, state.get_state(twins))
    assert (others.first.trainable, others.second.trainable) == (False, True)
