"""Vectors in fewer bytes keep their directions."""

from __future__ import annotations

import numpy as np
import pytest

from bert_keras.retrieval import PRECISIONS, quantize
from bert_keras.retrieval.quantization import as_float32, precision_of, truncated, unit_length

VECTORS = np.random.default_rng(0).standard_normal((50, 21)).astype(np.float32)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_directions(precision: str) -> None:
    found = quantize(VECTORS, precision)
    assert precision_of(found) == precision
    again = unit_length(as_float32(found, 21))
    cosines = (again * unit_length(VECTORS)).sum(axis=1)
    least = {"float32": 1 - 1e-6, "float16": 1 - 1e-5, "int8": 0.9995, "ubinary": 0.6}[precision]
    assert cosines.min() > least
    assert (
        found.nbytes == {"float32": 4200, "float16": 2100, "int8": 1050, "ubinary": 150}[precision]
    )


def test_numbers() -> None:
    vectors = np.array([[0.5, -1.0, 0.25], [0, 0, 0]], np.float32)
    assert quantize(vectors, "int8").tolist() == [[64, -127, 32], [0, 0, 0]]
    assert quantize(vectors, "ubinary").tolist() == [[0b10100000], [0]]
    assert as_float32(quantize(vectors, "ubinary"), 3).tolist() == [[1, -1, 1], [-1, -1, -1]]
    assert unit_length(vectors)[1].tolist() == [0, 0, 0]


def test_bits_are_those_of_sentence_transformers() -> None:
    util = pytest.importorskip("sentence_transformers.util")
    expected = util.quantize_embeddings(VECTORS, precision="ubinary")
    np.testing.assert_array_equal(quantize(VECTORS, "ubinary"), expected)


def test_messages() -> None:
    with pytest.raises(ValueError, match="`precision` must be one of float32"):
        quantize(VECTORS, "int4")
    with pytest.raises(ValueError, match="must be from 1 to 21"):
        truncated(VECTORS, 22)
    with pytest.raises(ValueError, match=r"Vectors must be an array .*float64"):
        precision_of(VECTORS.astype(np.float64))
