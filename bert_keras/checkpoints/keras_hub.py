"""Conversion between our models and KerasHub's backbones and tasks in memory."""

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
_METADATA_KEYS = ("keras_version", "keras_hub_version", "parameter_count", "date_saved", "tasks")
# Key in metadata.json for options of our tasks that KerasHub's files have no key for.
_OURS = "bert_keras"
_PROMPTS = ("prompts", "default_prompt_name")
_EXTRA_OF = {
    "SequenceClassifier": ("labels", "problem", "activation", *_PROMPTS),
    "SentenceEncoder": ("similarity", *_PROMPTS),
}
_EXTRA = tuple(dict.fromkeys(name for names in _EXTRA_OF.values() for name in names))
_PACKAGES = ("keras_hub", "keras_nlp")  # the second is its old name
_ENCODER_ALONE = (
    "Convert its encoder alone, `task.encoder`, or save the task in the format hugging_face, which "
    "stores all options."
)
_POOLINGS = ("mean", "cls", "max")  # poolings that KerasHub has
# Options that may differ from KerasHub's: dropout does not change the outputs of inference.
_FREE = ("hidden_dropout",)


def class_of(values: Mapping[str, Any]) -> str | None:
    """Return the KerasHub class that a JSON file describes; None if it describes another object."""
    package, _, name = str(values.get("registered_name", "")).partition(">")
    return name if package in _PACKAGES else None


def find_task(class_name: str | None) -> tuple[str, Head] | None:
    """Return the backbone class and the head of a KerasHub task class; None if it is not known."""
    for backbone, row in BACKBONES.items():
        for ending, head in row.heads.items():
            stem = backbone.removesuffix("Backbone")
            # `BertClassifier` is the older name of `BertTextClassifier`.
            if class_name in (stem + ending, stem + ending.removeprefix("Text")):
                return backbone, head
    return None


def with_head(names: NameMap, head: Head, *, file: bool) -> NameMap:
    """Return the names of a backbone's variables with those of a head added.

    Args:
        names: names of the backbone's variables.
        head: the head.
        file: True for names in task.weights.h5, False for paths in memory.
    """
    place, start = int(file), f"{WEIGHTS}/" if file else ""
    modules = {ours: start + both[place] for ours, both in head.modules.items()}
    whole = {ours: LeafRule(start + both[place]) for ours, both in head.whole.items()}
    return dataclasses.replace(
        names, modules={**names.modules, **modules}, whole={**names.whole, **whole}
    )


def read_options(
    head: Head, values: Mapping[str, Any], config: BertConfig, what: str
) -> dict[str, Any]:
    """Translate the config of a KerasHub task to the options of ours.

    Args:
        head: head of the task.
        values: config of the task.
        config: config of the encoder.
        what: file or class, for messages.

    Raises:
        ArtifactError: if a value is missing, or our task cannot compute the same outputs.
    """
    if missing := sorted(set(head.keys.values()) - set(values)):
        raise ArtifactError(
            f"{what}: missing: {', '.join(missing)}. Add the arguments that the task was made with."
        )
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
            f"with hidden_dim={config.hidden_size}. Only heads as wide as their backbone can be "
            "converted. Open the encoder alone: BertEncoder.from_preset."
        )
    return {**head.fixed, **{ours: values[theirs] for ours, theirs in head.keys.items()}}


def options_of_a_new_head(backbone: Backbone, class_name: str, config: BertConfig) -> dict:
    """Return the options of a new head: those that KerasHub's task of this class always has.

    Options that the encoder's config has too keep the encoder's values.
    """
    for head in backbone.heads.values():
        if head.class_name == class_name:
            return {ours: value for ours, value in head.fixed.items() if not hasattr(config, ours)}
    return {}


def _backbones_of(family: str) -> list[str]:
    """Return the backbone classes of a model family: first those that have its name."""
    names = [name for name, row in BACKBONES.items() if family in row.families]
    return sorted(names, key=lambda name: BACKBONES[name].families.index(family))


