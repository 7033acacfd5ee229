"""Setup of a training: seeds, devices and compilation; and models without values.

The dtype of a recipe is an argument of each encoder (docs/decisions.md, 109).
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import keras

from bert_keras.models import Task
from bert_keras.optimization import optimizer
from bert_keras.training.recipe_base import JIT, RunRecipe

_Model = TypeVar("_Model")


def set_seed_and_devices(seed: int) -> None:
    """Set the seeds of Python, NumPy and the backend, before a model is built.

    The model is placed on the backend's default device. A distribution over several devices would
    be set here, because Keras needs it before the first variable.
    """
    keras.utils.set_random_seed(seed)


def compile_for(
    recipe: RunRecipe,
    model: Any,
    total_steps: int,
    *,
    warmup_steps: int,
    learning_rate: float = 0.0,
    **options: Any,
) -> None:
    """Compile a model with its own loss and metrics and the recipe's optimizer.

    Args:
        recipe: recipe with the values of optimizer, schedule and jit_compile.
        model: a task, or a view of one.
        total_steps: updates of the whole training.
        warmup_steps: updates in which the learning rate rises.
        learning_rate: highest learning rate; 0 for that of the recipe.
        options: further options of `bert_keras.optimization.optimizer`.
    """
    model.compile(
        optimizer(
            learning_rate or recipe.learning_rate,
            total_steps=total_steps,
            warmup_steps=warmup_steps,
            schedule=recipe.schedule,
            name=recipe.optimizer,
            weight_decay=recipe.weight_decay,
            clip_norm=recipe.clip_norm or None,
            **options,
        ),
        jit_compile=JIT[recipe.jit_compile],
        **model.loss_and_metrics(),
    )


def compile_to_evaluate(recipe: RunRecipe, task: Task) -> None:
    """Compile a task that was trained through a view of it, so that it can be evaluated."""
    if not task.compiled:
        task.compile(**task.loss_and_metrics(), jit_compile=JIT[recipe.jit_compile])


# === Models without values ===


def build_shapes(build: Callable[[], _Model]) -> _Model:
    """Build a model whose variables have shapes and no values, so that it takes no memory.

    The model has `count_params` and its config, but it cannot be called. Inside a
    `keras.StatelessScope` a variable is not initialized until it is needed. Leaving a later scope
    would initialize all such variables. Keras keeps a list of them for each thread, so the model is
    built in a thread of its own, and the list ends with the thread.

    Args:
        build: function that returns the model.
    """

    def work() -> _Model:
        """Build the model in this thread, with variables that are not initialized."""
        with keras.StatelessScope(initialize_variables=False):
            return build()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(work).result()
