"""Custom gradients on TensorFlow work with every kind of tape and leave nothing in its registry."""

from __future__ import annotations

import importlib
import runpy
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import ops as tensorflow_ops

from bert_keras import BertEncoder, features, kernels
from bert_keras.kernels import tensorflow_kernels
from bert_keras.kernels.tensorflow_kernels import recomputed, with_gradient
from tests.contracts import LENGTHS, VALUES, batch
from tests.kernels.test_tensorflow_kernels_operations import KERNELS, X

_IN_BANDS = 101  # a length at which local layers are in bands, the last of which has some padding
DIFFERENTIABLE = [name for name in KERNELS if name != "is_highest"]


def seven_times(x: Any) -> Any:
    """Return the squares of `x` with a wrong gradient, which shows that it is used."""
    return with_gradient("square", x * x, [x], lambda dy: [7.0 * dy])


def gradient(function: Any, x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    return tape.gradient(y, x)


def registered() -> set[str]:
    return set(tensorflow_ops.gradient_registry.list())


def test_tapes_use_our_gradient() -> None:
    x = tf.constant([2.0, 3.0])
    np.testing.assert_array_equal(gradient(seven_times, x), [7.0, 7.0])
    traced = tf.function(lambda x: gradient(seven_times, x))
    np.testing.assert_array_equal(traced(x), [7.0, 7.0])
    compiled = tf.function(lambda x: gradient(seven_times, x), jit_compile=True)
    np.testing.assert_array_equal(compiled(x), [7.0, 7.0])


def test_a_gradient_of_a_whole_graph_is_the_automatic_one() -> None:
    x = tf.constant([2.0, 3.0])
    np.testing.assert_array_equal(gradient(tf.function(seven_times), x), [4.0, 6.0])


def test_a_gradient_that_is_some_rows_of_a_table() -> None:
    """A custom gradient accepts the sparse gradient of `tf.gather`."""
    x = tf.constant([[2.0], [3.0], [4.0]])
    found = gradient(lambda x: tf.gather(seven_times(x), [0, 2, 2]), x)
    np.testing.assert_array_equal(found, [[7.0], [0.0], [14.0]])


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_all_gradients_of_a_kernel_are_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """First and second derivatives are equal in eager mode, in graphs and by the registry."""
    x, kernel = tf.constant(X), KERNELS[name]

    def first(x: Any) -> Any:
        return gradient(lambda x: tf.square(kernel(x)), x)

    def second(x: Any) -> Any:
        return gradient(lambda x: tf.square(first(x)), x)

    before = registered()
    ways = {
        "eager": (first, second),
        "traced": (tf.function(first), tf.function(second)),
        "of a whole graph": (lambda x: gradient(tf.function(lambda x: tf.square(kernel(x))), x),),
    }
    found = {way: [function(x) for function in functions] for way, functions in ways.items()}
    assert registered() == before
    monkeypatch.setattr(tensorflow_kernels, "record", None)
    expected = [tf.function(first)(x), tf.function(second)(x)]
    # `tied_logits` uses TensorFlow's own gradient
    assert (registered() > before) == (name != "tied_logits")
    for way, values in found.items():
        for mine, theirs in zip(values, expected, strict=False):
            np.testing.assert_allclose(mine, theirs, atol=1e-3, rtol=1e-3, err_msg=way)


@pytest.mark.parametrize("is_traced", [False, True])
def test_recomputed(is_traced: bool) -> None:
    variable = tf.Variable(tf.constant([2.0, 3.0]))
    calls: list[int] = []

    def function(x: Any, y: Any) -> Any:
        calls.append(1)
        return tf.math.exp(x * variable) * y

    def gradients(function: Any, x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, y])
            z = tf.square(function(x, y))
        return tape.gradient(z, [x, y, variable])

    x, y = tf.constant([0.5, 0.25]), tf.constant([1.0, -2.0])
    expected = gradients(function, x, y)
    calls.clear()
    before = registered()
    run = tf.function(gradients) if is_traced else gradients
    found = run(recomputed(function), x, y)
    assert len(calls) == 2
    assert registered() == before
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-6)


def test_what_is_recomputed_is_computed_after_the_gradient() -> None:
    """A recomputation depends on the gradient.

    TensorFlow's optimizer would otherwise reuse the result.
    """

    @tf.function
    def run(x: Any) -> Any:
        return gradient(recomputed(lambda x: tf.square(tf.math.erf(x))), x)

    graph = run.get_concrete_function(tf.TensorSpec([3], tf.float32)).graph
    first, again = [op for op in graph.get_operations() if op.type == "Erf"]
    assert first.inputs[0].op.type == "Placeholder"
    assert again.inputs[0].op.type == "AddV2"


