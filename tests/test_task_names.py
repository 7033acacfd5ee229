"""The list of the tasks is whole, and every place that names tasks has its names."""

from __future__ import annotations

import dataclasses

import pytest

import bert_keras as bk
from bert_keras.models import Task
from bert_keras.task_names import FINETUNED, PRETRAINED, names_of
from bert_keras.training.finetune_recipe import KINDS, FinetuneRecipe
from bert_keras.training.overrides import RENAMED_TASKS
from bert_keras.training.values import rules_of

_CLASSES = sorted(
    name
    for name in bk.__all__
    if isinstance(getattr(bk, name), type) and issubclass(getattr(bk, name), Task)
)


@pytest.mark.parametrize("name", _CLASSES)
def test_every_task_class_has_a_name(name: str) -> None:
    assert names_of(name)


def test_every_name_is_of_a_task_class() -> None:
    for classes in (*FINETUNED.values(), *PRETRAINED.values()):
        assert set(classes) <= set(_CLASSES)
    assert not FINETUNED.keys() & PRETRAINED.keys()


def test_recipes_have_these_names() -> None:
    assert tuple(FINETUNED) == KINDS
    assert set(RENAMED_TASKS.values()) <= set(FINETUNED)
    named = {task for _, rule in rules_of(FinetuneRecipe) for task in rule.tasks}
    assert named <= set(FINETUNED)
    (rule,) = (rule for field, rule in rules_of(FinetuneRecipe) if field.name == "task")
    assert rule.choices == KINDS
    assert dataclasses.fields(FinetuneRecipe)[0].name == "task"
