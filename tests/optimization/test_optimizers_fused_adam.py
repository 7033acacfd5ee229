"""Adam's step in one kernel gives the numbers of Keras."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from bert_keras.optimization import AdamW
from tests.contracts import numpy

# `keras.optimizers.AdamW` makes instances of a class of the backend.
_KERAS = type(keras.optimizers.AdamW())


def _values(seed: int, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    return [generator.normal(size=shape).astype("float32") for shape in shapes]


def _steps(optimizer: Any, variables: list[Any], gradients: Any, steps: int) -> None:
    """Apply `steps` updates, with gradients computed from the number of the step."""
    for step in range(steps):
        optimizer.apply(
            [keras.ops.convert_to_tensor(g) for g in gradients(step)],
            variables if not optimizer.built else None,
        )


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"weight_decay": 0.1},
        {"global_clipnorm": 0.5},
        {"global_clipnorm": 100.0},
        {"clipnorm": 0.5},
        {"gradient_accumulation_steps": 2, "global_clipnorm": 0.5},
        {"amsgrad": True},
        {"use_ema": True},
        {"epsilon": 1e-2, "beta_1": 0.8, "beta_2": 0.95},
    ],
    ids=str,
)
def test_same_weights_as_keras(values: dict[str, Any]):
    shapes = ((7, 3), (3,), (40, 5))
    ours, theirs = ([keras.Variable(value) for value in _values(0, *shapes)] for _ in range(2))
    for kind, variables in ((AdamW, ours), (_KERAS, theirs)):
        _steps(kind(1e-2, **values), variables, lambda step: _values(step + 1, *shapes), 6)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(numpy(a), numpy(b), rtol=2e-6, atol=2e-6)


def test_same_moments_as_keras():
    """The moments are those of Keras, so that either class can resume a run of the other."""
    ours, theirs = AdamW(1e-2), _KERAS(1e-2)
    for optimizer in (ours, theirs):
        variables = [keras.Variable(value) for value in _values(0, (4, 3))]
        _steps(optimizer, variables, lambda step: _values(step + 1, (4, 3)), 5)
    for a, b in zip(ours.variables, theirs.variables, strict=True):
        # TensorFlow's kernel computes 1 - beta_2 from the rounded beta_2.
        np.testing.assert_allclose(numpy(a), numpy(b), rtol=2e-5, atol=1e-7)


def test_a_norm_that_is_not_finite_is_seen():
    variable = keras.Variable(np.ones(3, "float32"))
    AdamW(1e-2, global_clipnorm=1.0).apply(
        [keras.ops.convert_to_tensor(np.array([1, np.inf, 1], "float32"))], [variable]
    )
    assert np.isnan(numpy(variable)).all()


def test_tables_of_which_few_rows_are_read():
    """With sparse gradients each row moves by its momentum, also a row without a gradient.

    TensorFlow's gradient of an embedding table lists only the rows that were read.
    """
    table = keras.layers.Embedding(9, 4)
    model = keras.Sequential([table, keras.layers.GlobalAveragePooling1D()])
    other = keras.models.clone_model(model)
    for each in (model, other):
        each.build((None, 2))
    other.set_weights(model.get_weights())
    for each, kind in ((model, AdamW), (other, _KERAS)):
        each.compile(kind(1e-2, global_clipnorm=1.0), "mse")
        # The global norm of Keras on TensorFlow is wrong if a token occurs twice. The next test
        # checks ours.
        twice = 5 if keras.backend.backend() == "tensorflow" else 1
        for row in ([1, twice], [2, 3], [4, 1]):
            each.train_on_batch(np.array([row]), np.ones((1, 4), "float32"))
    np.testing.assert_allclose(model.get_weights()[0], other.get_weights()[0], rtol=1e-5, atol=1e-6)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="slices of its backend")
def test_a_row_that_is_read_twice_counts_once_in_the_norm():
    """A table row that is read twice counts once in the global norm.

    Keras counts each part of its gradient as a row, so that its norm is wrong.
    """
    import tensorflow as tf

    parts = tf.IndexedSlices(
        tf.constant([[3.0], [4.0], [3.0]]), tf.constant([1, 2, 1]), tf.constant([5, 1])
    )
    found = AdamW(1e-2, global_clipnorm=1.0)._clip_gradients([parts, None, tf.constant([2.0])])
    norm = np.sqrt(6.0**2 + 4.0**2 + 2.0**2)
    table = tf.convert_to_tensor(found[0])
    np.testing.assert_allclose(table, np.array([[0, 6, 4, 0, 0]]).T / norm, rtol=1e-6)
    np.testing.assert_allclose(found[2], [2 / norm], rtol=1e-6)
    assert found[1] is None


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="strides of the torch backend")
@pytest.mark.parametrize("of", ["variable", "gradient"])
def test_transposed_memory(of: str):
    """A variable or gradient with transposed memory gets the right step."""
    import torch

    start, gradient = _values(0, (4, 3), (4, 3))
    ours, theirs = keras.Variable(start), keras.Variable(start)
    if of == "variable":
        ours.value.data = ours.value.data.t().contiguous().t()
        assert not ours.value.is_contiguous()
    for variable, kind in ((ours, AdamW), (theirs, _KERAS)):
        tensor = torch.from_numpy(gradient.copy())
        if of == "gradient":
            tensor = tensor.t().contiguous().t()
        kind(1e-2).apply([tensor], [variable])
    np.testing.assert_allclose(numpy(ours), numpy(theirs), rtol=1e-6, atol=1e-7)


@pytest.mark.skipif(keras.backend.backend() == "jax", reason="a backend that fuses by itself")
def test_the_kernel_is_used(monkeypatch):
    """The optimizer calls the backend's fused kernel."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as module

        holder, name = module.raw_ops, "ResourceApplyAdam"
    else:
        import torch as module

        holder, name = module, "_fused_adamw_"
    calls, kernel = [], getattr(holder, name)
    monkeypatch.setattr(holder, name, lambda *a, **k: (calls.append(1), kernel(*a, **k))[1])
    AdamW(1e-2).apply([keras.ops.ones(3)], [keras.Variable(np.ones(3, "float32"))])
    assert calls
