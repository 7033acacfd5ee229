"""Tables of a tokenizer in a graph."""

from __future__ import annotations

import numpy as np
import pytest

from bert_keras.tokenizers.basic_tokenizer import NUM_CODE_POINTS

tf = pytest.importorskip("tensorflow")

from bert_keras.tokenizers.tf_tables import NOTHING, Lookup, SortedTable, Trie  # noqa: E402

BEYOND = NUM_CODE_POINTS + 600  # an added token


def test_lookup_has_a_number_for_tokens() -> None:
    lookup = Lookup(np.arange(NUM_CODE_POINTS) % 7, beyond=9)
    points = tf.constant([3, 0x10FFFF, NUM_CODE_POINTS, BEYOND])
    assert lookup(points).numpy().tolist() == [3, 0x10FFFF % 7, 9, 9]


def test_sorted_table() -> None:
    table = SortedTable([7, 2**60, -3, 7], [1, 2, 3, 4], absent=-5)
    wanted = tf.constant([2**60, 7, -3, -4, 8, 2**62], tf.int64)
    assert table(wanted).numpy().tolist() == [2, 1, 3, -5, -5, -5]
    assert SortedTable([], [], absent=6)(wanted).numpy().tolist() == [6] * 6


def test_trie() -> None:
    texts = {(97,): 4, (97, 98, BEYOND): 5, (BEYOND, 97): 6}
    trie = Trie(texts, texts.values())
    nodes = tf.zeros(4, tf.int32)
    rows = np.array([[97, 98, BEYOND], [BEYOND, 97, 0], [98, 97, 98], [97, 97, 97]], np.int32)
    numbers = []
    for points in rows.T:
        nodes = trie(nodes, points)
        behind = tf.maximum(nodes, 0)
        numbers.append(np.where(nodes == NOTHING, NOTHING, trie.numbers[behind.numpy()]).tolist())
        nodes = behind
    assert numbers == [[4, NOTHING, NOTHING, 4], [NOTHING, 6, 4, NOTHING], [5, NOTHING, NOTHING, 4]]
    assert int(Trie([[97]], [0]).numbers[0]) == NOTHING
