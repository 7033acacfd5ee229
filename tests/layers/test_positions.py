"""Positions within the attention. test_encoder.py compares whole models with NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from bert_keras.layers import (
    BucketBias,
    DistanceVectors,
    LinearBias,
    RotaryAngles,
    positions,
)
from tests import contracts
from tests.contracts import numpy

_IDS = np.zeros((2, 9), "int32")


def _ids(length: int) -> tuple[np.ndarray, ...]:
    return (np.zeros((2, length), "int32"),)


@pytest.mark.parametrize(
    ("make", "num_weights"),
    [
        (lambda **options: RotaryAngles(4, **options), 0),
        (lambda **options: LinearBias(2, **options), 0),
        (lambda **options: BucketBias(2, 8, 6, **options), 1),
        (lambda **options: DistanceVectors(8, 3, True, **options), 3),
    ],
)
def test_contract(make: Any, num_weights: int) -> None:
    for policy in contracts.POLICIES:
        layer = make(dtype=policy)
        outputs = layer(_IDS)
        assert np.isfinite(numpy(outputs).astype("float32")).all()
        assert keras.backend.standardize_dtype(outputs.dtype) == layer.compute_dtype
        assert len(layer.weights) == num_weights


@pytest.mark.parametrize("interleaved", [False, True])
def test_products_of_turned_vectors_depend_on_the_distance_alone(interleaved: bool) -> None:
    generator = np.random.default_rng(0)
    query, key = generator.normal(size=(2, 1, 1, 1, 8)).astype("float32")
    angles = RotaryAngles(8)(_IDS)
    queries, keys = (
        numpy(
            positions.rotated(
                ops.convert_to_tensor(x.repeat(9, axis=1)), angles, interleaved=interleaved
            )
        )[0, :, 0]
        for x in (query, key)
    )
    products = queries @ keys.T
    for distance in range(-8, 9):
        diagonal = np.diagonal(products, distance)
        np.testing.assert_allclose(diagonal, diagonal[0], atol=1e-5)
    assert np.ptp(products) > 0.1
    np.testing.assert_allclose(np.linalg.norm(queries, axis=-1), np.linalg.norm(query), rtol=1e-5)


def test_positions_that_are_given_are_used() -> None:
    layer = RotaryAngles(4, 100.0)
    expected = numpy(layer(_IDS))
    assert expected.shape == (1, 9, 4)
    ids = np.array([[0, 1, 0, 1, 2], [4, 3, 2, 1, 0]], "int32")
    np.testing.assert_array_equal(numpy(layer(_IDS[:, :5], ids)), expected[0][ids])


def test_slopes() -> None:
    assert positions.alibi_slopes(4) == [2**-2, 2**-4, 2**-6, 2**-8]
    assert positions.alibi_slopes(6) == [2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3]
    bias = numpy(LinearBias(4)(_IDS))
    assert bias[0, 0, 2, 5] == bias[0, 0, 5, 2] == -3 * 2**-2


def test_buckets_are_those_of_t5() -> None:
    layer = BucketBias(2, 32)
    distances = np.array([0, 1, 7, 8, 11, 12, 127, 128, 1000, -1, -8, -1000], "int32")
    expected = [0, 1, 7, 8, 8, 9, 15, 15, 15, 17, 24, 31]
    np.testing.assert_array_equal(numpy(layer._buckets(distances)), expected)


def test_rows_of_distances() -> None:
    distances = np.array([0, 1, 2, 3, 9, 1000, -2, -3, -1000], "int32")
    rows = positions.distance_rows(distances, span=4, max_distance=10, buckets=4)
    np.testing.assert_array_equal(numpy(rows), [4, 5, 6, 7, 7, 7, 2, 1, 0])
    plain = positions.distance_rows(distances, span=4, max_distance=4, buckets=0)
    np.testing.assert_array_equal(numpy(plain), [4, 5, 6, 7, 7, 7, 2, 1, 0])


def test_rows_and_biases_at_places() -> None:
    x = np.arange(24, dtype="float32").reshape(2, 4, 3)
    places = np.array([[3, 0], [1, 1]], "int32")
    expected = np.stack([x[row, places[row]] for row in range(2)])
    np.testing.assert_array_equal(numpy(positions.rows_at(x, places)), expected)
    common = numpy(positions.rows_at(x[:1], places))
    np.testing.assert_array_equal(common, x[0][places])
    bias = np.arange(32, dtype="float32").reshape(1, 2, 4, 4)
    found = numpy(positions.biases_at(bias, places))
    assert found.shape == (2, 2, 2, 4)
    np.testing.assert_array_equal(found[1, :, 0], bias[0, :, 1])


def test_a_file_of_a_layer_opens(tmp_path: Path) -> None:
    """The arguments are in the config."""
    for layer in (RotaryAngles(4, 50.0), LinearBias(3), BucketBias(2, 8, 6, 0.1)):
        again = type(layer).from_config(layer.get_config())
        assert again.get_config() == layer.get_config()