def write_options(task: Task, family: str) -> tuple[str, str, Head, dict[str, Any]]:
    """Translate one of our tasks to KerasHub.

    Args:
        task: the task.
        family: model family of its encoder.

    Returns:
        Name of the backbone class, name of the task class, the head, arguments of the task class.

    Raises:
        UsageError: if KerasHub has no such class, or the class cannot have the task's options.
    """
    ours = type(task).__name__
    rows = [
        (backbone, backbone.removesuffix("Backbone") + ending, head)
        for backbone in _backbones_of(family)
        for ending, head in BACKBONES[backbone].heads.items()
        if head.class_name == ours
    ]
    if not rows:
        raise UsageError(f"KerasHub has no {ours} of the family {family}. {_ENCODER_ALONE}")
    (backbone, name, head), config = rows[0], task.encoder.config
    if not hugging_face.has_hugging_face_head(task.options):
        raise UsageError(
            f"KerasHub's {name} reads the last layer alone. "
            f"Received: representation={task.options['representation']!r}. {_ENCODER_ALONE}"
        )

    def value(option: str) -> Any:
        """Return an option of the task, or the encoder's value if the task leaves it to that."""
        own = task.options[option]
        return getattr(config, option, None) if own is None else own

    known = {*head.keys, *head.fixed, *_FREE, *_EXTRA_OF.get(ours, ()), "representation"}
    lost = {option: own for option, own in task.options.items() if option not in known}
    if ours == "SentenceEncoder" and task.options["pooling"] not in _POOLINGS:
        lost["pooling"] = task.options["pooling"]
    if lost:
        raise UsageError(
            f"KerasHub's {name} has no place for {', '.join(lost)}. Received: {lost}. "
            f"{_ENCODER_ALONE}"
        )
    fixed = {option: theirs for option, theirs in head.fixed.items() if option not in _FREE}
    if fixed != (received := {option: value(option) for option in fixed}):
        raise UsageError(
            f"KerasHub's {name} always has {fixed}. Received: {received}. {_ENCODER_ALONE}"
        )
    return backbone, name, head, {theirs: value(option) for option, theirs in head.keys.items()}


def extra_of(task: Task) -> dict[str, Any]:
    """Return the options that KerasHub has no key for. They are written into metadata.json."""
    names = _EXTRA_OF.get(type(task).__name__, ())
    extra = {name: task.options[name] for name in names if name in task.options}
    return {_OURS: extra} if extra else {}


def read_extra(directory: Path) -> dict[str, Any]:
    """Return the options that `extra_of` wrote; {} for a folder that KerasHub wrote."""
    path = directory / METADATA
    values = file_io.read_object(path) if path.is_file() else {}
    file_io.warn_of_unknown_keys(path, values, {*_METADATA_KEYS, _OURS})
    extra = values.get(_OURS, {})
    if not isinstance(extra, dict) or not set(extra) <= set(_EXTRA):
        raise ArtifactError(
            f"{path}: {_OURS} must be an object with no other keys than {', '.join(_EXTRA)}. "
            f"Received: {extra!r:.200}. Remove the other keys."
        )
    return extra


# === KerasHub's classes ===


