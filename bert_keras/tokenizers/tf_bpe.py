"""Byte-level BPE in a TensorFlow graph (Sennrich et al., 2016, §3.2; Radford et al., 2019, §2.2).

All words of a batch are merged together: in each round, every word merges the pair of its pieces
that comes first in the list of merges.
"""

from __future__ import annotations

import tensorflow as tf

from bert_keras.tokenizers.graph_pipeline import ByteBPE
from bert_keras.tokenizers.tf_characters import (
    ANY_SHAPE,
    changes,
    following,
    growing,
    last_place,
)
from bert_keras.tokenizers.tf_tables import SortedTable

_ID_BITS = 31
_NEVER = 2**31 - 1  # rank of a pair that is not merged


class MergedPieces(tf.Module):
    """Pieces of words: `pieces(words)`.

    Args:
        model: the model.
    """

    def __init__(self, model: ByteBPE):
        super().__init__(name="pieces")
        self._bytes = tf.constant(model.bytes)
        keys = (model.pairs[:, 0] << _ID_BITS) + model.pairs[:, 1]
        self._ranks = SortedTable(keys, range(len(keys)), _NEVER)
        self._merged = tf.constant([*model.merged.tolist(), 0], tf.int32)
        self._all_at_once = _makes_only_later_pairs(model)
        self._words = None
        if model.words is not None:
            words = tf.constant([*model.words], tf.string)
            ids = tf.constant([*model.words.values()], tf.int64)
            table = tf.lookup.KeyValueTensorInitializer(words, ids)
            self._words = tf.lookup.StaticHashTable(table, default_value=-1)

    def __call__(self, words: tf.Tensor) -> tuple[tf.RaggedTensor, tf.Tensor]:
        """Return the ids of words, int32 [words, (pieces)], and the bytes of each, int32 [pieces].

        Args:
            words: UTF-8 strings [words], none of them empty.
        """
        count = tf.size(words)
        values = tf.io.decode_raw(tf.strings.reduce_join(words), tf.uint8)
        lengths = tf.strings.length(words)
        word = tf.repeat(tf.range(count), lengths)
        ids = tf.gather(self._bytes, tf.cast(values, tf.int32))
        if self._words is not None:
            whole = tf.cast(self._words.lookup(words), tf.int32)
            is_first, known = changes(word), tf.gather(whole, word)
            kept = (known < 0) | is_first
            ids = tf.boolean_mask(tf.where(known < 0, ids, known), kept)
            sizes = tf.where(known < 0, 1, tf.gather(lengths, word))
            word, sizes = tf.boolean_mask(word, kept), tf.boolean_mask(sizes, kept)
        else:
            sizes = tf.ones_like(word)
        ids, sizes, word = self._merge(ids, sizes, word)
        rows = tf.RaggedTensor.from_value_rowids(  # pyright: ignore[reportAttributeAccessIssue]
            ids, tf.cast(word, tf.int64), tf.cast(count, tf.int64), validate=False
        )
        return rows, sizes

    def _merge(self, ids: tf.Tensor, sizes: tf.Tensor, word: tf.Tensor) -> list[tf.Tensor]:
        """Merge until no word has a pair of the list.

        Args:
            ids: ids of the bytes, int32 [bytes].
            sizes: number of bytes of each, int32 [bytes].
            word: number of the word of each, int32 [bytes].

        Returns:
            The same of the pieces, int32 [pieces] each.
        """
        count = tf.reduce_max(tf.concat([[-1], word], axis=0)) + 1

        def step(
            number: tf.Tensor, *values: tf.Tensor | tf.TensorArray
        ) -> list[tf.Tensor | tf.TensorArray]:
            """Merge once in every word that is not finished."""
            done, (ids, sizes, word) = values[:3], values[3:]
            right = following(ids)
            inside = following(word) == word
            inside &= tf.range(tf.size(ids)) < tf.size(ids) - 1
            key = tf.cast(ids, tf.int64) * (1 << _ID_BITS) + tf.cast(right, tf.int64)
            rank = tf.where(inside, self._ranks(key), _NEVER)
            best = tf.gather(tf.math.unsorted_segment_min(rank, word, count), word)
            # Words without a pair are finished.
            is_over = best == _NEVER
            done = [
                array.write(number, tf.boolean_mask(column, is_over))
                for array, column in zip(done, (ids, sizes, word), strict=True)
            ]
            merges = _without_overlaps((rank == best) & (rank != _NEVER), word, self._all_at_once)
            gone = tf.concat([tf.zeros_like(merges[:1]), merges[:-1]], axis=0)
            new = tf.gather(self._merged, tf.minimum(rank, tf.size(self._merged) - 1))
            ids = tf.where(merges, new, ids)
            sizes = tf.where(merges, sizes + following(sizes), sizes)
            kept = tf.where(tf.logical_not(is_over) & tf.logical_not(gone))[:, 0]
            return [number + 1, *done, *(tf.gather(x, kept) for x in (ids, sizes, word))]

        state = tf.while_loop(
            lambda *state: tf.size(state[4]) > 0,
            step,
            [tf.constant(1), *(growing() for _ in range(3)), ids, sizes, word],
            shape_invariants=[
                tf.TensorShape([]),
                *[ANY_SHAPE] * 3,
                *[tf.TensorShape([None])] * 3,
            ],
        )
        ids, sizes, word = (array.concat() for array in state[1:4])
        order = tf.argsort(word, stable=True)
        return [tf.gather(x, order) for x in (ids, sizes, word)]


def _without_overlaps(merges: tf.Tensor, word: tf.Tensor, all_at_once: bool) -> tf.Tensor:
    """Return which pairs are merged now: the first of each word, or all but overlapping ones.

    Args:
        merges: True for the left piece of each pair that may be merged, bool [pieces].
        word: number of the word of each piece, ascending.
        all_at_once: whether a word merges all of them.
    """
    place = tf.range(tf.size(merges), dtype=tf.int64)
    if all_at_once:  # of neighbours, each second one from the first on
        begin = last_place(tf.logical_not(merges) | changes(word))
        starts_here = tf.gather(merges, tf.maximum(begin, 0))
        distance = place - begin - tf.cast(tf.logical_not(starts_here), tf.int64)
        return merges & (distance % 2 == 0)
    size = tf.size(merges, out_type=tf.int64)
    count = tf.reduce_max(tf.concat([[-1], word], axis=0)) + 1
    first = tf.math.unsorted_segment_min(tf.where(merges, place, size), word, count)
    return merges & (tf.gather(first, word) == place)


def _makes_only_later_pairs(model: ByteBPE) -> bool:
    """Return whether each merge is behind those that make its pieces in the list of merges.

    Then no merge makes a pair that comes first, and a word may merge all equal pairs in one round.
    """
    last = dict(zip(model.merged.tolist(), range(len(model.merged)), strict=True))
    return all(
        last.get(piece, -1) < rank
        for rank, pair in enumerate(model.pairs.tolist())
        for piece in pair
    )
