"""KerasHub's backbones and tasks in memory: classes, heads and arguments."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bert_keras import file_io
from bert_keras.checkpoints import hugging_face, hugging_face_names, streaming
from bert_keras.checkpoints.checkpoint import encoder_of, is_task
from bert_keras.checkpoints.keras_hub_names import (
    BACKBONES,
    LEAVES,
    Backbone,
    Head,
    names_by,
    read_config_of,
)
from bert_keras.checkpoints.name_mapping import LeafRule, NameMap, TensorSpec
from bert_keras.config import BertConfig
from bert_keras.errors import ArtifactError, UsageError
from bert_keras.layers.state import plain_weights

if TYPE_CHECKING:
    from bert_keras.models import BertEncoder, Task

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


def find_task(class_name: str | None) -> tuple[str, Head] | None:
    """The backbone's class and the head of a task class of theirs; None where we have no row."""
    for backbone, row in BACKBONES.items():
        for ending, head in row.heads.items():
            stem = backbone.removesuffix("Backbone")
            # `BertClassifier` is the older name of `BertTextClassifier`.
            if class_name in (stem + ending, stem + ending.removeprefix("Text")):
                return backbone, head
    return None


def with_head(names: NameMap, head: Head, *, file: bool) -> NameMap:
    """The names of a backbone's variables, and those of a head's, in memory or in a file."""
    place, start = int(file), f"{WEIGHTS}/" if file else ""
    modules = {ours: start + both[place] for ours, both in head.modules.items()}
    whole = {ours: LeafRule(start + both[place]) for ours, both in head.whole.items()}
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
    known = {
        *head.keys.values(),
        *hugging_face_names.KERAS_LAYER,
        "backbone",
        "activation",
        "hidden_dim",
    }
    file_io.refuse_unknown_keys(what, values, known)
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
    if not hugging_face.are_theirs(task.options):
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
    """Return the options that `extra_of` wrote; {} for a folder that KerasHub wrote."""
    path = directory / METADATA
    values = file_io.read_object(path) if path.is_file() else {}
    file_io.warn_of_unknown_keys(path, values, {*hugging_face_names.METADATA, _OURS})
    extra = values.get(_OURS, {})
    if not isinstance(extra, dict) or not set(extra) <= set(_EXTRA):
        raise ArtifactError(f"{path}: {_OURS} must tell {', '.join(_EXTRA)}. Received: {extra!r}")
    return extra


# === KerasHub's classes ===


@dataclasses.dataclass(frozen=True)
class Target:
    """A backbone of theirs, and a task over it.

    Attributes:
        config: of our encoder.
        name: of the backbone's class.
        values: its arguments.
        task_name: of the task's class; "" without a task.
        head: what the task adds.
        arguments: those of the task.
        segment: the vector of RoBERTa's one segment, which is part of every position there.
    """

    config: BertConfig
    name: str
    values: dict[str, Any]
    task_name: str = ""
    head: Head | None = None
    arguments: dict[str, Any] = dataclasses.field(default_factory=dict)
    segment: Any = None

    @classmethod
    def of(cls, model: BertEncoder | Task) -> Target:
        """Of RoBERTa and XLM-R, which differ in the name alone, RoBERTa where it has the class.

        Raises:
            UsageError: they have no such model.
        """
        encoder = encoder_of(model)
        config = encoder.config
        task_name, head, arguments = "", None, {}
        name = next(name for name, each in BACKBONES.items() if each.family == config.family)
        if is_task(model):
            name, task_name, head, arguments = write_options(model, config.family)
        values = {theirs: getattr(config, ours) for ours, theirs in BACKBONES[name].keys.items()}
        _check(config, name, values)
        segment = None
        if config.family == "roberta":
            table: Any = encoder.embeddings.segment
            segment = streaming.finite(table.embeddings)[0]
        return cls(config, name, values, task_name, head, arguments, segment)

    @property
    def backbone(self) -> Backbone:
        """The row of the backbone."""
        return BACKBONES[self.name]


def _check(config: BertConfig, name: str, values: dict[str, Any]) -> None:
    told = read_config_of(BACKBONES[name], values, name).to_dict()
    free = ("attention_dropout", "initializer_range", "pooler")
    differ = {
        key: value
        for key, value in config.to_dict().items()
        if key not in free and told[key] != value
    }
    if differ:
        raise UsageError(f"KerasHub's {name} is always otherwise: {differ}")


# === Models in memory ===


@dataclasses.dataclass(frozen=True)
class Source:
    """A model of KerasHub in memory, read as one of ours.

    Attributes:
        class_name: of our task; None for an encoder.
        config: of our encoder.
        options: of our task.
        names: their paths of the variables.
        weights: their variables, by path.
    """

    class_name: str | None
    config: BertConfig
    options: dict[str, Any]
    names: NameMap
    weights: dict[str, Any]

    @classmethod
    def of(cls, model: Any) -> Source:
        """Read the classes and arguments of their backbone or task.

        Raises:
            UsageError: another class, or one with values that we have not.
        """
        class_name = type(model).__name__
        name, head = find_task(class_name) or (class_name, None)
        if name not in BACKBONES:
            raise UsageError(
                f"Expected one of {', '.join(BACKBONES)} or a task over one. Received: {class_name}"
            )
        backbone = BACKBONES[name]
        their_config = (model.backbone if head else model).get_config()
        try:
            config = read_config_of(backbone, their_config, name)
            told = read_options(head, model.get_config(), config, class_name) if head else {}
        except ArtifactError as error:
            raise UsageError(str(error)) from error
        names = _names(backbone, head, config)
        weights = {variable.path: variable for variable in model.weights}
        return cls(head.class_name if head else None, config, told, names, weights)

    def fill(self, model: BertEncoder | Task) -> None:
        """Assign their weights to a model of ours."""
        for entry in _entries(self.names, model):
            entry.variable.assign(entry.leaf.ours(streaming.finite(self.weights[entry.tensor])))
        self.names.clear(model.weights)


def to_keras_hub(model: BertEncoder | Task) -> Any:
    """Makes a KerasHub backbone or task of a model of ours, with the same outputs.

    Their pooler, which not every encoder of ours has, is then all zeros. Of RoBERTa and XLM-R,
    which differ in nothing but the name, it makes a RoBERTa where there is such a class.

    Raises:
        UsageError: they have no such model.
        ImportError: KerasHub is not installed.
    """
    try:
        import keras_hub
    except ImportError as error:
        raise ImportError("Such a model needs KerasHub: pip install keras-hub") from error
    target = Target.of(model)
    made = getattr(keras_hub.models, target.name)(**target.values, dtype=model.dtype_policy)
    if target.task_name:
        made = getattr(keras_hub.models, target.task_name)(backbone=made, **target.arguments)
    names = _names(target.backbone, target.head, target.config, target.segment)
    entries = {entry.tensor: entry for entry in _entries(names, model)}
    for variable in made.weights:
        if entry := entries.get(variable.path):
            variable.assign(entry.leaf.theirs(streaming.finite(entry.variable)))
        else:
            variable.assign(np.zeros(variable.shape))
    return made


def _names(
    backbone: Backbone, head: Head | None, config: BertConfig, segment: np.ndarray | None = None
) -> NameMap:
    """The names of the variables of a model in memory."""
    names = names_by(backbone.modules, LEAVES, config, segment)
    return with_head(names, head, file=False) if head else names


def _entries(names: NameMap, model: BertEncoder | Task) -> list[TensorSpec]:
    """The model's variables with the paths of those of theirs in memory."""
    return names.entries([weight for weight in plain_weights(model) if names.knows(weight.path)])
