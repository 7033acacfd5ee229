"""Turns of variables. That the numbers are right is in test_keras_hub.py."""

from __future__ import annotations

import numpy as np
import pytest

from bert_keras.checkpoints.format import Leaf
from bert_keras.checkpoints.keras_hub_layout import LaterRows, SplitHeads


@pytest.mark.parametrize(
    ("leaf", "ours", "theirs"),
    [
        (SplitHeads("x", num_heads=2), (8, 6), (8, 2, 3)),
        (SplitHeads("x", num_heads=2), (6,), (2, 3)),
        (SplitHeads("x", num_heads=2, axis=0), (6, 8), (2, 3, 8)),
    ],
)
def test_heads(leaf: Leaf, ours: tuple[int, ...], theirs: tuple[int, ...]) -> None:
    array = np.arange(np.prod(ours)).reshape(ours)
    assert not leaf.same_rows
    assert leaf.shape(ours) == leaf.theirs(array).shape == theirs
    np.testing.assert_array_equal(leaf.ours(leaf.theirs(array)), array)


def test_rows_before_the_first_position() -> None:
    leaf, table = LaterRows("x", offset=2), np.arange(10.0).reshape(5, 2)
    assert leaf.shape((5, 2)) == (3, 2)
    np.testing.assert_array_equal(leaf.theirs(table), table[2:])
    np.testing.assert_array_equal(leaf.ours(table[2:])[2:], table[2:])
    assert not leaf.ours(table[2:])[:2].any()
    added = LaterRows("x", offset=2, added=np.ones(2)).theirs(table)
    np.testing.assert_array_equal(added, table[2:] + 1)
