"""Packed sequences and multiple choice rows: reshapes, masks and gathers."""

from __future__ import annotations

import keras
import numpy as np

from bert_keras.layers import ExampleMask, MergeChoices, SplitChoices, TokensAt
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


def test_example_mask_contract(tmp_path):
    def arguments(length: int) -> tuple[np.ndarray, ...]:
        return (np.arange(length, dtype="int32")[None] // np.array([[2], [3], [9]], "int32"),)

    contracts.check_layer(ExampleMask, arguments, num_weights=0, directory=tmp_path)


def test_the_mask_is_block_diagonal_and_has_no_empty_row():
    mask = numpy(ExampleMask()(np.array([[1, 1, 2, 0, 0]], "int32")))
    expected = np.zeros((1, 5, 5), bool)
    expected[0, :2, :2] = expected[0, 2, 2] = expected[0, 3:, 3:] = True
    np.testing.assert_array_equal(mask, expected, strict=True)
