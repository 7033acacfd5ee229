"""Rates by layer: against AdamW written down in NumPy, saved, resumed, and not paid for unused."""

from __future__ import annotations

import json
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras import BertEncoder, MaskedLM, SequenceClassifier
from bert_keras import optimizer as make_optimizer
from bert_keras.optimization import OPTIMIZERS
from bert_keras.optimization.layer_rates import LayerRates, depths
from bert_keras.resume import TrainingCheckpoints
from tests import contracts
from tests.contracts import TINY, numpy

_CONFIG = TINY.replace(num_layers=2, vocab_size=12, dropout=0.1)
_RATE, _DECAY, _EPSILON = 0.1, 0.5, 1e-6


def _task() -> SequenceClassifier:
    return contracts.as_trained(SequenceClassifier(BertEncoder(_CONFIG), 3))


def _optimizer(name: str = "adamw", **values: Any) -> Any:
    given = {"weight_decay": _DECAY, "clip_norm": None, "epsilon": _EPSILON, **values}
    return make_optimizer(_RATE, total_steps=20, name=name, **given)


def _depth(path: str) -> int:
    """As one would write it down for two blocks."""
    first = path.split("/")[0]
    return {"embeddings": 3, "block_0": 2, "block_1": 1, "pooler": 0, "label": 0}[first]


def _gradients(task: keras.Model, step: int) -> list[np.ndarray]:
    generator = np.random.default_rng(step)
    return [generator.normal(size=v.shape).astype("float32") for v in task.trainable_variables]


def _apply(optimizer: Any, task: keras.Model, first: int, last: int) -> None:
    for step in range(first, last):
        gradients = [keras.ops.convert_to_tensor(g) for g in _gradients(task, step)]
        optimizer.apply(gradients, task.trainable_variables)


def _by_hand(task: keras.Model, steps: int, share: Any) -> dict[str, np.ndarray]:
    """AdamW (Loshchilov & Hutter, 2019) with a rate of each variable's own, in float64."""
    found = {}
    for index, variable in enumerate(task.trainable_variables):
        value = numpy(variable).astype("float64")
        m = v = np.zeros_like(value)
        for step in range(steps):
            rate = _RATE * (1 - step / 20) * share(_depth(variable.path), step)
            gradient = _gradients(task, step)[index]
            if variable.name not in ("bias", "gamma", "beta"):
                value = value - rate * _DECAY * value
            m = 0.9 * m + 0.1 * gradient
            v = 0.999 * v + 0.001 * gradient**2
            root = np.sqrt(1 - 0.999 ** (step + 1))
            value = value - rate * root / (1 - 0.9 ** (step + 1)) * m / (np.sqrt(v) + _EPSILON)
        found[variable.path] = value
    return found


