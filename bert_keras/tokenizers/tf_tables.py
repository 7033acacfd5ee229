"""Tables of a tokenizer in a TensorFlow graph: of code points, of large numbers, of texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import tensorflow as tf

from bert_keras.tokenizers.basic_tokenizer import NUM_CODE_POINTS, PAGE_BITS, PAGE_SIZE, paged

NOTHING = -1
_CODE_BITS = 21  # of a code point, also of those beyond Unicode that stand for tokens


class Lookup(tf.Module):
    """A number for each code point: `lookup(points)`, int32 of the shape of `points`.

    Args:
        values: integers or flags [0x110000].
        beyond: number of all added tokens.
    """

    def __init__(self, values: np.ndarray, beyond: int = 0):
        super().__init__(name="lookup")
        last = np.full(PAGE_SIZE, beyond, np.int32)
        page_of, pages = paged(np.concatenate([values.astype(np.int32), last]))
        self._page_starts = tf.constant(page_of * np.int32(PAGE_SIZE))
        self._values = tf.constant(pages.reshape(-1))

    def __call__(self, points: tf.Tensor) -> tf.Tensor:
        """Return the numbers of code points."""
        points = tf.minimum(points, NUM_CODE_POINTS)
        page = tf.gather(self._page_starts, tf.bitwise.right_shift(points, PAGE_BITS))
        return tf.gather(self._values, page + tf.bitwise.bitwise_and(points, PAGE_SIZE - 1))


class SortedTable(tf.Module):
    """A number for each key, found by a binary search: `table(keys)`, int32 [keys].

    Args:
        keys: numbers below 2^63 - 1, in any order. Of equal ones the first counts.
        values: the number of each, 32 bits.
        absent: number of all other keys.
    """

    def __init__(self, keys: Iterable[int], values: Iterable[int], absent: int):
        super().__init__(name="table")
        given = np.fromiter(keys, np.int64)
        order = np.argsort(given, kind="stable")
        # A key at the end that no one looks for: the search has always a place to look at.
        self._keys = tf.constant(np.append(given[order], np.int64(2**63 - 1)))
        numbers = np.fromiter(values, np.int32)[order]
        self._values = tf.constant(np.append(numbers, np.int32(absent)))
        self._absent = absent

    def __call__(self, keys: tf.Tensor) -> tf.Tensor:
        """Return the numbers of keys, int64 [keys]."""
        place = tf.searchsorted(self._keys, keys)
        found = tf.gather(self._keys, place) == keys
        return tf.where(found, tf.gather(self._values, place), self._absent)


class Trie(tf.Module):
    """Texts by their characters: `trie(nodes, points)` follows one more character of each.

    A node stands for the beginning of a text, node 0 for the empty beginning.

    Args:
        texts: code points of each text. Of equal ones the last counts.
        numbers: number of each text.

    Attributes:
        numbers: number of the text that ends at each node, int32 [nodes]; `NOTHING` for none.
    """

    def __init__(self, texts: Iterable[Sequence[int]], numbers: Iterable[int]):
        super().__init__(name="trie")
        edges: dict[int, int] = {}
        ends = [NOTHING]
        for text, number in zip(texts, numbers, strict=True):
            node = 0
            for code in text:
                child = edges.setdefault((node << _CODE_BITS) + code, len(ends))
                ends += [NOTHING] * (child == len(ends))
                node = child
            ends[node] = number
        ends[0] = NOTHING
        self.numbers = np.array(ends, np.int32)
        self._edges = SortedTable(edges, edges.values(), NOTHING)

    def __call__(self, nodes: tf.Tensor, points: tf.Tensor) -> tf.Tensor:
        """Return the node behind each node, int32; `NOTHING` where no text goes on like this.

        Args:
            nodes: int32.
            points: code point of the next character of each, int32.
        """
        key = tf.bitwise.left_shift(tf.cast(nodes, tf.int64), tf.constant(_CODE_BITS, tf.int64))
        return self._edges(key + tf.cast(points, tf.int64))
