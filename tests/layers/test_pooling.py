"""One vector for a text."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from bert_keras.layers import SentencePooling
from tests import contracts
from tests.contracts import numpy


def _arguments(length: int) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(length).normal(size=(3, length, 8)).astype("float32")
    mask = np.arange(length) < length - np.arange(3)[:, None]
    return x, mask.astype("int32")


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_contract(pooling: str, tmp_path):
    make = functools.partial(SentencePooling, pooling)
    contracts.check_layer(make, _arguments, num_weights=0, directory=tmp_path)


@pytest.mark.parametrize(
    ("pooling", "expected"),
    [
        ("mean", lambda x, n: x[:n].mean(0)),
        ("cls", lambda x, _: x[0]),
        ("max", lambda x, n: x[:n].max(0)),
    ],
)
def test_equals_numpy(pooling: str, expected):
    x, mask = _arguments(7)
    rows = np.stack([expected(row, n) for row, n in zip(x, mask.sum(1), strict=True)])
    contracts.assert_close(numpy(SentencePooling(pooling, False)(x, mask)), rows, 1e-6)
    rows = rows / np.linalg.norm(rows, axis=-1, keepdims=True)
    contracts.assert_close(numpy(SentencePooling(pooling)(x, mask)), rows, 1e-6)


def test_unknown():
    with pytest.raises(ValueError, match="`pooling` must be one of mean, cls, max"):
        SentencePooling("sum")
