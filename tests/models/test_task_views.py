"""Views train the weights of their task, in its precision, and leave unused weights alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras import BertEncoder, MaskedLM, Pretrainer, SequenceClassifier
from bert_keras.models import Distiller, Task
from bert_keras.models.task_views import TaskView
from tests.contracts import TINY, batch, numpy

VIEWS: dict[str, Callable[[Task], TaskView]] = {
    "packed": lambda task: task.packed(),
    "chunked": lambda task: task.loss_chunks(2),
    "both": lambda task: task.packed().loss_chunks(2),
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("kind", [MaskedLM, Pretrainer])
def test_variables_are_the_tasks(name: str, kind: Callable[[BertEncoder], Task]) -> None:
    task = kind(BertEncoder(TINY))
    view = VIEWS[name](task)
    assert view.task is task
    for names in ("weights", "trainable_variables", "non_trainable_weights", "unused_variables"):
        ours, theirs = ({id(each) for each in getattr(model, names)} for model in (view, task))
        assert ours == theirs, names
    # TINY has a pooler, which only MaskedLM does not use
    assert bool(task.unused_variables) is (kind is MaskedLM)


@pytest.mark.parametrize("name", VIEWS)
def test_the_loss_is_scaled_where_the_task_is_of_halves(name: str) -> None:
    view = VIEWS[name](MaskedLM(BertEncoder(TINY, dtype="mixed_float16")))
    assert view.dtype_policy.name == "mixed_float16"
    view.compile(keras.optimizers.SGD(0.1), **view.loss_and_metrics())
    assert isinstance(view.optimizer, keras.optimizers.LossScaleOptimizer)


def _distiller() -> tuple[Distiller, dict[str, np.ndarray], dict[str, np.ndarray]]:
    student, teacher = (SequenceClassifier(BertEncoder(TINY), 3) for _ in range(2))
    return Distiller(student, teacher, alpha=0.3), batch(TINY), {"label": np.array([0, 1, 2])}


def _chunked() -> tuple[TaskView, dict[str, np.ndarray], dict[str, np.ndarray]]:
    labels = np.arange(6, dtype="int32").reshape(3, 2)
    view = MaskedLM(BertEncoder(TINY)).loss_chunks(3)
    return view, batch(TINY, predictions=2), {"mlm": labels}


@pytest.mark.parametrize("make", [_distiller, _chunked])
def test_a_saved_view_goes_on_with_its_loss(make: Callable, tmp_path: Path) -> None:
    """The loss of a loaded view uses the weights and updates the metrics of the loaded view."""
    view, x, y = make()
    view.compile(keras.optimizers.SGD(0.1), **view.loss_and_metrics())
    view.save(tmp_path / "view.keras")
    loaded: Any = keras.models.load_model(tmp_path / "view.keras")
    assert type(loaded) is type(view)
    assert loaded.task.get_layer("encoder") is loaded.get_layer("encoder")
    losses = [float(numpy(model.compute_loss(x, y, model(x)))) for model in (view, loaded)]
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-6)
    if hasattr(view, "mlm_accuracy"):
        counts = [float(numpy(model.mlm_accuracy.count)) for model in (view, loaded)]
        assert counts == [3.0, 3.0]  # number of rows
    loaded.task.set_weights([np.zeros_like(weight) for weight in loaded.task.get_weights()])
    assert float(numpy(loaded.compute_loss(x, y, loaded(x)))) != losses[0]
