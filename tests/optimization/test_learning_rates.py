"""Learning rates of each schedule, and learning rates by layer."""

from __future__ import annotations

import json
import math
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras import BertEncoder, MaskedLM, SequenceClassifier
from bert_keras import optimizer as make_optimizer
from bert_keras.optimization import OPTIMIZERS, SCHEDULES, WarmupDecay
from bert_keras.optimization.learning_rates import LayerRates, depths
from bert_keras.resume import TrainingCheckpoints
from tests import contracts
from tests.contracts import TINY, numpy


def _plain_rate(
    step: int, rate: float, total: int, warmup: int, schedule: str, final: float, power: float
) -> float:
    """Return the rate of update `step`, counted from 0, by plain formulas."""
    if step < warmup:
        return rate * (step + 1) / warmup
    left = 1.0 - min((step - warmup) / max(total - warmup, 1), 1.0)
    factor = {
        "linear": left,
        "cosine": (1.0 + math.cos(math.pi * (1.0 - left))) / 2.0,
        "polynomial": left**power,
        "constant": 1.0,
    }[schedule]
    return final + (rate - final) * factor


@pytest.mark.parametrize("gradient_accumulation_steps", [1, 3])
@pytest.mark.parametrize(("total", "warmup"), [(20, 5), (20, 0), (20, 20), (1, 0), (1, 1)])
@pytest.mark.parametrize("schedule", ["linear", "cosine", "polynomial", "constant"])
def test_schedule(schedule: str, total: int, warmup: int, gradient_accumulation_steps: int):
    values = {"schedule": schedule, "power": 3.0, "final_rate": 0.01}
    rate = WarmupDecay(
        0.5, total, warmup, gradient_accumulation_steps=gradient_accumulation_steps, **values
    )
    rebuilt = WarmupDecay.from_config(rate.get_config())
    batches = np.arange(gradient_accumulation_steps * (total + 3))
    expected = [
        _plain_rate(
            int(batch) // gradient_accumulation_steps, 0.5, total, warmup, schedule, 0.01, 3.0
        )
        for batch in batches
    ]
    for each in (rate, rebuilt):
        # Schedules are elementwise, so that one call computes all steps.
        found = numpy(each(keras.ops.convert_to_tensor(batches, "int32")))
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


def test_schedule_by_hand():
    rate = WarmupDecay(1.0, total_steps=6, warmup_steps=2)
    found = [float(numpy(rate(step))) for step in range(8)]
    np.testing.assert_allclose(found, [0.5, 1.0, 1.0, 0.75, 0.5, 0.25, 0.0, 0.0], atol=1e-7)


def _paper_s_rate(step: int, rate: float, total: int, cut_frac: float, ratio: float) -> float:
    """Return the rate by equation 3 of Howard and Ruder (2018)."""
    cut = math.floor(total * cut_frac)
    p = step / cut if step < cut else 1 - (step - cut) / (cut * (1 / cut_frac - 1))
    return rate * (1 + p * (ratio - 1)) / ratio


