"""A task's layers with other inputs or outputs, to train."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras

from bert_keras.earlier_names import EarlierNames
from bert_keras.layers.sharing import described, rebuilt
from bert_keras.models.loss_checks import ChecksLosses
from bert_keras.models.task import EARLIER_NAMES, Task
from bert_keras.models.unread import WithoutUnread


class TaskView(EarlierNames, ChecksLosses, WithoutUnread):
    """A view of a task: a model of its layers, and so of its weights.

    Save `task` for use. A saved view rebuilds its task too.

    Attributes:
        task: the task itself.
    """

    earlier_names = EARLIER_NAMES

    def __init__(self, task: Task, inputs: dict, outputs: dict, name: str):
        super().__init__(inputs=inputs, outputs=outputs, name=name)
        self.task = task
        # `compile` scales the loss by this policy (mixed_float16).
        self.dtype_policy = task.dtype_policy

    def get_layer(self, name: str | None = None, index: int | None = None) -> Any:
        """Return a layer of the view; under the name "encoder" the encoder of the task."""
        if name in (self.task.encoder.name, "encoder") and index is None:
            return self.task.encoder
        return super().get_layer(name, index)

    @described
    def get_config(self) -> dict[str, Any]:
        """Return what `from_config` rebuilds the view from: its task."""
        return {"name": self.name, "task": keras.saving.serialize_keras_object(self.task)}

    @classmethod
    @rebuilt
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """Rebuild the view and its task, with new weights."""
        values = dict(config)
        name = values.pop("name")
        for key, value in values.items():
            if isinstance(value, dict) and "class_name" in value:
                values[key] = keras.saving.deserialize_keras_object(value, custom_objects)
        view: Any = cls(**values)
        view.name = name
        return view

    @property
    def not_logits(self) -> Sequence[str]:
        """Those of the task."""
        return self.task.not_logits

    @property
    def unused_variables(self) -> Sequence[Any]:
        """Those of the task."""
        return self.task.unused_variables
