"""Configs of Hugging Face: encoders that are refused by name, with what to use instead."""

from __future__ import annotations

import ast
import dataclasses
from pathlib import Path
from typing import Any

import pytest

from bert_keras import PRESETS
from bert_keras.checkpoints import hugging_face_config
from bert_keras.checkpoints.hugging_face_config import config_values, read_config
from bert_keras.checkpoints.hugging_face_names import FAMILIES
from bert_keras.checkpoints.unusual_values import _rotations
from bert_keras.errors import ArtifactError
from bert_keras.training.pretrain_recipe import PretrainRecipe, quicktest
from tests import families

_HERE = Path("config.json")


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_there_and_back(family: str) -> None:
    config = families.config_of(family)
    values = config_values(config, "BertEncoder")
    assert values["model_type"] == FAMILIES[family].model_types[0]
    assert read_config(values, _HERE, pooler=config.pooler) == config


# Families whose config.json states the kind of rotary positions; the first two for each layer.
_BY_LAYER = ("modernbert", "ultrabert")
_ROTARY = (*_BY_LAYER, "eurobert", "gte", "jina_embeddings_v3", "nomic_bert")


def test_every_rotary_family_is_tried() -> None:
    stating = {name for name, family in FAMILIES.items() if _rotations(family)}
    assert stating == set(_ROTARY)


@pytest.mark.parametrize("key", ["rope_type", "type"])
@pytest.mark.parametrize("place", ["rope_parameters", "rope_scaling"])
@pytest.mark.parametrize("family", _ROTARY)
def test_other_rotary_positions_are_refused(family: str, place: str, key: str) -> None:
    values = config_values(families.config_of(family), "BertEncoder")
    stated: Any = {key: "linear", "factor": 2.0}
    if place == "rope_parameters" and family in _BY_LAYER:
        stated = {**values[place], "full_attention": {**stated, "rope_theta": 1e4}}
    values[place] = stated
    with pytest.raises(ArtifactError, match=r"not supported: .*'linear'"):
        read_config(values, _HERE, pooler=False)


@pytest.mark.parametrize("family", _ROTARY[len(_BY_LAYER) :])
def test_the_base_in_an_earlier_place(family: str) -> None:
    values = config_values(families.config_of(family), "BertEncoder")
    del values["rope_parameters"]
    values["rope_scaling"] = {"rope_type": "default", "rope_theta": 7_000.0}
    assert read_config(values, _HERE, pooler=False).rotary_base == 7_000


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("name", PRESETS)
def test_new_models_are_written_as_their_family(name: str, dropout: float) -> None:
    recipe = PretrainRecipe(corpus="demo", steps=50, warmup_steps=5, config=name, loss="mlm")
    recipe = dataclasses.replace(recipe, dropout=dropout, attention_dropout=0.0)
    for each in (recipe, quicktest(recipe)):
        config = each.new_config(1_000)
        assert config.dropout == dropout
        assert hugging_face_config.round_trips(config, "MaskedLM")


@pytest.mark.parametrize("model_type", hugging_face_config._INSTEAD)
def test_encoders_that_are_not_computed(model_type: str) -> None:
    with pytest.raises(ArtifactError, match=rf"Received: model_type='{model_type}'\. Use ."):
        hugging_face_config.family_of({"model_type": model_type}, _HERE)
    assert not any(model_type in family.model_types for family in FAMILIES.values())


def test_every_masked_lm_of_the_library_is_opened_or_has_advice(transformers: Any) -> None:
    from transformers.models.auto import modeling_auto

    opened = {model_type for family in FAMILIES.values() for model_type in family.model_types}
    known = set(modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES)
    assert len(known) > 40
    assert not known - opened - set(hugging_face_config._INSTEAD)


def _lines(node: ast.AST) -> int:
    """Return the number of lines of a part of a module."""
    return getattr(node, "end_lineno", 0) - getattr(node, "lineno", 0) + 1


def _lines_of_families(path: Path) -> dict[str, tuple[int, int]]:
    """Return the lines of each family's row in a module, and of what only that row reads there."""
    named: dict[str, ast.AST] = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        for target in getattr(node, "targets", [getattr(node, "target", node)]):
            named[getattr(target, "id", getattr(target, "name", ""))] = node

    def read_by(node: ast.AST, rows: dict[str, ast.Call]) -> set[str]:
        """Return the names that a part reads, and those that these read; rows stand alone."""
        found: set[str] = set()
        new = [node]
        while new:
            names = {each.id for each in ast.walk(new.pop()) if isinstance(each, ast.Name)}
            added = (names & named.keys()) - found
            found |= added
            new += [
                named[name] for name in added if not set(ast.walk(named[name])) & {*rows.values()}
            ]
        return found

    rows: dict[str, ast.Call] = {}
    for node in named.values():
        for call in ast.walk(node):
            kinds = [each for each in getattr(call, "keywords", ()) if each.arg == "model_types"]
            if isinstance(call, ast.Call) and kinds:
                rows[ast.unparse(kinds[0].value)] = call
    reads = {name: read_by(row, rows) for name, row in rows.items()}
    result: dict[str, tuple[int, int]] = {}
    for name, row in rows.items():
        others = set().union(*(found for other, found in reads.items() if other != name))
        own = {id(named[each]): named[each] for each in reads[name] - others}
        own = {key: node for key, node in own.items() if not set(ast.walk(node)) & {*rows.values()}}
        result[name] = _lines(row), sum(map(_lines, own.values()))
    return result


def test_a_family_is_a_short_table() -> None:
    """A row has at most 60 lines; with what only it reads in its module, at most 90."""
    lines: dict[str, tuple[int, int]] = {}
    for path in Path(hugging_face_config.__file__).parent.glob("hugging_face_*.py"):
        lines |= _lines_of_families(path)
    assert len(lines) > 20
    assert {name: row for name, (row, _) in lines.items() if row > 60} == {}
    assert {name: count for name, count in lines.items() if sum(count) > 90} == {}


@pytest.mark.parametrize(
    ("family", "key", "value", "named"),
    [
        ("bert", "position_embedding_type", "alibi", "JinaBERT v2"),
        ("bert", "alibi_starting_size", 512, "MosaicBERT"),
        ("xlm_roberta", "lora_adaptations", ["retrieval.query"], "jina-embeddings-v3-hf"),
        ("xlm_roberta", "position_embedding_type", "rotary", "jina-embeddings-v3-hf"),
        ("nomic_bert", "num_experts", 8, "nomic-embed-text-v1.5"),
        ("nomic_bert", "prenorm", True, "nomic-embed-text-v1.5"),
        ("gte", "logn_attention_scale", True, "gte-base-en-v1.5"),
        ("deberta_v2", "conv_kernel_size", 3, "deberta-v3-large"),
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
