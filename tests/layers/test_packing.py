"""Packed sequences and multiple choice rows: reshapes, masks and gathers."""

from __future__ import annotations

import keras
import numpy as np

from bert_keras.layers import ExampleMask, ExamplePooling, MergeChoices, SplitChoices, TokensAt
from tests import contracts
from tests.contracts import numpy

IDS = np.arange(24).reshape(2, 3, 4).astype("int32")


def test_there_and_back() -> None:
    """MergeChoices makes one row of each choice, and SplitChoices restores the axis."""
    merged = numpy(MergeChoices()(IDS))
    np.testing.assert_array_equal(merged, IDS.reshape(6, 4))
    scores = merged[:, :1].astype("float32")
    np.testing.assert_array_equal(numpy(SplitChoices()(scores, IDS)), IDS[:, :, 0])


def test_symbols() -> None:
    ids = keras.Input((None, None), dtype="int32")
    merged = MergeChoices()(ids)
    assert (merged.shape, merged.dtype) == ((None, None), "int32")
    scores = SplitChoices()(keras.Input((1,)), ids)
    assert (scores.shape, scores.dtype) == ((None, None), "float32")


# === Packed sequences: masks and gathers ===


_POSITIONS = np.array([[0, 3], [4, 4], [1, 0]], "int32")


def _x(length: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(3, length, 8)).astype("float32")


def test_tokens_at_contract(tmp_path):
    arguments = lambda length: (_x(length), _POSITIONS)  # noqa: E731
    contracts.check_layer(TokensAt, arguments, num_weights=0, directory=tmp_path)


def test_tokens_are_those_asked_for():
    expected = np.take_along_axis(_x(7), _POSITIONS[:, :, None], axis=1)
    contracts.assert_close(numpy(TokensAt()(_x(7), _POSITIONS)), expected)


def _numbers(length: int) -> np.ndarray:
    """Return numbers of examples, beginning with padding: [3, length]."""
    return np.arange(length, dtype="int32")[None] // np.array([[2], [3], [9]], "int32")


def test_example_mask_contract(tmp_path):
    def arguments(length: int) -> tuple[np.ndarray, ...]:
        return (_numbers(length),)

    contracts.check_layer(ExampleMask, arguments, num_weights=0, directory=tmp_path)


def test_the_mask_is_block_diagonal_and_has_no_empty_row():
    mask = numpy(ExampleMask()(np.array([[1, 1, 2, 0, 0]], "int32")))
    expected = np.zeros((1, 5, 5), bool)
    expected[0, :2, :2] = expected[0, 2, 2] = expected[0, 3:, 3:] = True
    np.testing.assert_array_equal(mask, expected, strict=True)


def test_example_pooling_contract(tmp_path):
    arguments = lambda length: (_x(length), _numbers(length), _POSITIONS)  # noqa: E731
    contracts.check_layer(ExamplePooling, arguments, num_weights=0, directory=tmp_path)


def test_means_are_those_of_the_tokens_of_each_example():
    x, numbers = _x(6), np.array([[1, 1, 2, 0, 0, 0], [1] * 6, [0] * 6], "int32")
    means = numpy(ExamplePooling()(x, numbers, _POSITIONS))
    expected = np.zeros((3, 2, 8), "float32")
    expected[0, 0], expected[0, 1], expected[1, 0] = x[0, :2].mean(0), x[0, 2], x[1].mean(0)
    contracts.assert_close(means, expected, 1e-6)
