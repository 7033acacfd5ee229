"""A task's layers with other inputs or outputs: to train, never to keep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bert_keras.models.task import Task
from bert_keras.models.unread import WithoutUnread


class TaskView(WithoutUnread):
    """A view of a task: a model of its layers, and so of its weights.

    What is kept is `task`: save that one.

    Attributes:
        task: the task itself.
    """

    def __init__(self, task: Task, inputs: dict, outputs: dict, name: str):
        super().__init__(inputs=inputs, outputs=outputs, name=name)
        self.task = task
        # `compile` scales the loss by this policy (mixed_float16).
        self.dtype_policy = task.dtype_policy

    @property
    def unread(self) -> Sequence[Any]:
        """Those of the task."""
        return self.task.unread
