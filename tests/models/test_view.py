"""Views of a task train its weights, in its precision, and leave alone what it does not read."""

from __future__ import annotations

from collections.abc import Callable

import keras
import pytest

from bert_keras import BertEncoder, MaskedLM, Pretrainer
from bert_keras.models import Task
from bert_keras.models.view import TaskView
from tests.contracts import TINY

VIEWS: dict[str, Callable[[Task], TaskView]] = {
    "packed": lambda task: task.packed(),
    "chunked": lambda task: task.in_chunks(2),
    "both": lambda task: task.packed().in_chunks(2),
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("kind", [MaskedLM, Pretrainer])
def test_variables_are_the_tasks(name: str, kind: Callable[[BertEncoder], Task]) -> None:
    task = kind(BertEncoder(TINY))
    view = VIEWS[name](task)
    assert view.task is task
    for names in ("weights", "trainable_variables", "non_trainable_weights", "unread"):
        ours, theirs = ({id(each) for each in getattr(model, names)} for model in (view, task))
        assert ours == theirs, names
    assert bool(task.unread) is (kind is MaskedLM)  # TINY has a pooler


@pytest.mark.parametrize("name", VIEWS)
def test_the_loss_is_scaled_where_the_task_is_of_halves(name: str) -> None:
    view = VIEWS[name](MaskedLM(BertEncoder(TINY, dtype="mixed_float16")))
    assert view.dtype_policy.name == "mixed_float16"
    view.compile(keras.optimizers.SGD(0.1), **view.objective())
    assert isinstance(view.optimizer, keras.optimizers.LossScaleOptimizer)