@pytest.mark.parametrize(
    ("values", "share"),
    [
        ({"layer_decay": 0.7}, lambda depth, _: 0.7**depth),
        ({"unfreeze_every": 2}, lambda depth, step: float(step >= 2 * depth)),
        (
            {"layer_decay": 0.5, "unfreeze_every": 1},
            lambda depth, step: 0.5**depth * (step >= depth),
        ),
    ],
)
def test_against_numpy(values: dict[str, Any], share: Any):
    task = _task()
    expected = _by_hand(task, 5, share)
    assert {_depth(path) for path in expected} == {0, 1, 2, 3}
    _apply(_optimizer(**values), task, 0, 5)
    for variable in task.trainable_variables:
        np.testing.assert_allclose(
            numpy(variable), expected[variable.path], rtol=1e-4, atol=1e-5, err_msg=variable.path
        )


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_scales_its_step(name: str):
    """The first step of a layer is its share of the step without rates by layer."""
    plain, decayed = _task(), _task()
    before = contracts.weights(plain)
    _apply(_optimizer(name), plain, 0, 1)
    _apply(_optimizer(name, layer_decay=0.5), decayed, 0, 1)
    for path, value in contracts.weights(plain).items():
        step, smaller = value - before[path], contracts.weights(decayed)[path] - before[path]
        if not _depth(path):
            np.testing.assert_array_equal(smaller, step)
        else:  # decay of weights comes first, and LAMB measures what it leaves
            np.testing.assert_allclose(smaller, step * 0.5 ** _depth(path), rtol=0.1, atol=1e-3)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_layers_wait_for_their_turn_in_fit(name: str):
    """With compiled steps and accumulation: bit for bit as before, until their update."""
    task = _task()
    before = contracts.weights(task)
    task.compile(
        _optimizer(
            name, unfreeze_every=1, gradient_accumulation_steps=2, layer_decay=0.9, clip_norm=1.0
        ),
        **task.loss_and_metrics(),
    )
    x = contracts.inputs_of(task)
    for batches in range(1, 9):
        task.fit(x, {"label": np.array([0, 1, 2])}, batch_size=3, verbose=0)
        moved = {
            _depth(path)
            for path, value in contracts.weights(task).items()
            if value.tobytes() != before[path].tobytes()
        }
        assert moved == set(range(batches // 2)), f"after {batches} batches"


def test_it_survives_the_config_and_a_reload(tmp_path):
    task = _task()
    task.compile(_optimizer(layer_decay=0.7, unfreeze_every=2), **task.loss_and_metrics())
    _apply(task.optimizer, task, 0, 3)
    config = task.optimizer.get_config()
    assert (config["layer_decay"], config["unfreeze_every"]) == (0.7, 2)
    task.save(tmp_path / "task.keras")
    loaded: Any = keras.saving.load_model(tmp_path / "task.keras")
    assert loaded.optimizer.get_config() == config
    for each in (task, loaded):
        _apply(each.optimizer, each, 3, 6)
    contracts.assert_same_weights(loaded, task)


def test_it_resumes_exactly(tmp_path):
    """Before a layer's turn and within it, within an accumulated step too."""

    def new_task() -> Any:
        task = _task()
        optimizer = _optimizer(layer_decay=0.7, unfreeze_every=1, gradient_accumulation_steps=2)
        task.compile(optimizer, **task.loss_and_metrics())
        return task

    whole, resumed = new_task(), new_task()
    for step in range(5):
        _apply(whole.optimizer, whole, step, step + 1)
        TrainingCheckpoints(tmp_path / str(step + 1)).save(whole, {"step": step + 1})
    for step in (1, 4):
        TrainingCheckpoints(tmp_path / str(step)).restore(resumed)
        _apply(resumed.optimizer, resumed, step, 5)
        contracts.assert_same_weights(resumed, whole)


def test_depths_of_shared_blocks_and_other_models():
    shared = MaskedLM(BertEncoder(contracts.FAMILIES["shared_blocks"]))
    paths = [variable.path for variable in shared.trainable_variables]
    found = dict(zip(paths, depths(paths), strict=True))
    assert found["mlm/dense/kernel"] == 0
    assert found["block_1/attention/query/kernel"] == 1
    assert found["block_0/feedforward/output/bias"] == 2
    assert found["embeddings/token/embeddings"] == 3
    # Embeddings that are not trained, and an encoder within something else.
    assert depths(["outer/block_11/a", "outer/block_0/a", "b"]) == (1, 12, 0)


def test_a_model_without_blocks():
    variable = keras.Variable(np.zeros(2, "float32"), name="kernel")
    with pytest.raises(ValueError, match=r"there is no block\. Received: variables kernel"):
        _optimizer(layer_decay=0.9).build([variable])
    _optimizer().build([variable])


def test_what_is_not_used_costs_nothing(monkeypatch):
    """All variables go into one update, and no shares are made."""
    optimizer, calls = _optimizer(), []
    kinds = type(optimizer).mro()
    after = kinds[kinds.index(LayerRates) + 1 :]
    base = next(kind for kind in after if "_backend_update_step" in vars(kind))
    update = base._backend_update_step

    def counted(self, grads, variables, rate):
        calls.append(len(variables))
        update(self, grads, variables, rate)

    monkeypatch.setattr(base, "_backend_update_step", counted)
    task = _task()
    _apply(optimizer, task, 0, 1)
    assert calls == [len(task.trainable_variables)]
    calls.clear()
    _apply(_optimizer(layer_decay=0.9), _task(), 0, 1)
    assert len(calls) == 4
    assert sum(calls) == len(task.trainable_variables)


def test_a_layer_without_weights_that_decay():
    """PyTorch's update of many variables takes no empty list."""
    task = _task()
    for variable in task.variables:
        variable.trainable = variable.name == "bias" or variable.path.startswith("label")
    before = contracts.weights(task)
    _apply(_optimizer(layer_decay=0.9), task, 0, 1)
    for path, value in contracts.weights(task).items():
        trained = path.endswith("bias") or path.startswith("label")
        assert (value != before[path]).any() == trained


def test_numbers_of_numpy_are_stored_as_plain_numbers():
    optimizer = _optimizer(layer_decay=np.float32(0.5), unfreeze_every=np.int64(2))
    assert type(optimizer.unfreeze_every) is int
    json.dumps(optimizer.get_config())
