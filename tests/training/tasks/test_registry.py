"""The table of the fine-tuning tasks."""

from __future__ import annotations

from bert_keras.training import finetune_recipe
from bert_keras.training.tasks import TASKS


def test_every_task_of_recipes_has_a_kind() -> None:
    assert tuple(TASKS) == finetune_recipe.TASK_NAMES
