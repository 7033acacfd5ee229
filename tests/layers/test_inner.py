"""A part of a layer computes what Keras would have it compute."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from bert_keras.layers import TransformerBlock
from bert_keras.layers.inner import inner
from tests.contracts import POLICIES

X = np.linspace(-1.0, 1.0, 24, dtype="float32").reshape(2, 3, 4)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_part(policy: str) -> None:
    dense = keras.layers.Dense(5, dtype=policy)
    dense.build(X.shape)

    class Owner(keras.layers.Layer):
        def call(self, x):
            return inner(dense, x)

    found, expected = Owner(dtype=policy)(X), dense(X)
    assert keras.backend.standardize_dtype(found.dtype) == dense.compute_dtype
    np.testing.assert_array_equal(
        *(keras.ops.convert_to_numpy(keras.ops.cast(x, "float32")) for x in (found, expected))
    )


def test_a_part_that_is_quantised() -> None:
    dense = keras.layers.Dense(5)
    dense.build(X.shape)
    dense.quantize("int8")
    x = keras.ops.convert_to_tensor(X)
    np.testing.assert_array_equal(*map(keras.ops.convert_to_numpy, (inner(dense, x), dense(x))))


def test_a_block_of_quantised_parts() -> None:
    """`quantize` of a model reaches the parts of its blocks, and they are used."""
    block = TransformerBlock(4, 2, 8, dropout=0.0, attention_dropout=0.0)
    x = keras.ops.convert_to_tensor(X)
    before = keras.ops.convert_to_numpy(block(x))
    block.feedforward.intermediate.quantize("int8")
    after = keras.ops.convert_to_numpy(block(x))
    assert 0 < np.abs(after - before).max() < 0.1