def test_without_the_private_module(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.delattr(importlib.import_module("tensorflow.python.eager"), "record", raising=False)
        patch.setitem(sys.modules, "tensorflow.python.eager.record", None)
        with pytest.warns(UserWarning, match="has no `tensorflow.python.eager.record`"):
            runpy.run_path(str(tensorflow_kernels.__file__))
    monkeypatch.setattr(tensorflow_kernels, "record", None)
    x = tf.constant([2.0, 3.0])
    np.testing.assert_array_equal(gradient(seven_times, x), [7.0, 7.0])
    np.testing.assert_array_equal(gradient(recomputed(tf.square), x), [4.0, 6.0])


def test_a_saved_model_needs_no_gradient_of_ours(tmp_path: Path) -> None:
    """A SavedModel has gradients without `bert_keras`, and loading it registers nothing."""
    module = tf.Module()
    run = tf.function(
        lambda x: kernels.gelu_to_train(KERNELS["layer_norm"](KERNELS["dropped"](x))),
        input_signature=[tf.TensorSpec([None, None, 5])],
    )
    module.run = run  # pyright: ignore[reportAttributeAccessIssue]
    tf.saved_model.save(module, str(tmp_path))
    before = registered()
    loaded: Any = tf.saved_model.load(str(tmp_path))
    assert registered() == before
    x = tf.constant(X)
    np.testing.assert_allclose(gradient(loaded.run, x), gradient(run, x), atol=1e-6)
    weighed = gradient(lambda x: loaded.run(x) * X, x)
    assert np.abs(weighed).max() > 1e-3


# === The order of reading and changing variables ===


def _needed(tensor: Any) -> set[Any]:
    """Return the operations that a tensor needs.

    An output of IdentityN needs its own input alone: TensorFlow may split the operation, after it
    has removed the orders that seem to follow from it (decision 180).
    """
    found, remaining = set(), [(tensor.op, tensor.value_index)]
    while remaining:
        operation, index = one = remaining.pop()
        if one in found:
            continue
        found.add(one)
        inputs = operation.inputs
        inputs = [inputs[index]] if operation.type == "IdentityN" else inputs
        remaining += [(each.op, each.value_index) for each in inputs]
        remaining += [(each, 0) for each in operation.control_inputs]
    return {operation for operation, _ in found}


def _step(name: str, length: int, *, checkpointed: bool = False) -> Any:
    """Return the graph of a training step of an encoder with a config of `VALUES`."""
    config = VALUES[name].replace(pooler=False, dropout=0.0, attention_dropout=0.0)
    config = config.replace(max_positions=max(length, config.max_positions))
    encoder = BertEncoder(config)
    encoder.checkpoint_gradients(checkpointed)
    x = batch(config, length)
    y = np.zeros((*x[features.TOKEN_IDS].shape, config.hidden_size), "float32")
    model = keras.Model(encoder.inputs, encoder(dict(encoder.input))[features.SEQUENCE_OUTPUT])
    model.compile(keras.optimizers.SGD(1.0), "mse")
    model(x)
    model.optimizer.build(model.trainable_variables)
    return tf.function(lambda: model.train_step((x, y))).get_concrete_function().graph


@pytest.mark.parametrize("checkpointed", [False, True])
@pytest.mark.parametrize("name", ["pre_norm", "like_modernbert"])
def test_a_variable_changes_after_its_last_read(name: str, checkpointed: bool) -> None:
    operations = _step(name, LENGTHS[0], checkpointed=checkpointed).get_operations()
    reads = [each for each in operations if each.type == "ReadVariableOp"]
    changes = [each for each in operations if each.type == "AssignSubVariableOp"]
    assert len(changes) > 20  # all but the tables, of which only some rows change
    needed = {change: _needed(change.inputs[1]) for change in changes}
    needed_by_any = set().union(*needed.values())
    second_reads = 0
    for change in changes:
        used = {each for each in reads if each.inputs[0] is change.inputs[0]} & needed_by_any
        second_reads += len(used) - 1
        assert used <= needed[change], change.inputs[0].name
    assert second_reads > 0


@pytest.mark.parametrize("name", VALUES)
def test_no_heads_are_cut_by_an_index(name: str) -> None:
    """TensorFlow's gradient of an index is slow for tensors with more than three axes."""
    slow = [
        each.name
        for each in _step(name, _IN_BANDS).get_operations()
        if each.type == "StridedSliceGrad" and each.outputs[0].shape.rank > 3
    ]
    assert not slow
