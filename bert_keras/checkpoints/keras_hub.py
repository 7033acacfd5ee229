"""KerasHub's backbones and tasks in memory, and as the preset folders that they write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from bert_keras import models
from bert_keras.checkpoints import keras_hub_tasks as tasks
from bert_keras.checkpoints import transfer
from bert_keras.checkpoints.format import Entry, Names
from bert_keras.checkpoints.keras_hub_layout import LEAVES, POSITIONS, names_by, read_config_of
from bert_keras.checkpoints.keras_hub_names import BACKBONES, Backbone, Head
from bert_keras.config import BertConfig
from bert_keras.errors import ArtifactError, UsageError
from bert_keras.models import BertEncoder, Task


def from_keras_hub(model: Any, *, dtype: Any = None, **options: Any) -> BertEncoder | Task:
    """Makes a model of ours of one of KerasHub's in memory, with the same weights.

    Args:
        model: a `BertBackbone`, `RobertaBackbone`, `XLMRobertaBackbone`, `DistilBertBackbone`,
            `AlbertBackbone` or `ElectraBackbone`; or a task over one: a text classifier
            (`SequenceClassifier`), a masked LM (`MaskedLM`) or a text embedder
            (`SentenceEncoder`). Its preprocessor is left aside.
        dtype: a Keras dtype policy; None for the global one.
        options: of our class, such as `labels` of a `SequenceClassifier`, which theirs has not.

    Raises:
        UsageError: another class, or one with values that we have not.
    """
    class_name = type(model).__name__
    name, head = tasks.find(class_name) or (class_name, None)
    if name not in BACKBONES:
        raise UsageError(
            f"Expected one of {', '.join(BACKBONES)} or a task over one. Received: {class_name}"
        )
    backbone = BACKBONES[name]
    their_config = (model.backbone if head else model).get_config()
    try:
        config = read_config_of(backbone, their_config, name)
        if head:
            options = {
                **tasks.read_options(head, model.get_config(), config, class_name),
                **options,
            }
    except ArtifactError as error:
        raise UsageError(str(error)) from error
    if head:
        made = getattr(models, head.class_name)(BertEncoder(config, dtype=dtype), **options)
    else:
        made = BertEncoder(config, dtype=dtype, **options)
    theirs = {variable.path: variable for variable in model.weights}
    names = _names(backbone, head, config)
    for entry in _entries(names, made):
        entry.variable.assign(entry.leaf.ours(transfer.finite(theirs[entry.tensor])))
    names.clear(made.weights)
    return made


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
    encoder = model.encoder if isinstance(model, Task) else model
    config = encoder.config
    task_name, head, arguments = "", None, {}
    name = next(name for name, each in BACKBONES.items() if each.family == config.family)
    if isinstance(model, Task):
        name, task_name, head, arguments = tasks.write_options(model, config.family)
    backbone = BACKBONES[name]
    values = {theirs: getattr(config, ours) for ours, theirs in backbone.keys.items()}
    _check_config(config, name, values)
    made = getattr(keras_hub.models, name)(**values, dtype=encoder.dtype_policy)
    if task_name:
        made = getattr(keras_hub.models, task_name)(backbone=made, **arguments)
    entries = _entries(_names(backbone, head, config), model)
    arrays = {entry.tensor: entry.leaf.theirs(transfer.finite(entry.variable)) for entry in entries}
    if config.family == "roberta":  # their positions hold the one segment that they have not
        (position,) = (entry.tensor for entry in entries if entry.path == POSITIONS)
        segment: Any = encoder.embeddings.segment
        arrays[position] = arrays[position] + transfer.finite(segment.embeddings)[0]
    for variable in made.weights:
        variable.assign(arrays.get(variable.path, np.zeros(variable.shape)))
    return made


def _check_config(config: BertConfig, name: str, values: dict[str, Any]) -> None:
    told = read_config_of(BACKBONES[name], values, name).to_dict()
    free = ("attention_dropout", "initializer_range", "pooler")
    differ = {
        key: value
        for key, value in config.to_dict().items()
        if key not in free and told[key] != value
    }
    if differ:
        raise UsageError(f"KerasHub's {name} is always otherwise: {differ}")


def save(model: BertEncoder | Task, directory: Path) -> None:
    """Writes a model as a preset folder of KerasHub.

    Raises:
        UsageError: one that they have not.
    """
    made = to_keras_hub(model)
    for name in (tasks.TASK, tasks.WEIGHTS):  # another model's head must not stay beside this one
        (directory / name).unlink(missing_ok=True)
    made.save_to_preset(str(directory))
    if isinstance(model, Task):
        tasks.write_extra(directory, model)


def _names(backbone: Backbone, head: Head | None, config: BertConfig) -> Names:
    """The names of the variables of a model in memory."""
    names = names_by(backbone.modules, LEAVES, config)
    return tasks.with_head(names, head, file=False) if head else names


def _entries(names: Names, model: BertEncoder | Task) -> list[Entry]:
    """The model's variables with the paths of those of theirs in memory."""
    return names.entries([weight for weight in model.weights if names.knows(weight.path)])
