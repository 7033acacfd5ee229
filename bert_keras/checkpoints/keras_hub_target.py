"""Which of KerasHub's classes a model of ours becomes, and with which arguments."""

from __future__ import annotations

import dataclasses
from typing import Any

from bert_keras.checkpoints import keras_hub_tasks as tasks
from bert_keras.checkpoints import transfer
from bert_keras.checkpoints.keras_hub_layout import read_config_of
from bert_keras.checkpoints.keras_hub_names import BACKBONES, Backbone, Head
from bert_keras.config import BertConfig
from bert_keras.errors import UsageError
from bert_keras.models import BertEncoder, Task


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
        encoder = model.encoder if isinstance(model, Task) else model
        config = encoder.config
        task_name, head, arguments = "", None, {}
        name = next(name for name, each in BACKBONES.items() if each.family == config.family)
        if isinstance(model, Task):
            name, task_name, head, arguments = tasks.write_options(model, config.family)
        values = {theirs: getattr(config, ours) for ours, theirs in BACKBONES[name].keys.items()}
        _check(config, name, values)
        segment = None
        if config.family == "roberta":
            table: Any = encoder.embeddings.segment
            segment = transfer.finite(table.embeddings)[0]
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
