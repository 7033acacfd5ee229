"""Attention within a window: masks, and the layout in bands."""

from __future__ import annotations

from unittest.mock import Mock

import keras
import numpy as np
import pytest
from keras import ops

from bert_keras.layers import SelfAttention, attention, compared_keys, local_attention
from tests import contracts
from tests.contracts import numpy
from tests.gradients import gradients

_WINDOW = 3


@pytest.fixture(autouse=True)
def small_bands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_attention, "_LEAST", 1)


def _layer(**options: object) -> SelfAttention:
    return contracts.as_built(SelfAttention(2, 8, **options), _x(20))  # pyright: ignore[reportArgumentType]


def _x(length: int) -> np.ndarray:
    return np.random.default_rng(length).normal(size=(2, length, 8)).astype("float32")


def _ids(length: int, is_packed: bool) -> np.ndarray:
    ids = np.ones((2, length), "int32")
    ids[1, length - 4 :] = 0
    if is_packed:
        ids[0, length // 2 :] = 2
    return ids


def test_windows_of_padded_and_of_packed_rows() -> None:
    mask = np.array([[1, 1, 1, 0]], "int32")
    found = numpy(local_attention.window_mask(mask, 1, is_packed=False))
    expected = [[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 0], [0, 0, 1, 0]]
    np.testing.assert_array_equal(found[0], np.array(expected, bool))
    ids = np.array([[1, 1, 2, 2]], "int32")
    packed = np.kron(np.eye(2), np.ones((2, 2)))[None] == 1
    found = numpy(local_attention.window_mask(ids, 1, is_packed=True))
    np.testing.assert_array_equal(found, packed)
    places = np.array([[3, 0]], "int32")
    some = numpy(local_attention.window_mask(ids, 1, is_packed=True, query_places=places))
    np.testing.assert_array_equal(some, packed[:, [3, 0]])


@pytest.mark.parametrize("length", [10, 11, 12, 20])
def test_bands_lose_no_token(length: int) -> None:
    x = ops.convert_to_tensor(np.random.default_rng(0).normal(size=(2, length, 2, 4)))
    bands = local_attention.query_bands(x, _WINDOW)
    assert bands.shape[1] == _WINDOW
    back = numpy(local_attention.out_of_bands(bands, length))
    np.testing.assert_array_equal(back, numpy(x))
    keys = numpy(local_attention.key_bands(x, _WINDOW))
    assert keys.shape[1] == 3 * _WINDOW
    np.testing.assert_array_equal(keys[1, :length], numpy(x)[0, : 3 * _WINDOW])
    assert not keys[0, :_WINDOW].any()


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("length", [10, 12, 20])
def test_bands_compute_what_the_mask_computes(
    length: int, is_packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer, x, ids = _layer(), _x(length), _ids(length, is_packed)
    mask = numpy(local_attention.window_mask(ids, _WINDOW, is_packed=is_packed))
    expected = numpy(layer(x, mask))
    options = {"example_ids": ids} if is_packed else {"padding_mask": ids}
    assert local_attention.has_bands(length, _WINDOW)
    is_seen = mask.any(axis=-1)
    found = numpy(layer(x, window=_WINDOW, **options))
    np.testing.assert_allclose(found[is_seen], expected[is_seen], atol=1e-5)
    monkeypatch.setattr(local_attention, "_LEAST", 32)
    plain = numpy(layer(x, window=_WINDOW, **options))
    np.testing.assert_allclose(plain[is_seen], expected[is_seen], atol=1e-5)


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_gradients_of_bands(
    training: bool, is_packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bands are computed again for the gradient in training."""
    layer, x, ids = _layer(), _x(20), _ids(20, is_packed)
    mask = numpy(local_attention.window_mask(ids, _WINDOW, is_packed=is_packed))
    weights = np.random.default_rng(1).normal(size=x.shape).astype("float32")
    weights[~mask.any(axis=-1)] = 0.0
    (expected,) = gradients(lambda x: layer(x, mask, training=training), [x], weights)
    bands = Mock(wraps=local_attention.query_bands)
    monkeypatch.setattr(attention, "query_bands", bands)
    options = {"example_ids": ids} if is_packed else {"padding_mask": ids}
    (found,) = gradients(
        lambda x: layer(x, window=_WINDOW, training=training, **options), [x], weights
    )
    # JAX traces the function once, and computes it again in its program.
    assert bands.call_count == (2 if training and keras.backend.backend() != "jax" else 1)
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_dropout_in_bands() -> None:
    """Training with dropout keeps no scores of all pairs of tokens."""
    layer, x, ids = _layer(dropout=0.5), _x(20), _ids(20, False)
    first, again = (numpy(layer(x, ids, window=_WINDOW, training=True)) for _ in range(2))
    assert np.isfinite(first).all()
    assert np.abs(first - again).max() > 1e-3


def test_rows_of_unknown_or_small_length_have_a_mask() -> None:
    assert not local_attention.has_bands(None, 2)
    assert not local_attention.has_bands(9, 3)
    assert local_attention.has_bands(10, 3)


def test_keys_that_a_query_is_compared_with(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, x = _layer(), _x(20)
    keys = Mock(wraps=layer._context)
    monkeypatch.setattr(layer, "_context", keys)
    for length in (8, 9, 10, 20):
        layer(x[:, :length], _ids(length, False), window=_WINDOW)
        assert keys.call_args.args[1].shape[1] == compared_keys(length, _WINDOW)
    assert compared_keys(8, _WINDOW) == 8
    assert compared_keys(20, _WINDOW) == 3 * _WINDOW
