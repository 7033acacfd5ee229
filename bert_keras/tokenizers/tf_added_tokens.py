"""Search for added tokens in a TensorFlow graph: at each place of a text the longest token wins."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from bert_keras.tokenizers.tf_tables import NOTHING, Trie

_FEW = 4  # so many first characters are compared one by one


class TokenMatcher(tf.Module):
    """Finds tokens in the concatenated code points of texts, as the `tokenizers` library does.

    Matches do not overlap: the one that begins first is taken, and of those the longest one. The
    tokens are a trie, whose edges are sorted for a binary search.

    Args:
        tokens: code points of each token. No token is empty, and none is there twice.
        numbers: number of each token.
    """

    def __init__(self, tokens: Sequence[Sequence[int]], numbers: Sequence[int]):
        super().__init__(name="matcher")
        self._trie = Trie(tokens, numbers)
        self._numbers = tf.constant(self._trie.numbers)
        self._firsts = np.array(sorted({token[0] for token in tokens}), np.int32)

    def __call__(
        self, points: tf.Tensor, splits: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Return the matches in their order.

        Args:
            points: code points of all texts, int32 [characters].
            splits: index of the first character of each text, int64 [texts + 1].

        Returns:
            Index of the first character of each match, index after its last character, and number
            of its token: int64 [matches] each.
        """
        starts = tf.where(self._may_begin(points))[:, 0]
        stops = tf.gather(splits, tf.searchsorted(splits, starts, side="right"))
        ends, numbers = self._longest(points, starts, stops)
        is_match = numbers != NOTHING
        starts, ends = tf.boolean_mask(starts, is_match), tf.boolean_mask(ends, is_match)
        is_first = tf.cond(
            tf.reduce_any(starts[1:] < ends[:-1]),
            lambda: _without_overlaps(starts, ends),
            lambda: tf.fill(tf.shape(starts), True),
        )
        numbers = tf.boolean_mask(tf.boolean_mask(numbers, is_match), is_first)
        return tf.boolean_mask(starts, is_first), tf.boolean_mask(ends, is_first), numbers

    def _may_begin(self, points: tf.Tensor) -> tf.Tensor:
        """Return bool [characters]: True where the first character of a token is."""
        if len(self._firsts) <= _FEW:
            return tf.reduce_any([points == first for first in self._firsts.tolist()], axis=0)
        place = tf.searchsorted(tf.constant(self._firsts), points)
        return tf.gather(self._firsts, tf.minimum(place, len(self._firsts) - 1)) == points

    def _longest(
        self, points: tf.Tensor, starts: tf.Tensor, stops: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the end and the number of the longest token at each start, int64 [starts].

        Args:
            points: int32 [characters].
            starts: int64 [starts].
            stops: end of the text of each start, int64 [starts].
        """
        size = tf.size(starts, out_type=tf.int64)

        def step(
            active: tf.Tensor, node: tf.Tensor, at: tf.Tensor, ends: tf.Tensor, numbers: tf.Tensor
        ) -> list[tf.Tensor]:
            """Read one more character of the starts that still follow a token."""
            node = self._trie(node, tf.gather(points, at))
            is_node = tf.where(node != NOTHING)[:, 0]
            active, at, node = (tf.gather(x, is_node) for x in (active, at + 1, node))
            number = tf.cast(tf.gather(self._numbers, node), tf.int64)
            is_end = number != NOTHING
            hits = tf.boolean_mask(active, is_end)[:, tf.newaxis]
            ends = tf.tensor_scatter_nd_update(ends, hits, tf.boolean_mask(at, is_end))
            numbers = tf.tensor_scatter_nd_update(numbers, hits, tf.boolean_mask(number, is_end))
            goes_on = at < tf.gather(stops, active)
            active, node, at = (tf.boolean_mask(x, goes_on) for x in (active, node, at))
            return [active, node, at, ends, numbers]

        return tf.while_loop(
            lambda active, *_: tf.size(active) > 0,
            step,
            [
                tf.range(size),
                tf.zeros_like(starts, tf.int32),
                starts,
                starts,
                tf.fill([size], _NONE),
            ],
            shape_invariants=[tf.TensorShape([None])] * 5,
        )[3:]


_NONE = np.int64(NOTHING)


def _without_overlaps(starts: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
    """Return bool [matches]: True for the first match, and for each next one behind a True one.

    The next match of each is known. By doubling, the steps from match to match take a number of
    rounds that is the logarithm of the number of matches.

    Args:
        starts: int64 [matches], ascending.
        ends: int64 [matches].
    """
    count = tf.size(starts)
    following = tf.concat([tf.searchsorted(starts, ends), [count]], axis=0)  # `count` is the end
    reached = tf.range(count + 1) == 0

    def step(length: tf.Tensor, following: tf.Tensor, reached: tf.Tensor) -> list[tf.Tensor]:
        """Double the number of steps."""
        more = tf.boolean_mask(following, reached)[:, tf.newaxis]
        reached = tf.tensor_scatter_nd_update(reached, more, tf.fill([tf.shape(more)[0]], True))
        return [length * 2, tf.gather(following, following), reached]

    vector = tf.TensorShape([None])
    _, _, reached = tf.while_loop(
        lambda length, *_: length <= count,
        step,
        [tf.constant(1), following, reached],
        shape_invariants=[tf.TensorShape([]), vector, vector],
    )
    return reached[:-1]
