"""Optimizers: weight decay and its exclusions, clipping, accumulation, averages."""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras import BertEncoder, Pretrainer
from bert_keras import optimizer as make_optimizer
from bert_keras.optimization import OPTIMIZERS, AdamW, Lamb, Muon
from tests.contracts import TINY, numpy


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"name": "adam"}, "`name` must be one of adamw, lamb, muon. Received: name='adam'"),
        ({"schedule": "step"}, "`schedule` must be one of linear, .* Received: schedule='step'"),
        ({"gradient_accumulation_steps": 0}, "at least 1. Received: gradient_accumulation_steps=0"),
        ({"schedule": "slanted_triangular", "ratio": 0.5}, "at least 1. Received: ratio=0.5"),
        ({"layer_decay": 0.0}, r"in \(0, 1\]. Received: layer_decay=0.0"),
        ({"layer_decay": 1.1}, "Received: layer_decay=1.1"),
        ({"unfreeze_every": -1}, "Received: unfreeze_every=-1"),
        (
            {"unfreeze_every": 0.5},
            "whole number of updates, 0 or more. Received: unfreeze_every=0.5",
        ),
    ],
)
def test_bad_values(values: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        make_optimizer(1e-3, **{"total_steps": 10, **values})


def _constant(name: str = "adamw", **values: Any) -> keras.optimizers.Optimizer:
    """Return an optimizer with a constant learning rate of 0.1."""
    return make_optimizer(
        **{"learning_rate": 0.1, "total_steps": 10, "schedule": "constant", "name": name, **values}
    )


def _decayed(optimizer: keras.optimizers.Optimizer, model: keras.Model) -> set[str]:
    """Return the paths of the variables that a step with zero gradients changes.

    Each of them must shrink by the learning rate times the weight decay.
    """
    changed = set()
    for variable in model.trainable_variables:
        variable.assign(np.ones(variable.shape, "float32"))
    optimizer.apply(
        [keras.ops.zeros(variable.shape) for variable in model.trainable_variables],
        model.trainable_variables,
    )
    for variable in model.trainable_variables:
        value = numpy(variable)
        if (value != 1.0).any():
            np.testing.assert_allclose(value, 1.0 - 0.1 * 0.5, rtol=1e-6)
            changed.add(variable.path)
    return changed


def _small_model() -> keras.Model:
    inputs = keras.Input((3,))
    x = keras.layers.Dense(3, name="dense")(inputs)
    return keras.Model(inputs, keras.layers.LayerNormalization(name="norm")(x))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_norms_and_biases_are_not_decayed(name: str):
    config = TINY.replace(num_layers=1, vocab_size=8, intermediate_size=8, max_positions=8)
    task = Pretrainer(BertEncoder(config))
    decayed = _decayed(_constant(name, weight_decay=0.5), task)
    matrices = {path for path in (weight.path for weight in task.weights) if _is_matrix(path)}
    assert decayed == matrices
    assert len(matrices) == 12


def _is_matrix(path: str) -> bool:
    return path.endswith(("/kernel", "/embeddings"))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_exclusions_survive_the_config(name: str):
    original = _constant(name, weight_decay=0.5)
    rebuilt: Any = keras.optimizers.deserialize(keras.optimizers.serialize(original))
    assert type(rebuilt) is type(original)
    assert rebuilt.get_config() == original.get_config()
    assert _decayed(rebuilt, _small_model()) == {"dense/kernel"}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_exclusions_survive_a_reload(name: str, tmp_path):
    model = _small_model()
    model.compile(_constant(name, weight_decay=0.5), loss="mse")
    model.optimizer.build(model.trainable_variables)
    model.save(tmp_path / "model.keras")
    loaded: Any = keras.saving.load_model(tmp_path / "model.keras")
    assert _decayed(loaded.optimizer, loaded) == {"dense/kernel"}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_other_exclusions_can_be_chosen(name: str):
    optimizer = OPTIMIZERS[name](0.1, weight_decay=0.5, undecayed=("kernel",))
    for each in (optimizer, type(optimizer).from_config(optimizer.get_config())):
        assert _decayed(each, _small_model()) == {"dense/bias", "norm/gamma", "norm/beta"}


def _variables(count: int = 2) -> list[keras.Variable]:
    return [keras.Variable(np.zeros(2, "float32"), name="kernel") for _ in range(count)]


def _apply(optimizer: keras.optimizers.Optimizer, variables: list, *gradients: list) -> np.ndarray:
    """Apply each list of gradients in turn, and return the values of the variables."""
    for each in gradients:
        tensors = [keras.ops.convert_to_tensor(np.array(one, "float32")) for one in each]
        optimizer.apply(tensors, variables)
    return np.stack([numpy(variable) for variable in variables])


def test_one_step_of_adamw():
    """AdamW corrects the bias of its moments (Kingma & Ba, 2015, end of §2).

    Epsilon is added to the root of the uncorrected second moment.
    """
    gradient = np.array([0.3, -0.4])
    optimizer = _constant(weight_decay=0.0, clip_norm=None, epsilon=0.2)
    found = _apply(optimizer, _variables(1), [gradient])
    root = math.sqrt(1.0 - 0.999)
    expected = -0.1 * root * gradient / (root * np.abs(gradient) + 0.2)
    np.testing.assert_allclose(found[0], expected, rtol=1e-4)


@pytest.mark.parametrize(("clip_norm", "norm"), [(None, 13.0), (1.0, 1.0), (20.0, 13.0)])
def test_clips_the_norm_of_all_gradients(clip_norm: float | None, norm: float):
    # An epsilon far larger than the second moment makes the step linear in the gradient.
    optimizer = _constant(weight_decay=0.0, clip_norm=clip_norm, epsilon=1e6)
    gradients = np.array([[3.0, 4.0], [0.0, 12.0]])
    found = _apply(optimizer, _variables(), list(gradients))
    expected = -0.1 * math.sqrt(1.0 - 0.999) * gradients / 13.0 * norm / 1e6
    np.testing.assert_allclose(found, expected, rtol=1e-4)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_accumulated_batches_equal_the_big_batch(name: str):
    first = [[[1.0, 2.0], [3.0, -4.0]], [[5.0, -2.0], [1.0, 0.0]]]
    second = [[[0.1, 0.2], [0.3, 0.4]], [[0.3, 0.0], [-0.1, 0.2]]]
    means = [np.mean(micro, axis=0).tolist() for micro in (first, second)]
    values = {"weight_decay": 0.01, "schedule": "linear", "warmup_steps": 3, "clip_norm": 2.0}

    accumulated = _constant(name, gradient_accumulation_steps=2, **values)
    variables = _variables()
    assert (_apply(accumulated, variables, first[0]) == 0).all()
    found = _apply(accumulated, variables, first[1], *second)
    expected = _apply(_constant(name, **values), _variables(), *means)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert accumulated.iterations == 2


def test_average_of_the_weights():
    optimizer, variables = _constant(weight_decay=0.0, ema_momentum=0.9), _variables(1)
    average = None
    for gradient in ([1.0, 2.0], [0.5, -1.0], [3.0, 1.0]):
        value = _apply(optimizer, variables, [gradient])[0]
        average = value if average is None else 0.9 * average + 0.1 * value
    assert average is not None
    assert np.abs(numpy(variables[0]) - average).max() > 1e-2
    optimizer.finalize_variable_values(variables)  # `fit` calls this at its end.
    np.testing.assert_allclose(numpy(variables[0]), average, rtol=1e-5)


def test_no_average_by_default():
    optimizer, variables = _constant(), _variables(1)
    value = _apply(optimizer, variables, [[1.0, 2.0]])[0]
    optimizer.finalize_variable_values(variables)
    np.testing.assert_array_equal(numpy(variables[0]), value)


def test_the_rate_follows_the_updates():
    optimizer, variables = (
        _constant(schedule="linear", gradient_accumulation_steps=2),
        _variables(1),
    )
    rates = []
    for _ in range(6):
        rates.append(float(numpy(optimizer.learning_rate)))
        _apply(optimizer, variables, [[1.0, 1.0]])
    np.testing.assert_allclose(rates, [0.1, 0.1, 0.09, 0.09, 0.08, 0.08], rtol=1e-5)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_backend_s_own_update_is_kept(name: str):
    """Optimizers keep the backend's own update of Keras.

    On PyTorch, the AdamW of Keras updates all variables in one call.
    """
    ours = make_optimizer(1e-3, total_steps=10, name=name)
    keras_s = {
        "adamw": keras.optimizers.AdamW,
        "lamb": keras.optimizers.Lamb,
        "muon": keras.optimizers.Muon,
    }[name]()
    assert isinstance(ours, type(keras_s))
    assert hasattr(ours, "_parallel_update_step") == hasattr(keras_s, "_parallel_update_step")


def test_muon_steps_all_directions_of_a_matrix_alike():
    task = Pretrainer(BertEncoder(TINY.replace(num_layers=1)))
    optimizer = _constant("muon", weight_decay=0.0, clip_norm=None, epsilon=1e-12)
    before = {variable.path: numpy(variable) for variable in task.trainable_variables}
    rng = np.random.default_rng(0)
    # The singular values of each gradient differ by a factor of up to 1,000.
    gradients = [
        rng.standard_normal(v.shape) * np.logspace(0, -3, v.shape[-1])
        for v in task.trainable_variables
    ]
    optimizer.apply(
        [keras.ops.convert_to_tensor(g, "float32") for g in gradients], task.trainable_variables
    )
    for variable in task.trainable_variables:
        step = before[variable.path] - numpy(variable)
        adam_s = len(variable.shape) < 2 or "embeddings" in variable.path or "nsp" in variable.path
        if adam_s:  # The first step of Adam has the sign of the gradient.
            np.testing.assert_allclose(np.abs(step), 0.1 / 3, rtol=0.2)
        else:
            strengths = np.linalg.svd(step / 0.1, compute_uv=False)
            assert strengths.max() / strengths[: len(strengths) // 2].min() < 3


def test_an_optimizer_without_steps_has_a_constant_rate_that_can_be_set() -> None:
    rule = make_optimizer(2e-5)
    assert float(keras.ops.convert_to_numpy(rule.learning_rate)) == pytest.approx(2e-5)
    rule.learning_rate = 1e-5
    assert float(keras.ops.convert_to_numpy(rule.learning_rate)) == pytest.approx(1e-5)
    several: list[dict[str, Any]] = [{"warmup_steps": 10}, {"schedule": "linear"}]
    for options in several:
        with pytest.raises(ValueError, match="pass `total_steps`"):
            make_optimizer(2e-5, **options)


def test_callbacks_set_the_constant_rate() -> None:
    callbacks = {
        keras.callbacks.LearningRateScheduler(lambda epoch: 0.5 / (epoch + 1)): 0.25,
        keras.callbacks.ReduceLROnPlateau("loss", factor=0.5, patience=0, min_delta=1e9): 0.05,
    }
    for callback, expected in callbacks.items():
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        model.compile(make_optimizer(0.1), "mean_squared_error")
        model.fit(np.ones((4, 2)), np.ones((4, 1)), epochs=2, callbacks=[callback], verbose=0)
        rate = keras.ops.convert_to_numpy(model.optimizer.learning_rate)
        assert float(rate) == pytest.approx(expected)


# === Weight decay within the step: the numbers of Keras, and no copy of all weights ===


# Our class, the class of Keras, and the options of each.
KINDS: list[tuple[Any, Any, dict[str, Any], dict[str, Any]]] = [
    (AdamW, keras.optimizers.AdamW, {}, {}),
    (Lamb, keras.optimizers.Lamb, {}, {}),
    (Muon, keras.optimizers.Muon, {"adam_lr_ratio": 0.5}, {"adam_weight_decay": 0.1}),
]
SHAPES = ((7, 3), (3,), (40, 5))


def _values(seed: int) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    return [generator.normal(size=shape).astype("float32") for shape in SHAPES]


@pytest.mark.parametrize(("ours", "theirs", "both", "other"), KINDS, ids=("adamw", "lamb", "muon"))
@pytest.mark.parametrize("gradient_accumulation_steps", [None, 2])
def test_same_weights_as_keras(
    ours: Any,
    theirs: Any,
    both: dict[str, Any],
    other: dict[str, Any],
    gradient_accumulation_steps: int | None,
) -> None:
    found = []
    for kind, options in ((ours, {"undecayed": ("bias",)}), (theirs, other)):
        variables = [
            keras.Variable(value, name=name)
            for value, name in zip(_values(0), ("kernel", "bias", "table"), strict=True)
        ]
        optimizer = kind(
            1e-2,
            weight_decay=0.1,
            gradient_accumulation_steps=gradient_accumulation_steps,
            **both,
            **options,
        )
        if kind is theirs:
            optimizer.exclude_from_weight_decay(var_names=["bias"])
        optimizer.build(variables)
        for step in range(4):
            optimizer.apply([keras.ops.convert_to_tensor(each) for each in _values(step + 1)])
        found.append([numpy(each) for each in variables])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("kind", [AdamW, Lamb, Muon])
def test_a_model_of_which_no_variable_decays(kind: Any) -> None:
    """A model without variables that decay can be trained.

    A quantised model trains only biases and scales. With it the step of Keras fails on PyTorch.
    """
    bias = keras.Variable(np.ones(3, "float32"), name="bias")
    optimizer = kind(1e-2, weight_decay=0.1, undecayed=("bias",))
    optimizer.build([bias])
    optimizer.apply([keras.ops.zeros(3)])
    np.testing.assert_array_equal(numpy(bias), np.ones(3))


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="operations of the tensorflow backend"
)
@pytest.mark.parametrize("kind", [AdamW, Lamb, Muon])
def test_no_weight_decays_before_its_gradient_is_known(kind: Any) -> None:
    """A weight decays only after its gradient is known.

    Otherwise TensorFlow copies the old weights, which the step still reads, and memory holds all
    weights twice.
    """
    import tensorflow as tf

    weights = keras.Variable(np.ones((3, 2), "float32"), name="kernel")
    optimizer = kind(1e-2, weight_decay=0.1)
    optimizer.build([weights])

    @tf.function
    def step(gradient: Any) -> None:
        optimizer.apply([gradient], [weights])

    graph = step.get_concrete_function(tf.TensorSpec((3, 2), "float32", name="gradient")).graph
    handle = graph.capture(weights.value.handle).op
    writes = [
        each
        for each in graph.get_operations()
        if each.type.startswith(("Assign", "ResourceApply")) and each.inputs[0].op is handle
    ]
    assert len(writes) > 1  # Weight decay and the step each write the weights.
    for each in writes:
        assert "gradient" in _before(each)
        if each.type == "AssignSubVariableOp":  # The decrement is as large as the weights.
            assert "gradient" in _before(each.inputs[1].op)


def _before(operation: Any) -> set[str]:
    """Return the names of the operations that must run before this one."""
    found: set[str] = set()
    left = [operation]
    while left:
        each = left.pop()
        for earlier in [*(tensor.op for tensor in each.inputs), *each.control_inputs]:
            if earlier.name not in found:
                found.add(earlier.name)
                left.append(earlier)
    return found
