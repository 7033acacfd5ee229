"""Decomposed operations for ONNX equal the backend's own operations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from keras import ops

from bert_keras import kernels
from bert_keras.kernels.onnx_friendly import is_active, layer_norm, onnx_friendly_operations
from bert_keras.layers.core import Dense
from bert_keras.layers.embeddings import BertEmbeddings
from tests.contracts import numpy

DRAW = np.random.default_rng(3)
HEADS = [DRAW.normal(size=(2, 5, 3, 4)).astype("float32") for _ in range(3)]
BIAS = DRAW.normal(size=(2, 3, 5, 5)).astype("float32")
MASK = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], bool)[:, None, None]
PAIRS = np.tril(np.ones((2, 1, 5, 5), bool))


@pytest.mark.parametrize("options", [{}, {"mask": MASK}, {"mask": PAIRS}, {"bias": BIAS}])
@pytest.mark.parametrize(("dtype", "atol"), [("float32", 1e-6), ("bfloat16", 0.05)])
def test_attention(options: dict[str, Any], dtype: str, atol: float) -> None:
    inputs = [ops.cast(each, dtype) for each in HEADS]
    given = {name: ops.convert_to_tensor(value) for name, value in options.items()}
    expected = kernels.fused_attention(*inputs, **given)
    with onnx_friendly_operations():
        found = kernels.fused_attention(*inputs, **given)
    assert found.dtype == inputs[0].dtype
    wide = (numpy(ops.cast(each, "float32")) for each in (found, expected))
    np.testing.assert_allclose(*wide, atol=atol)


@pytest.mark.parametrize("queries", [1, 5])
@pytest.mark.parametrize("axis", [2, 3])
def test_gathered(axis: int, queries: int) -> None:
    """Rows of a table of 7, for each pair of a query and one of 6 keys."""
    shape = (2, 3, 7, 6) if axis == 2 else (2, 3, queries, 7)
    scores = ops.convert_to_tensor(DRAW.normal(size=shape).astype("float32"))
    rows = ops.convert_to_tensor(DRAW.integers(0, 7, (1, 1, queries, 6)).astype("int32"))
    expected = kernels.gathered(scores, rows, axis=axis)
    with onnx_friendly_operations():
        found = kernels.gathered(scores, rows, axis=axis)
    np.testing.assert_array_equal(numpy(found), numpy(expected))
    assert found.shape == (2, 3, queries, 6)


def test_a_row_that_may_look_nowhere_is_finite() -> None:
    inputs = [*map(ops.convert_to_tensor, HEADS)]
    with onnx_friendly_operations():
        found = kernels.fused_attention(*inputs, mask=ops.zeros((2, 1, 1, 5), dtype="bool"))
    assert np.isfinite(numpy(found)).all()


@pytest.mark.parametrize(("dtype", "atol"), [("float32", 1e-5), ("bfloat16", 0.05)])
def test_layer_norm(dtype: str, atol: float) -> None:
    gamma, beta = DRAW.normal(size=(2, 4)).astype("float32")
    x = ops.cast(3.0 + HEADS[0], dtype)
    expected = kernels.layer_norm(x, gamma, beta, 1e-5, training=False)
    found = layer_norm(x, gamma, beta, 1e-5)
    assert found.dtype == x.dtype
    wide = (numpy(ops.cast(each, "float32")) for each in (found, expected))
    np.testing.assert_allclose(*wide, atol=atol)


def test_affine() -> None:
    kernel, bias = DRAW.normal(size=(4, 6)).astype("float32"), DRAW.normal(size=6)
    layer = Dense(6)
    layer.build((None, 5, 4))
    layer.set_weights([kernel, bias])
    x = ops.convert_to_tensor(HEADS[0][:, :, 0])
    expected = layer(x, activation=kernels.gelu)
    with onnx_friendly_operations():
        found = layer(x, activation=kernels.gelu)
    np.testing.assert_allclose(numpy(found), numpy(expected), atol=1e-6)


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
@pytest.mark.parametrize("positions", ["absolute", "sinusoidal"])
def test_embeddings(policy: str, positions: str) -> None:
    layer = BertEmbeddings(
        11, 9, 2, 4, 4, position_offset=2, position_embedding=positions, dtype=policy
    )
    ids = ops.convert_to_tensor([[3, 0, 10, 4], [1, 1, 0, 0]], dtype="int32")
    expected = layer(ids, ids // 9)
    with onnx_friendly_operations():
        found = layer(ids, ids // 9)
    assert found.dtype == expected.dtype
    wide = (numpy(ops.cast(each, "float32")) for each in (found, expected))
    np.testing.assert_allclose(*wide, atol=1e-6 if policy == "float32" else 0.02)


def test_it_lasts_as_long_as_it_is_asked_for() -> None:
    """`onnx_friendly_operations` ends with its `with` block, after an error too."""

    def fail() -> None:
        with onnx_friendly_operations():
            assert is_active()
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert not is_active()
