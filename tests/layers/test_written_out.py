"""What is written out answers as the backend's own form does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from keras import ops

from bert_keras.layers import kernels
from bert_keras.layers.written_out import is_asked, written_out
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
    with written_out():
        found = kernels.fused_attention(*inputs, **given)
    assert found.dtype == inputs[0].dtype
    wide = (numpy(ops.cast(each, "float32")) for each in (found, expected))
    np.testing.assert_allclose(*wide, atol=atol)


def test_a_row_that_may_look_nowhere_is_finite() -> None:
    inputs = [*map(ops.convert_to_tensor, HEADS)]
    with written_out():
        found = kernels.fused_attention(*inputs, mask=ops.zeros((2, 1, 1, 5), dtype="bool"))
    assert np.isfinite(numpy(found)).all()


@pytest.mark.parametrize(("dtype", "atol"), [("float32", 1e-5), ("bfloat16", 0.05)])
def test_layer_norm(dtype: str, atol: float) -> None:
    gamma, beta = DRAW.normal(size=(2, 4)).astype("float32")
    x = ops.cast(3.0 + HEADS[0], dtype)
    expected = kernels.layer_norm(x, gamma, beta, 1e-5, training=False)
    with written_out():
        found = kernels.layer_norm(x, gamma, beta, 1e-5, training=False)
    assert found.dtype == x.dtype
    wide = (numpy(ops.cast(each, "float32")) for each in (found, expected))
    np.testing.assert_allclose(*wide, atol=atol)


def test_it_lasts_as_long_as_it_is_asked_for() -> None:
    def fail() -> None:
        with written_out():
            assert is_asked()
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert not is_asked()
