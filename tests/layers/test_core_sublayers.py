"""A part of a layer computes what Keras would have it compute."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from bert_keras import kernels
from bert_keras.layers import TransformerBlock
from bert_keras.layers.core import call_sublayer
from tests.contracts import POLICIES

X = np.linspace(-1.0, 1.0, 24, dtype="float32").reshape(2, 3, 4)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_part(policy: str) -> None:
    dense = keras.layers.Dense(5, dtype=policy)
    dense.build(X.shape)

    class Owner(keras.layers.Layer):
        def call(self, x):
            return call_sublayer(dense, x)

    found, expected = Owner(dtype=policy)(X), dense(X)
    assert keras.backend.standardize_dtype(found.dtype) == dense.compute_dtype
    # A half is rounded once less.
    np.testing.assert_allclose(
        *(keras.ops.convert_to_numpy(keras.ops.cast(x, "float32")) for x in (found, expected)),
        atol=1e-6 if policy == "float32" else 0.02,
    )


@pytest.mark.parametrize("own", [None, "tanh"])
@pytest.mark.parametrize("quantised", [False, True])
def test_a_part_and_an_activation(own: str | None, quantised: bool) -> None:
    """It comes after the part's own."""
    dense = keras.layers.Dense(5, activation=own)
    dense.build(X.shape)
    if quantised:
        dense.quantize("int8")
    x = keras.ops.convert_to_tensor(X)
    for activation in (kernels.gelu, keras.ops.sigmoid):
        found, expected = call_sublayer(dense, x, activation=activation), activation(dense(x))
        np.testing.assert_allclose(*map(keras.ops.convert_to_numpy, (found, expected)), atol=1e-6)


def test_a_part_with_adapters() -> None:
    """Their product is added to the kernel."""
    dense = keras.layers.Dense(5, activation="tanh")
    dense.build(X.shape)
    dense.enable_lora(2)
    dense.lora_kernel_b.assign(np.ones(dense.lora_kernel_b.shape))
    x = keras.ops.convert_to_tensor(X)
    found, expected = map(keras.ops.convert_to_numpy, (call_sublayer(dense, x), dense(x)))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    dense.lora_kernel_b.assign(np.zeros(dense.lora_kernel_b.shape))
    assert np.abs(keras.ops.convert_to_numpy(call_sublayer(dense, x)) - found).max() > 1e-3


def test_a_part_that_is_quantised() -> None:
    dense = keras.layers.Dense(5)
    dense.build(X.shape)
    dense.quantize("int8")
    x = keras.ops.convert_to_tensor(X)
    np.testing.assert_array_equal(
        *map(keras.ops.convert_to_numpy, (call_sublayer(dense, x), dense(x)))
    )


def test_a_block_of_quantised_parts() -> None:
    """`quantize` of a model reaches the parts of its blocks, and they are used."""
    block = TransformerBlock(4, 2, 8, dropout=0.0, attention_dropout=0.0)
    x = keras.ops.convert_to_tensor(X)
    before = keras.ops.convert_to_numpy(block(x))
    block.feedforward.intermediate.quantize("int8")
    after = keras.ops.convert_to_numpy(block(x))
    assert 0 < np.abs(after - before).max() < 0.1
