"""Pooling of token vectors into one vector per text."""

from __future__ import annotations

import functools
import json
from typing import Any

import numpy as np
import pytest

from bert_keras.layers import SentencePooling
from bert_keras.layers.pooling import ACTIVATIONS, POOLINGS, dense_options
from tests import contracts
from tests.contracts import numpy


def _arguments(length: int) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(length).normal(size=(3, length, 8)).astype("float32")
    mask = np.arange(length) < length - np.arange(3)[:, None]
    return x, mask.astype("int32")


@pytest.mark.parametrize("pooling", POOLINGS)
def test_contract(pooling: str, tmp_path):
    make = functools.partial(SentencePooling, pooling)
    contracts.check_layer(make, _arguments, num_weights=0, directory=tmp_path)


def test_contract_of_all_options(tmp_path):
    make = functools.partial(
        SentencePooling,
        ["mean", "cls"],
        dense=[
            {"units": 4, "activation": "tanh"},
            {"units": 4, "residual": True},
            {"units": 6, "use_bias": False, "residual": True},
        ],
        truncate_dim=5,
    )
    contracts.check_layer(make, _arguments, num_weights=6, directory=tmp_path)


_EXPECTED: dict[str, Any] = {
    "mean": lambda x: x.mean(0),
    "cls": lambda x: x[0],
    "max": lambda x: x.max(0),
    "mean_sqrt_len_tokens": lambda x: x.sum(0) / np.sqrt(len(x)),
    "lasttoken": lambda x: x[-1],
}


@pytest.mark.parametrize("start", [None, 1, 3])
@pytest.mark.parametrize("pooling", POOLINGS)
def test_equals_numpy(pooling: str, start: int | None):
    x, mask = _arguments(7)
    begin = start or 0

    def expected(row, count):
        tokens = row[begin:count]
        if pooling == "weightedmean":
            weights = np.arange(begin, count)[:, None] + 1.0
            return (tokens * weights).sum(0) / weights.sum()
        return _EXPECTED[pooling](tokens)

    rows = np.stack([expected(row, n) for row, n in zip(x, mask.sum(1), strict=True)])
    rows = rows.astype("float32")
    given = (x, mask) if start is None else (x, mask, np.full((3, 1), start, "int32"))
    contracts.assert_close(numpy(SentencePooling(pooling, False)(*given)), rows, 1e-6)
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    contracts.assert_close(numpy(SentencePooling(pooling)(*given)), rows / lengths, 1e-6)
    layer = SentencePooling(pooling)
    contracts.assert_close(numpy(layer(*given, normalized=False)), rows, 1e-6)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_row_that_is_all_prompt_has_finite_numbers(pooling: str):
    x, mask = _arguments(5)
    assert np.isfinite(numpy(SentencePooling(pooling)(x, mask, np.full((3, 1), 9)))).all()


def test_dense_layers_equal_numpy():
    dense = [{"units": 4, "activation": "tanh", "residual": True}, {"units": 4, "residual": True}]
    layer = SentencePooling(["max", "cls"], dense=dense, truncate_dim=3)
    x, mask = _arguments(5)
    found = numpy(layer(x, mask))
    weights = contracts.weights(layer)
    vectors = np.stack(
        [np.concatenate([row[:n].max(0), row[0]]) for row, n in zip(x, mask.sum(1), strict=True)]
    )
    first, second, residual = (
        next(value for path, value in weights.items() if name in path)
        for name in ("dense_0/kernel", "dense_1/kernel", "residual_0/kernel")
    )
    vectors = np.tanh(vectors @ first) + vectors @ residual
    vectors = vectors @ second + vectors
    expected = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    contracts.assert_close(found, expected[:, :3], 1e-5)
    assert layer.size_for(8) == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pooling": "sum"}, "`pooling` must be one of mean, cls, max"),
        ({"pooling": []}, r"or a list of 16 of them at most. Received: pooling=\[\]"),
        ({"pooling": ["mean", "sum"]}, r"pooling=\['mean', 'sum'\]"),
        ({"truncate_dim": 0}, "`truncate_dim` must be a whole number from 1"),
        ({"dense": [{"activation": "tanh"}]}, "`dense` must be a list of"),
        ({"dense": [{"units": 0}]}, "`dense` must be a list of"),
        ({"dense": [{"units": 2, "activation": "exotic"}]}, "Received: .*exotic"),
        ({"dense": [{"units": 2, "size": 3}]}, "Received: .*size"),
    ],
)
def test_refused(options: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        SentencePooling(**options)


def test_dense_options_are_complete():
    (found,) = dense_options([{"units": 2}])
    assert found == {"units": 2, "activation": "linear", "use_bias": True, "residual": False}
    assert found["activation"] in ACTIVATIONS


def test_counts_of_numpy_are_stored_as_plain_int():
    size: Any = np.int64(3)
    layer = SentencePooling(dense=[{"units": size}], truncate_dim=size)
    assert type(layer.truncate_dim) is type(layer.dense_options[0]["units"]) is int
    json.dumps(layer.get_config())
