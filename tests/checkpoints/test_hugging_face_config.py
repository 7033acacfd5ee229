"""Configs of Hugging Face: encoders that are refused by name, with what to use instead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bert_keras.checkpoints import hugging_face_config
from bert_keras.checkpoints.hugging_face_config import config_values, read_config
from bert_keras.checkpoints.hugging_face_names import FAMILIES
from bert_keras.errors import ArtifactError
from tests import families

_HERE = Path("config.json")


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_there_and_back(family: str) -> None:
    config = families.config_of(family)
    values = config_values(config, "BertEncoder")
    assert values["model_type"] == FAMILIES[family].model_types[0]
    assert read_config(values, _HERE, pooler=config.pooler) == config


@pytest.mark.parametrize("model_type", hugging_face_config._INSTEAD)
def test_encoders_that_are_not_computed(model_type: str) -> None:
    with pytest.raises(ArtifactError, match=rf"Received: model_type='{model_type}'\. Use ."):
        hugging_face_config.family_of({"model_type": model_type}, _HERE)
    assert not any(model_type in family.model_types for family in FAMILIES.values())


@pytest.mark.parametrize(
    ("family", "key", "value", "named"),
    [
        ("bert", "position_embedding_type", "alibi", "JinaBERT v2"),
        ("bert", "alibi_starting_size", 512, "MosaicBERT"),
        ("xlm_roberta", "lora_adaptations", ["retrieval.query"], "jina-embeddings-v3-hf"),
        ("xlm_roberta", "position_embedding_type", "rotary", "jina-embeddings-v3-hf"),
    ],
)
def test_code_in_folders_that_computes_something_else(
    family: str, key: str, value: Any, named: str
) -> None:
    """Code in a folder may have the model type of a family that is known."""
    values = config_values(families.config_of(family), "BertEncoder") | {key: value}
    with pytest.raises(ArtifactError, match=f"not supported: {key}=.*{named}"):
        read_config(values, _HERE, pooler=True)


@pytest.mark.parametrize("kinds", ["all", [[]], ["full_attention"], ["x", "full_attention"]])
def test_layers_that_follow_no_pattern(kinds: Any) -> None:
    values = config_values(families.config_of("modernbert"), "BertEncoder")
    with pytest.raises(ArtifactError, match="not supported: layer_types="):
        read_config(values | {"layer_types": kinds}, _HERE, pooler=False)
