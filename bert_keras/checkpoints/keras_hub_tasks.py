"""KerasHub's task classes: a backbone, a head, and the head's options."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bert_keras import strict_json
from bert_keras.checkpoints import config_keys, head_options
from bert_keras.checkpoints.format import Leaf, Names
from bert_keras.checkpoints.keras_hub_names import BACKBONES, Backbone, Head
from bert_keras.config import BertConfig
from bert_keras.errors import ArtifactError, UsageError
from bert_keras.models import Task

TASK, WEIGHTS, METADATA = "task.json", "task.weights.h5", "metadata.json"
# Where their folders have no place for what a task of ours knows.
_OURS = "bert_keras"
_PROMPTS = ("prompts", "default_prompt_name")
_EXTRA_OF = {
    "SequenceClassifier": ("labels", "problem", "activation", *_PROMPTS),
    "SentenceEncoder": ("similarity", *_PROMPTS),
}
_EXTRA = tuple(dict.fromkeys(name for names in _EXTRA_OF.values() for name in names))
_PACKAGES = ("keras_hub", "keras_nlp")  # the second is its old name
_POOLINGS = ("mean", "cls", "max")  # that they have
# Where they drop, and we need not, changes no output.
_FREE = ("hidden_dropout",)


def class_of(values: Mapping[str, Any]) -> str | None:
    """The class of theirs that a JSON file describes; None if it is no class of theirs."""
    package, _, name = str(values.get("registered_name", "")).partition(">")
    return name if package in _PACKAGES else None


def find(class_name: str | None) -> tuple[str, Head] | None:
    """The backbone's class and the head of a task class of theirs; None where we have no row."""
    for backbone, row in BACKBONES.items():
        for ending, head in row.heads.items():
            stem = backbone.removesuffix("Backbone")
            # `BertClassifier` is the older name of `BertTextClassifier`.
            if class_name in (stem + ending, stem + ending.removeprefix("Text")):
                return backbone, head
    return None


def with_head(names: Names, head: Head, *, file: bool) -> Names:
    """The names of a backbone's variables, and those of a head's, in memory or in a file."""
    place, start = int(file), f"{WEIGHTS}/" if file else ""
    modules = {ours: start + both[place] for ours, both in head.modules.items()}
    whole = {ours: Leaf(start + both[place]) for ours, both in head.whole.items()}
    return dataclasses.replace(
        names, modules={**names.modules, **modules}, whole={**names.whole, **whole}
    )


def read_options(
    head: Head, values: Mapping[str, Any], config: BertConfig, what: str
) -> dict[str, Any]:
    """Our options of a task from its config; `what` is for messages.

    Raises:
        ArtifactError: a value is missing, or changes the outputs in a way that ours have not.
    """
    if missing := sorted(set(head.keys.values()) - set(values)):
        raise ArtifactError(f"{what}: missing: {', '.join(missing)}")
    known = {*head.keys.values(), *config_keys.KERAS_LAYER, "backbone", "activation", "hidden_dim"}
    strict_json.refuse_unknown(what, values, known)
    if values.get("activation", "linear") not in (None, "linear"):
        raise ArtifactError(
            f"{what}: not supported: activation={values['activation']!r}. A {head.class_name} "
            "gives logits: make theirs with activation=None, which has the same weights."
        )
    if values.get("hidden_dim", config.hidden_size) != config.hidden_size:
        raise ArtifactError(
            f"{what}: not supported: hidden_dim={values['hidden_dim']!r} of a head over a backbone "
            f"with hidden_dim={config.hidden_size}"
        )
    return {**head.fixed, **{ours: values[theirs] for ours, theirs in head.keys.items()}}


def options_of_a_new_head(backbone: Backbone, class_name: str, config: BertConfig) -> dict:
    """Our options of a task whose head a folder has not: as theirs, or else as the encoder."""
    for head in backbone.heads.values():
        if head.class_name == class_name:
            return {ours: value for ours, value in head.fixed.items() if not hasattr(config, ours)}
    return {}


def write_options(task: Task, family: str) -> tuple[str, str, Head, dict[str, Any]]:
    """Their classes for a task of this family, backbone and task, the head, and its arguments.

    Raises:
        UsageError: they have no such class, or it always has other options.
    """
    ours = type(task).__name__
    rows = [
        (backbone, backbone.removesuffix("Backbone") + ending, head)
        for backbone, row in BACKBONES.items()
        for ending, head in row.heads.items()
        if row.family == family and head.class_name == ours
    ]
    if not rows:
        raise UsageError(
            f"KerasHub has no {ours} of the family {family}. Write its encoder: task.encoder."
        )
    (backbone, name, head), config = rows[0], task.encoder.config
    if not head_options.are_theirs(task.options):
        raise UsageError(
            f"KerasHub's {name} reads the last layer alone. "
            f"Received: representation={task.options['representation']!r}"
        )

    def value(option: str) -> Any:
        told = task.options[option]
        return getattr(config, option, None) if told is None else told

    known = {*head.keys, *head.fixed, *_FREE, *_EXTRA_OF.get(ours, ()), "representation"}
    lost = {option: told for option, told in task.options.items() if option not in known}
    if ours == "SentenceEncoder" and task.options["pooling"] not in _POOLINGS:
        lost["pooling"] = task.options["pooling"]
    if lost:
        raise UsageError(
            f"KerasHub's {name} has no place for {', '.join(lost)}. Received: {lost}. Write its "
            "encoder: task.encoder; or keep the folder of this package, which has it all."
        )
    fixed = {option: theirs for option, theirs in head.fixed.items() if option not in _FREE}
    if fixed != (received := {option: value(option) for option in fixed}):
        raise UsageError(f"KerasHub's {name} always has {fixed}. Received: {received}")
    return backbone, name, head, {theirs: value(option) for option, theirs in head.keys.items()}


def extra_of(task: Task) -> dict[str, Any]:
    """Return the options that their files have no place for, to be written into `METADATA`."""
    names = _EXTRA_OF.get(type(task).__name__, ())
    extra = {name: task.options[name] for name in names if name in task.options}
    return {_OURS: extra} if extra else {}


def read_extra(directory: Path) -> dict[str, Any]:
    """What `extra_of` gave; nothing in a folder of theirs."""
    path = directory / METADATA
    values = strict_json.read_object(path) if path.is_file() else {}
    strict_json.warn_of_unknown(path, values, {*config_keys.METADATA, _OURS})
    extra = values.get(_OURS, {})
    if not isinstance(extra, dict) or not set(extra) <= set(_EXTRA):
        raise ArtifactError(f"{path}: {_OURS} must tell {', '.join(_EXTRA)}. Received: {extra!r}")
    return extra
