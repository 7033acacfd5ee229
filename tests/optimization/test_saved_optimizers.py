"""An optimizer from a `.keras` file or a training checkpoint continues as the saved one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras import BertEncoder, MaskedLM
from bert_keras import optimizer as make_optimizer
from bert_keras.optimization import OPTIMIZERS
from bert_keras.resume import TrainingCheckpoints
from tests import contracts
from tests.contracts import TINY, numpy

CONFIG = TINY.replace(num_layers=1, pooler=False, vocab_size=12, intermediate_size=8)


def _ours(**options: Any) -> Callable[[], Any]:
    return lambda: make_optimizer(0.01, total_steps=20, warmup_steps=2, **options)


def _scaled(**options: Any) -> Callable[[], Any]:
    """Return a function that makes an optimizer with loss scaling."""
    # A small growth period changes the loss scale within the steps of a test.
    return lambda: keras.optimizers.LossScaleOptimizer(
        _ours(**options)(), initial_scale=2.0**10, dynamic_growth_steps=2
    )


# Name: dtype policy, function that makes the optimizer, suffixes of its variables' names.
CASES: dict[str, tuple[str, Callable[[], Any], set[str]]] = {
    "adamw": ("float32", _ours(), {"momentum", "velocity"}),
    "lamb": ("float32", _ours(name="lamb"), {"momentum", "velocity"}),
    "muon": ("float32", _ours(name="muon"), {"momentum", "velocity"}),
    "average": ("float32", _ours(ema_momentum=0.9), {"average"}),
    "accumulation": ("float32", _ours(gradient_accumulation_steps=2), {"accumulator"}),
    "layer rates": ("float32", _ours(layer_decay=0.8, unfreeze_every=1), {"momentum"}),
    "loss scale": ("mixed_float16", _scaled(), {"scale", "counter"}),
    "all": (
        "mixed_float16",
        _scaled(ema_momentum=0.9, gradient_accumulation_steps=2),
        {"scale", "counter", "average", "accumulator"},
    ),
}
# An odd number ends between two updates of two batches, and between two growths of the scale.
STEPS = 3


@functools.cache
def _model(policy: str, number: int) -> MaskedLM:
    del number  # The number is only a key of the cache, for several models of one policy.
    return MaskedLM(BertEncoder(CONFIG, dtype=policy))


def _compiled(name: str, number: int) -> MaskedLM:
    """Return a model with new weights and a new optimizer.

    The model itself is cached, because building one takes longer.
    """
    policy, make, _ = CASES[name]
    task = contracts.as_trained(_model(policy, number), seed=number)
    task.compile(make(), **task.loss_and_metrics())
    task.optimizer.build(task.trainable_variables)
    return task


def _step(task: Any, number: int) -> None:
    """Apply random gradients, because compiling a real step would take long."""
    generator = np.random.default_rng(number)
    gradients = [generator.normal(size=each.shape) for each in task.trainable_variables]
    gradients = [keras.ops.convert_to_tensor(each, "float32") for each in gradients]
    if keras.backend.backend() != "jax":
        task.optimizer.apply(gradients)
        return
    # On JAX `fit` also calls `stateless_apply`. A scaled loss has no other step that keeps its
    # state.
    variables = [task.trainable_variables, task.optimizer.variables]
    weights, state = ([each.value for each in group] for group in variables)
    values = task.optimizer.stateless_apply(state, gradients, weights)
    for group, new_values in zip(variables, values, strict=True):
        for variable, value in zip(group, new_values, strict=True):
            variable.assign(value)


def _values(task: Any) -> dict[str, bytes]:
    """Return the bytes of each variable of the model and optimizer, by position and name."""
    variables = [*task.weights, *task.optimizer.variables]
    return {
        f"{place} {variable.name} {variable.dtype}": np.asarray(numpy(variable)).tobytes()
        for place, variable in enumerate(variables)
    }


def _from_file(task: Any, name: str, folder: Path) -> Any:
    """Save a model to a `.keras` file and load it."""
    del name
    task.save(folder / "task.keras")
    return keras.saving.load_model(folder / "task.keras")


def _from_checkpoint(task: Any, name: str, folder: Path) -> Any:
    """Save a training checkpoint and restore it into another model."""
    TrainingCheckpoints(folder).save(task, {"step": STEPS})
    loaded = _compiled(name, 1)
    TrainingCheckpoints(folder).restore(loaded)
    return loaded


def test_every_optimizer_is_here() -> None:
    assert set(OPTIMIZERS) <= set(CASES)


# The case "all" combines these.
ONE_BY_ONE = ("average", "accumulation", "loss scale")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n in ONE_BY_ONE else n for n in CASES]
)
def test_a_loaded_optimizer_goes_on(name: str, tmp_path: Path) -> None:
    task = _compiled(name, 0)
    first = _values(task)
    for number in range(STEPS):
        _step(task, number)
    saved = _values(task)
    # The test could not see the loss of a variable that has not changed.
    moved = {key.split()[1].split("_")[-1] for key in saved if saved[key] != first[key]}
    assert moved >= {"iteration", *CASES[name][2]}
    loaded = [way(task, name, tmp_path) for way in (_from_file, _from_checkpoint)]
    _step(task, STEPS)
    for each in loaded:
        assert type(each.optimizer) is type(task.optimizer)
        assert _values(each) == saved
        _step(each, STEPS)
        assert _values(each) == _values(task)
        assert int(each.optimizer.iterations) == int(task.optimizer.iterations)
