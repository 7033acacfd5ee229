"""Values of a model that differ from those of the published models of its family."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bert_keras.checkpoints.hugging_face_config import read_config
from bert_keras.checkpoints.hugging_face_family import Family, nested, stated_value
from bert_keras.checkpoints.hugging_face_names import FAMILIES
from bert_keras.config import BertConfig
from bert_keras.errors import ArtifactError
from bert_keras.presets import PRESETS

# Values in which models of one family differ as a rule, or that change no output.
_ALWAYS_DIFFERENT = (
    *("vocab_size", "hidden_size", "num_layers", "num_heads", "intermediate_size"),
    *("max_positions", "embedding_size", "num_unique_layers", "num_key_value_heads", "pooler"),
    *("dropout", "attention_dropout", "intermediate_dropout", "initializer_range", "family"),
)


def of_config(config: BertConfig) -> list[str]:
    """Return a description of each value that no published model of the family has.

    Without a published model in `PRESETS`, the defaults of the family's config.json count.
    """
    usual = _published(FAMILIES[config.family]) or _default(config)
    found: list[str] = []
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        choices = list(dict.fromkeys(getattr(each, field.name) for each in usual))
        if field.name not in _ALWAYS_DIFFERENT and choices and value not in choices:
            found.append(_described(field.name, value, *choices))
    return found


def of_hugging_face(values: Mapping[str, Any], family: Family) -> list[str]:
    """Return a description of each value of a config.json that `BertConfig` does not show.

    Args:
        values: parsed config.json.
        family: its family.
    """
    found: list[str] = []
    pad = values.get("pad_token_id")
    if pad not in (None, family.pad_token_id):
        found.append(_described("pad_token_id", pad, family.pad_token_id))
    tied = family.defaults.get("tie_word_embeddings", True)
    if family.may_be_untied and stated_value(values, "tie_word_embeddings", family) not in (
        None,
        tied,
    ):
        found.append(_described("tie_word_embeddings", not tied, tied))
    found += [
        f"{key}='dynamic' has no effect up to max_position_embeddings"
        for key in _rotations(family)
        if nested(values, key) == "dynamic"
    ]
    kind = values.get("model_type")
    if kind != family.model_types[0]:
        found.append(f"model_type={kind!r:.100} is written as {family.model_types[0]!r}")
    names = dict.fromkeys(
        name
        for names in family.aliases.values()
        for name in names
        if not name.startswith("rope_parameters/")  # a current name beside earlier ones
    )
    if earlier := [name for name in names if nested(values, name) is not None]:
        found.append(f"names of an earlier form: {', '.join(earlier)}")
    if "auto_map" in values:
        found.append("auto_map names code, which is never run")
    return found


def _rotations(family: Family) -> list[str]:
    """Return all keys of a family that state a kind of rotary positions."""
    joint = [key for conversion in family.joint.values() for key in conversion.keys]
    keys = [key for key in (*family.required, *joint) if key.endswith(("/type", "/rope_type"))]
    names = (name for key in keys for name in (key, *family.aliases.get(key, ())))
    return list(dict.fromkeys(names))


def _published(family: Family) -> list[BertConfig]:
    """Return the configs of all presets with the model type of a family."""
    kind = family.model_types[0]
    return [each for each in PRESETS.values() if FAMILIES[each.family].model_types[0] == kind]


def _default(config: BertConfig) -> list[BertConfig]:
    """Return the config that the sizes of a model alone state in its family, if they do."""
    family = FAMILIES[config.family]
    values = {theirs: getattr(config, ours) for ours, theirs in family.sizes.items()}
    values |= {"model_type": family.model_types[0], **family.selected_by}
    try:
        return [read_config(values, Path(), pooler=config.pooler)]
    except ArtifactError:
        return []


def _described(name: str, value: Any, *usual: Any) -> str:
    """Return a value beside the usual ones."""
    return f"{name}={value!r:.100} (usual: {' or '.join(map(repr, usual))})"
