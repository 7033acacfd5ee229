"""Decay in the step: Keras's own numbers, and no weight held twice."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from bert_keras.optimization import AdamW, Lamb, Muon
from tests.contracts import numpy

# Ours, what Keras itself makes instances of, and what both are told.
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
    """Of a quantised model only biases and scales train; Keras's step fails then on PyTorch."""
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
    """Else its old value, which the step still reads, is copied first: all weights twice."""
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
    assert len(writes) > 1  # the decay and the step
    for each in writes:
        assert "gradient" in _before(each)
        if each.type == "AssignSubVariableOp":  # what is taken off takes as much room
            assert "gradient" in _before(each.inputs[1].op)


def _before(operation: Any) -> set[str]:
    """Names of the operations that are done before this one."""
    found: set[str] = set()
    left = [operation]
    while left:
        each = left.pop()
        for earlier in [*(tensor.op for tensor in each.inputs), *each.control_inputs]:
            if earlier.name not in found:
                found.add(earlier.name)
                left.append(earlier)
    return found