@dataclasses.dataclass(frozen=True)
class Target:
    """The KerasHub backbone, and perhaps task, that one of our models is converted to.

    Attributes:
        config: config of our encoder.
        name: name of the backbone class.
        values: arguments of the backbone class.
        task_name: name of the task class; "" for an encoder.
        head: head of the task; None for an encoder.
        arguments: arguments of the task class.
        segment: embedding of RoBERTa's only segment, shape (embedding size,), else None. KerasHub
            has no segment table, so it is added to every row of the position table.
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
        """Find the KerasHub classes for one of our models.

        RoBERTa and XLM-R differ only in the name. Where one has no class of the task, the other
        is taken.

        Raises:
            UsageError: if KerasHub has no such model.
        """
        encoder = encoder_of(model)
        config = encoder.config
        task_name, head, arguments = "", None, {}
        names = _backbones_of(config.family)
        if not names:
            raise UsageError(
                f"KerasHub has no encoder of the family {config.family}. Save the model in the "
                "format hugging_face."
            )
        name = names[0]
        if is_task(model):
            name, task_name, head, arguments = write_options(model, config.family)
        values = {theirs: getattr(config, ours) for ours, theirs in BACKBONES[name].keys.items()}
        _check(config, name, values)
        segment = None
        if config.num_segments and "num_segments" not in BACKBONES[name].keys:
            table: Any = encoder.embeddings.segment
            segment = streaming.finite(table.embeddings)[0]
        return cls(config, name, values, task_name, head, arguments, segment)

    @property
    def backbone(self) -> Backbone:
        """Names and options of the backbone class."""
        return BACKBONES[self.name]


def _check(config: BertConfig, name: str, values: dict[str, Any]) -> None:
    """Check that a backbone with these arguments computes what an encoder of `config` does.

    Raises:
        UsageError: if the backbone class has another value that it cannot change.
    """
    stated = read_config_of(BACKBONES[name], values, name)
    free = ("attention_dropout", "initializer_range", "pooler", "family")
    differ = {
        key: value
        for key, value in config.to_dict().items()
        if key not in free and getattr(stated, key) != getattr(config, key)
    }
    if differ:
        raise UsageError(
            f"KerasHub's {name} cannot have these values of the encoder: {differ}. Save the model "
            "in the format hugging_face."
        )


# === Models in memory ===


@dataclasses.dataclass(frozen=True)
class Source:
    """A KerasHub model in memory, described as one of our models.

    Attributes:
        class_name: name of our task class; None for an encoder.
        config: config of our encoder.
        options: options of our task.
        names: map from our variable paths to KerasHub's.
        weights: KerasHub's variables, by their path.
    """

    class_name: str | None
    config: BertConfig
    options: dict[str, Any]
    names: NameMap
    weights: dict[str, Any]

    @classmethod
    def of(cls, model: Any) -> Source:
        """Read the class and the arguments of a KerasHub backbone or task.

        Raises:
            UsageError: if the class is not known, or has a value that is not supported here.
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
            options = read_options(head, model.get_config(), config, class_name) if head else {}
        except ArtifactError as error:
            raise UsageError(str(error)) from error
        names = _names(backbone, head, config)
        weights = {variable.path: variable for variable in model.weights}
        return cls(head.class_name if head else None, config, options, names, weights)

    def fill(self, model: BertEncoder | Task) -> None:
        """Assign the weights of the KerasHub model to one of our models.

        Variables that KerasHub does not have, such as a bias, become zeros.

        Raises:
            NumericError: if a weight is not finite.
        """
        for spec in _tensor_specs(self.names, model):
            spec.variable.assign(
                spec.layout.to_keras_layout(streaming.finite(self.weights[spec.tensor]))
            )
        self.names.set_zeros(model.weights)


def to_keras_hub(model: BertEncoder | Task) -> Any:
    """Build a KerasHub backbone or task with the weights and the outputs of one of our models.

    If our encoder has no pooler and KerasHub's backbone has one, the pooler's weights are zeros.
    KerasHub's RoBERTa and XLM-R compute the same. The result is a RoBERTa, but an XLM-R if KerasHub
    has the task for XLM-R alone.

    Raises:
        UsageError: if KerasHub has no such model.
        NumericError: if a weight is not finite.
        ImportError: if KerasHub is not installed.
    """
    try:
        import keras_hub
    except ImportError as error:
        raise ImportError("Such a model needs KerasHub: pip install keras-hub") from error
    target = Target.of(model)
    keras_hub_model = getattr(keras_hub.models, target.name)(
        **target.values, dtype=model.dtype_policy
    )
    if target.task_name:
        task_class = getattr(keras_hub.models, target.task_name)
        keras_hub_model = task_class(backbone=keras_hub_model, **target.arguments)
    names = _names(target.backbone, target.head, target.config, target.segment)
    specs = {spec.tensor: spec for spec in _tensor_specs(names, model)}
    for variable in keras_hub_model.weights:
        if spec := specs.get(variable.path):
            variable.assign(spec.layout.to_checkpoint_layout(streaming.finite(spec.variable)))
        else:
            variable.assign(np.zeros(variable.shape))
    return keras_hub_model


def _names(
    backbone: Backbone, head: Head | None, config: BertConfig, segment: np.ndarray | None = None
) -> NameMap:
    """Return the paths of the variables of a KerasHub model in memory."""
    names = names_by(backbone.modules, LEAVES, config, segment)
    return with_head(names, head, file=False) if head else names


def _tensor_specs(names: NameMap, model: BertEncoder | Task) -> list[TensorSpec]:
    """Return the variables of our model with the paths of KerasHub's variables."""
    return names.tensor_specs(
        [weight for weight in plain_weights(model) if names.knows(weight.path)]
    )