@pytest.mark.parametrize("gradient_accumulation_steps", [1, 3])
@pytest.mark.parametrize(("cut_frac", "ratio"), [(0.1, 32.0), (0.5, 4.0), (0.25, 1.0)])
def test_slanted_triangular(cut_frac: float, ratio: float, gradient_accumulation_steps: int):
    values = {"schedule": "slanted_triangular", "cut_frac": cut_frac, "ratio": ratio}
    rate = WarmupDecay(0.5, 20, gradient_accumulation_steps=gradient_accumulation_steps, **values)
    rebuilt = WarmupDecay.from_config(rate.get_config())
    batches = np.arange(gradient_accumulation_steps * 21)
    expected = [
        _paper_s_rate(int(b) // gradient_accumulation_steps, 0.5, 20, cut_frac, ratio)
        for b in batches
    ]
    optimizer = make_optimizer(
        0.5, total_steps=20, gradient_accumulation_steps=gradient_accumulation_steps, **values
    )
    assert optimizer.get_config()["learning_rate"]["config"] == rate.get_config()
    for each in (rate, rebuilt):
        found = numpy(each(keras.ops.convert_to_tensor(batches, "int32")))
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert max(expected) == 0.5


@pytest.mark.parametrize("total", [1, 5, 19, 29])
def test_slanted_triangular_of_any_length(total: int):
    """The schedule has no negative rates if the peak lies between two steps.

    The formula of the paper goes below zero in this case.
    """
    rate = WarmupDecay(1.0, total, schedule="slanted_triangular", ratio=10.0)
    found = numpy(rate(keras.ops.arange(total + 5)))
    cut = max(total // 10, 1)
    assert (np.diff(found[: cut + 1]) > 0).all()
    assert (np.diff(found[cut:]) <= 0).all()
    np.testing.assert_allclose(found[cut], 1.0, rtol=1e-6)
    np.testing.assert_allclose(found[[0, *range(max(total, 2), total + 5)]], 0.1, rtol=1e-5)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"schedule": "step"},
            f"one of {', '.join(SCHEDULES)}. Received: schedule='step'",
        ),
        ({"warmup_steps": 11}, r"in \[0, total_steps\]. Received: warmup_steps=11, total_steps=10"),
        ({"warmup_steps": -1}, "Received: warmup_steps=-1"),
        ({"gradient_accumulation_steps": 0}, "at least 1. Received: gradient_accumulation_steps=0"),
        ({"cut_frac": 0.0}, r"in \(0, 1\). Received: cut_frac=0.0"),
        ({"cut_frac": 1.0}, r"in \(0, 1\). Received: cut_frac=1.0"),
        ({"ratio": 0.5}, "at least 1. Received: ratio=0.5"),
        (
            {"schedule": "slanted_triangular", "warmup_steps": 2},
            "leave `warmup_steps` and `final_rate` at 0. Received: warmup_steps=2",
        ),
        ({"schedule": "slanted_triangular", "final_rate": 0.1}, "final_rate=0.1"),
    ],
)
def test_bad_values(values: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        WarmupDecay(1e-3, **{"total_steps": 10, **values})


# === Learning rates by layer: compared with AdamW in NumPy, saved, resumed, and free of cost if
# they are not used ===


_CONFIG = TINY.replace(num_layers=2, vocab_size=12, dropout=0.1)
_RATE, _DECAY, _EPSILON = 0.1, 0.5, 1e-6


def _task() -> SequenceClassifier:
    return contracts.as_trained(SequenceClassifier(BertEncoder(_CONFIG), 3))


def _optimizer(name: str = "adamw", **values: Any) -> Any:
    given = {"weight_decay": _DECAY, "clip_norm": None, "epsilon": _EPSILON, **values}
    return make_optimizer(_RATE, total_steps=20, name=name, **given)


def _depth(path: str) -> int:
    """Return the depth of a variable in a model of two blocks, counted from the head."""
    first = path.split("/")[0]
    return {"embeddings": 3, "block_0": 2, "block_1": 1, "pooler": 0, "label": 0}[first]


def _gradients(task: keras.Model, step: int) -> list[np.ndarray]:
    generator = np.random.default_rng(step)
    return [generator.normal(size=v.shape).astype("float32") for v in task.trainable_variables]


def _apply(optimizer: Any, task: keras.Model, first: int, last: int) -> None:
    """Apply the gradients of the steps `first` to `last - 1`."""
    for step in range(first, last):
        gradients = [keras.ops.convert_to_tensor(g) for g in _gradients(task, step)]
        optimizer.apply(gradients, task.trainable_variables)


def _by_hand(task: keras.Model, steps: int, share: Any) -> dict[str, np.ndarray]:
    """Return the weights after AdamW (Loshchilov & Hutter, 2019) in float64.

    Each variable has its own learning rate.
    """
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
    """The first step of each layer is the fraction of the plain step that `layer_decay` gives."""
    plain, decayed = _task(), _task()
    before = contracts.weights(plain)
    _apply(_optimizer(name), plain, 0, 1)
    _apply(_optimizer(name, layer_decay=0.5), decayed, 0, 1)
    for path, value in contracts.weights(plain).items():
        step, smaller = value - before[path], contracts.weights(decayed)[path] - before[path]
        if not _depth(path):
            np.testing.assert_array_equal(smaller, step)
        else:  # Weight decay is applied first, and LAMB measures the decayed weights.
            np.testing.assert_allclose(smaller, step * 0.5 ** _depth(path), rtol=0.1, atol=1e-3)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_layers_wait_for_their_turn_in_fit(name: str):
    """In `fit` a layer keeps its exact weights until it is unfrozen.

    The steps are compiled, and gradients are accumulated.
    """
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
    """Training resumes exactly within the accumulation of gradients.

    It does so before and after a layer is unfrozen.
    """

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


@pytest.mark.parametrize("case", [*contracts.FAMILIES, *contracts.VALUES])
def test_nothing_that_a_block_reads_is_trained_as_the_head(case: str) -> None:
    config = (contracts.FAMILIES | contracts.VALUES)[case]
    paths = [variable.path for variable in BertEncoder(config).trainable_variables]
    tops = {path for path, depth in zip(paths, depths(paths), strict=True) if depth == 0}
    assert {path.split("/")[0] for path in tops} <= {"pooler", "final_norm"}


def test_depths_of_shared_blocks_and_other_models():
    shared = MaskedLM(BertEncoder(contracts.FAMILIES["shared_blocks"]))
    paths = [variable.path for variable in shared.trainable_variables]
    found = dict(zip(paths, depths(paths), strict=True))
    assert found["mlm/dense/kernel"] == 0
    assert found["block_1/attention/query/kernel"] == 1
    assert found["block_0/feedforward/output/bias"] == 2
    assert found["embeddings/token/embeddings"] == 3
    # The embeddings are not trained, and the encoder is part of another model.
    assert depths(["outer/block_11/a", "outer/block_0/a", "b"]) == (1, 12, 0)


def test_a_model_without_blocks():
    variable = keras.Variable(np.zeros(2, "float32"), name="kernel")
    fix = r"Train an encoder or a task of bert_keras, or leave them out\."
    message = rf"there is no block\. {fix} Received: variables kernel"
    with pytest.raises(ValueError, match=message):
        _optimizer(layer_decay=0.9).build([variable])
    _optimizer().build([variable])


def test_what_is_not_used_costs_nothing(monkeypatch):
    """Without learning rates by layer, one update takes all variables."""
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
    """A layer may have no weights that decay.

    PyTorch's update of many variables refuses an empty list.
    """
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
