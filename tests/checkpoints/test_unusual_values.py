"""Values that published models of a family do not have."""

from __future__ import annotations

from typing import Any

import pytest

from bert_keras.checkpoints import unusual_values
from bert_keras.checkpoints.hugging_face_names import FAMILIES
from bert_keras.presets import PRESETS
from tests import families


@pytest.mark.parametrize("name", PRESETS)
def test_a_published_model_is_usual(name: str) -> None:
    config = PRESETS[name]
    assert unusual_values.of_config(config) == []
    other = config.replace(num_layers=3, pooler=not config.pooler, dropout=0.3, vocab_size=99)
    assert unusual_values.of_config(other) == []


@pytest.mark.parametrize("family", FAMILIES)
def test_what_differs_is_named_in_every_family(family: str) -> None:
    config = families.config_of(family)
    before = unusual_values.of_config(config)
    changed = config.replace(activation="tanh", gated=not config.gated, layer_norm_epsilon=0.5)
    found = [each for each in unusual_values.of_config(changed) if each not in before]
    assert {each.partition("=")[0] for each in found} == {
        *("activation", "gated", "layer_norm_epsilon"),
    }
    assert all("(usual: " in each for each in found)


@pytest.mark.parametrize(
    ("family", "values", "expected"),
    [
        ("bert", {"pad_token_id": 3}, ["pad_token_id=3 (usual: 0)"]),
        (
            "eurobert",
            {"tie_word_embeddings": True, "rope_theta": 1e4},
            ["tie_word_embeddings=True (usual: False)", "names of an earlier form: rope_theta"],
        ),
        (
            "nomic_bert",
            {"n_embd": 8, "rope_parameters": {"rope_type": "dynamic"}, "auto_map": {}},
            [
                "rope_parameters/rope_type='dynamic' has no effect up to max_position_embeddings",
                "names of an earlier form: n_embd",
                "auto_map names code, which is never run",
            ],
        ),
        ("gte", {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}, []),
        (
            "modernbert",
            {"rope_parameters": {"full_attention": {"rope_type": "dynamic"}}},
            [
                "rope_parameters/full_attention/rope_type='dynamic' has no effect up to "
                "max_position_embeddings"
            ],
        ),
        ("gte", {"model_type": "new"}, ["model_type='new' is written as 'gte'"]),
        ("rembert", {"tie_word_embeddings": False, "pad_token_id": None}, []),
    ],
)
def test_what_only_config_json_states(
    family: str, values: dict[str, Any], expected: list[str]
) -> None:
    rows = FAMILIES[family]
    stated = {"model_type": rows.model_types[0], **values}
    assert unusual_values.of_hugging_face(stated, rows) == expected
