"""The config: defaults, invalid values, copies, JSON."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest

from bert_keras import PRESETS, BertConfig
from bert_keras.config_checks import _FLAGS

_BASE = BertConfig(vocab_size=30)

# An invalid value, and its error message.
_COUNTS = (0, -1, 2.0, True, "8")
_BAD: list[tuple[str, tuple[Any, ...], str]] = [
    ("vocab_size", (*_COUNTS, None), "integer of at least 1"),
    ("hidden_size", _COUNTS, "integer of at least 1"),
    ("num_layers", _COUNTS, "integer of at least 1"),
    ("num_heads", _COUNTS, "integer of at least 1"),
    ("intermediate_size", _COUNTS, "integer of at least 1"),
    ("max_positions", _COUNTS, "integer of at least 1"),
    ("embedding_size", _COUNTS, "integer of at least 1"),
    ("num_unique_layers", _COUNTS, "integer of at least 1"),
    ("num_segments", (-1, 1.5, False, None), "integer of at least 0"),
    ("position_offset", (-1, 1.5, False, None), "integer of at least 0"),
    ("position_embedding", ("rotary", "", None, ["absolute"]), "one of absolute, sinusoidal, rel"),
    (
        "pruned_heads",
        ([[0]], [[12], *[[]] * 11], [[0.0], *[[]] * 11], "0"),
        "12 lists",
    ),
    ("block", ("sandwich", 1), "one of post_norm, pre_norm"),
    ("attention_positions", ("absolute", "", None), "one of none, rotary, rotary_interleaved, al"),
    ("norm", ("batch", None), "one of layer, rms"),
    ("rotary_base", (1.0, -1, 1e12, float("nan"), None), r"number in \(1, 1e\+12\)"),
    ("local_rotary_base", (0, True, "1e4"), r"number in \(1, 1e\+12\)"),
    ("rotary_scale", (0.5, 1e6, True, "2", None), r"number in \[1, 1e\+06\)"),
    ("position_buckets", (-1, 1.5, False, None), "integer of at least 0"),
    ("max_distance", (*_COUNTS, None), "integer of at least 1"),
    ("window", (-1, 1.5, True), "integer of at least 0"),
    ("num_tasks", (-1, 1.5, False, None), "integer of at least 0"),
    ("global_every", (*_COUNTS, None), "integer of at least 1"),
    ("global_offset", (-1, 1.5, False, None), "integer of at least 0"),
    ("num_key_value_heads", _COUNTS, "integer of at least 1"),
    ("intermediate_dropout", (1.0, -0.1, None), r"number in \[0, 1\)"),
    *((name, (1, 0, None, "yes"), "true or false") for name in _FLAGS if name != "pooler"),
    ("family", ("gpt2", "BERT", None), "one of bert, roberta, distilbert, albert, electra"),
    ("pooler", (1, 0, None, "yes"), "true or false"),
    ("activation", ("GELU", "swish", "", None), "one of gelu, gelu_tanh, relu, silu, tanh"),
    ("layer_norm_epsilon", (0.0, 1.0, -1e-12, float("nan"), "1e-12"), r"number in \(0, 1\)"),
    ("initializer_range", (0, 1, float("inf"), None), r"number in \(0, 1\)"),
    ("dropout", (1.0, -0.1, float("nan"), True, None), r"number in \[0, 1\)"),
    ("attention_dropout", (1, -0.1, "0.1"), r"number in \[0, 1\)"),
]


def test_defaults_are_bert_base():
    assert _BASE.to_dict() == {
        "vocab_size": 30,
        "hidden_size": 768,
        "num_layers": 12,
        "num_heads": 12,
        "intermediate_size": 3072,
        "max_positions": 512,
        "num_segments": 2,
        "embedding_size": 768,
        "num_unique_layers": 12,
        "position_offset": 0,
        "position_embedding": "absolute",
        "pruned_heads": [],
        "pooler": True,
        "activation": "gelu",
        "layer_norm_epsilon": 1e-12,
        "dropout": 0.1,
        "attention_dropout": 0.1,
        "initializer_range": 0.02,
        "block": "post_norm",
        "family": "bert",
    }


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [(name, value, message) for name, values, message in _BAD for value in values],
)
def test_bad_value(name: str, value: Any, message: str):
    with pytest.raises(ValueError, match=f"`{name}` must be .*{message}.* Received: {name}="):
        BertConfig.from_dict({"vocab_size": 30, name: value})


def test_numbers_of_numpy_become_plain_numbers():
    values: dict[str, Any] = {
        "vocab_size": np.int64(30),
        "hidden_size": np.int32(32),
        "num_layers": np.int64(2),
        "num_heads": np.uint8(4),
        "intermediate_size": np.int64(37),
        "dropout": np.float32(0.5),
        "layer_norm_epsilon": np.float64(1e-5),
    }
    config = BertConfig(**values, pruned_heads=[[np.int64(1)], [0]])  # pyright: ignore[reportArgumentType]
    for name, value in values.items():
        assert type(getattr(config, name)) is type(value.item()), name
    assert config.pruned_heads == ((1,), (0,))
    assert json.loads(json.dumps(config.to_dict()))["vocab_size"] == 30
    for value in (np.float32(30), np.bool_(True), "30"):
        with pytest.raises(ValueError, match="`vocab_size` must be an integer"):
            BertConfig(**{**values, "vocab_size": value})


def test_every_value_is_checked():
    assert {name for name, *_ in _BAD} == {field.name for field in dataclasses.fields(BertConfig)}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"num_heads": 5}, "must divide `hidden_size`. Received: hidden_size=768, num_heads=5"),
        ({"num_unique_layers": 13}, "not exceed .* num_unique_layers=13, num_layers=12"),
    ],
)
def test_values_that_do_not_fit_each_other(values: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        BertConfig(vocab_size=30, **values)


@pytest.mark.parametrize(
    "values",
    [{"num_segments": 0}, {"dropout": 0}, {"dropout": 0.0}, {"num_layers": 1}, {"num_heads": 768}],
)
def test_values_at_the_border(values: dict[str, Any]):
    name, value = next(iter(values.items()))
    assert getattr(BertConfig(vocab_size=1, **values), name) == value


def test_is_a_value():
    assert BertConfig(vocab_size=30) == _BASE
    assert len({_BASE, BertConfig(vocab_size=30), _BASE.replace(dropout=0.2)}) == 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        _BASE.dropout = 0.2  # pyright: ignore[reportAttributeAccessIssue]


def test_replace():
    assert _BASE.replace() == _BASE
    small = _BASE.replace(hidden_size=24, num_layers=3)
    assert (small.embedding_size, small.num_unique_layers) == (24, 3)
    assert _BASE.hidden_size == 768
    with pytest.raises(ValueError, match="Unknown config values: depth"):
        _BASE.replace(depth=3)
    with pytest.raises(ValueError, match="must divide"):
        _BASE.replace(num_heads=5)


def test_replace_keeps_what_was_chosen():
    albert = _BASE.replace(embedding_size=128, num_unique_layers=1)
    deeper = albert.replace(hidden_size=24, num_layers=24)
    assert (deeper.embedding_size, deeper.num_unique_layers) == (128, 1)
    both = _BASE.replace(hidden_size=24, embedding_size=8, num_layers=4, num_unique_layers=2)
    assert (both.embedding_size, both.num_unique_layers) == (8, 2)


def test_json_round_trip(tmp_path):
    config = _BASE.replace(
        embedding_size=8, num_unique_layers=3, activation="gelu_tanh", pooler=False, dropout=0.0
    )
    config.save(tmp_path / "config.json")
    assert BertConfig.load(tmp_path / "config.json") == config
    assert json.loads((tmp_path / "config.json").read_text()) == config.to_dict()


def test_from_dict_is_strict():
    with pytest.raises(
        ValueError, match=r"Unknown config values: heads, layers\. Known: activation"
    ):
        BertConfig.from_dict({"vocab_size": 3, "layers": 2, "heads": 2})
    with pytest.raises(ValueError, match="no `vocab_size`"):
        BertConfig.from_dict({})


def test_narrowed_as_the_published_generators_are():
    for name, share in (("small", 1.0), ("base", 1 / 3), ("large", 0.25)):
        config = PRESETS[f"electra_{name}_discriminator"]
        narrow = config.narrowed(share)
        assert narrow == PRESETS[f"electra_{name}_generator"]
    assert config.narrowed(1.0) == config
    assert config.narrowed(0.01).num_heads == 1
    with pytest.raises(ValueError, match=r"above 0 and at most 1. Received: share=0"):
        config.narrowed(0)
