"""Token, position and segment embeddings: shapes, sums and limits of ids."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from bert_keras.layers import BertEmbeddings
from tests import contracts
from tests.contracts import numpy

_make = functools.partial(
    BertEmbeddings,
    vocab_size=50,
    max_positions=12,
    num_segments=2,
    embedding_size=8,
    hidden_size=8,
    name="embeddings",
)


def _arguments(length: int) -> tuple[np.ndarray, ...]:
    ids = np.random.default_rng(0).integers(0, 50, (3, length), dtype="int32")
    return ids, (ids % 2).astype("int32")


@pytest.mark.parametrize(
    ("changes", "num_weights"),
    [
        ({}, 5),
        ({"embedding_size": 4}, 7),
        ({"num_segments": 0}, 4),
        ({"num_segments": 1, "position_offset": 2}, 5),
    ],
)
def test_contract(changes: dict[str, Any], num_weights: int, tmp_path):
    def arguments(length: int) -> tuple[np.ndarray, ...]:
        return _arguments(length)[: 1 if changes.get("num_segments", 2) < 2 else 2]

    make = functools.partial(_make, **changes)
    contracts.check_layer(make, arguments, num_weights=num_weights, directory=tmp_path)


def test_is_the_normalised_sum_of_three_rows():
    layer = _make(position_offset=2)
    ids, segments = _arguments(7)
    layer(ids, segments)
    tables = contracts.weights(contracts.as_trained(layer))
    x = (
        tables["embeddings/token/embeddings"][ids]
        + tables["embeddings/position/embeddings"][2:9]
        + tables["embeddings/segment/embeddings"][segments]
    )
    x = x - x.mean(-1, keepdims=True)
    x = x / np.sqrt((x**2).mean(-1, keepdims=True))
    expected = x * tables["embeddings/layer_norm/gamma"] + tables["embeddings/layer_norm/beta"]
    contracts.assert_close(numpy(layer(ids, segments)), expected, 1e-5)


def test_no_segment_ids_are_zeros():
    layer = _make()
    ids, _ = _arguments(7)
    contracts.assert_close(numpy(layer(ids)), numpy(layer(ids, np.zeros_like(ids))))


def test_all_positions_can_be_used_but_no_more():
    layer = _make(position_offset=2)
    assert layer(*_arguments(12)).shape == (3, 12, 8)
    assert layer.position is not None
    assert layer.position.input_dim == 14
    with pytest.raises(ValueError, match=r"has 12 positions, .* have 13 tokens"):
        layer(*_arguments(13))


@pytest.mark.parametrize("kind", ["absolute", "sinusoidal"])
def test_positions_may_be_given(kind):
    """Given positions are used. A packed row may be longer than the position table."""
    layer = contracts.as_built(_make(position_embedding=kind, position_offset=2), *_arguments(7))
    ids, segments = _arguments(7)
    places = np.tile(np.arange(7, dtype="int32"), (3, 1))
    expected = numpy(layer(ids, segments))
    contracts.assert_close(numpy(layer(ids, segments, places)), expected, 1e-6)
    both = (np.concatenate([each, each], axis=1) for each in (ids, segments, places))
    found = numpy(layer(*both))
    contracts.assert_close(found, np.concatenate([expected, expected], axis=1), 1e-6)


def test_dropout_comes_last_and_in_training_only():
    """Dropout is applied after the layer normalisation, and only in training."""
    layer = contracts.as_built(_make(dropout=0.5), *_arguments(7))
    inferred = numpy(layer(*_arguments(7)))
    contracts.assert_close(numpy(layer(*_arguments(7), training=False)), inferred)
    trained = numpy(layer(*_arguments(7), training=True))
    dropped = trained == 0.0
    assert 0.2 < dropped.mean() < 0.8
    np.testing.assert_allclose(trained[~dropped], 2.0 * inferred[~dropped], rtol=1e-5)
