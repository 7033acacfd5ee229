"""KerasHub's backbones and tasks in memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from bert_keras import models
from bert_keras.checkpoints import keras_hub_tasks as tasks
from bert_keras.checkpoints import transfer
from bert_keras.checkpoints.format import Entry, Names
from bert_keras.checkpoints.keras_hub_layout import LEAVES, names_by, read_config_of
from bert_keras.checkpoints.keras_hub_names import BACKBONES, Backbone, Head
from bert_keras.checkpoints.keras_hub_target import Target
from bert_keras.config import BertConfig
from bert_keras.errors import ArtifactError, UsageError
from bert_keras.models import BertEncoder, Task
from bert_keras.models.lora import plain_weights


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
    target = Target.of(model)
    made = getattr(keras_hub.models, target.name)(**target.values, dtype=model.dtype_policy)
    if target.task_name:
        made = getattr(keras_hub.models, target.task_name)(backbone=made, **target.arguments)
    names = _names(target.backbone, target.head, target.config, target.segment)
    entries = {entry.tensor: entry for entry in _entries(names, model)}
    for variable in made.weights:
        if entry := entries.get(variable.path):
            variable.assign(entry.leaf.theirs(transfer.finite(entry.variable)))
        else:
            variable.assign(np.zeros(variable.shape))
    return made


def _names(
    backbone: Backbone, head: Head | None, config: BertConfig, segment: np.ndarray | None = None
) -> Names:
    """The names of the variables of a model in memory."""
    names = names_by(backbone.modules, LEAVES, config, segment)
    return tasks.with_head(names, head, file=False) if head else names


def _entries(names: Names, model: BertEncoder | Task) -> list[Entry]:
    """The model's variables with the paths of those of theirs in memory."""
    return names.entries([weight for weight in plain_weights(model) if names.knows(weight.path)])
