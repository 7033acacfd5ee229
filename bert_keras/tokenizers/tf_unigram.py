"""SentencePiece's unigram language model in a TensorFlow graph (Kudo, 2018).

The best path through a word is that of the `tokenizers` library, with its order of additions in
double precision; SentencePiece itself adds in single precision.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from bert_keras.tokenizers.graph_pipeline import Unigram
from bert_keras.tokenizers.tf_characters import ANY_SHAPE, changes, following, growing
from bert_keras.tokenizers.tf_tables import NOTHING, Trie

_UNKNOWN_PENALTY = 10.0  # below the lowest score


class BestPieces(tf.Module):
    """Pieces of words with the highest sum of scores: `pieces(words, hides=…)`.

    Args:
        model: the model.
    """

    def __init__(self, model: Unigram):
        super().__init__(name="pieces")
        points = ([*map(ord, piece)] for piece in model.pieces)
        self._trie = Trie(points, range(len(model.pieces)))
        ids = self._trie.numbers
        visible = np.where(np.isin(ids, model.hidden), NOTHING, ids)
        self._ids, self._visible = tf.constant(ids), tf.constant(visible, tf.int32)
        # An edge of a character without a piece has the number behind those of the pieces.
        self._other, self._unknown = len(model.pieces), model.unknown
        self._scores = tf.constant([*model.scores, model.scores.min() - _UNKNOWN_PENALTY])
        self._longest = max(map(len, model.pieces), default=1)

    def __call__(self, words: tf.Tensor, *, hides: bool) -> tuple[tf.RaggedTensor, tf.Tensor]:
        """Return the ids of words, int32 [words, (pieces)], and the characters of each piece.

        Args:
            words: UTF-8 strings [words], none of them empty.
            hides: True if special pieces are ordinary text.

        Returns:
            Ids; and int32 [pieces], the number of characters of each.
        """
        rows = tf.strings.unicode_decode(words, "UTF-8")
        points, splits = rows.flat_values, tf.cast(rows.row_splits, tf.int32)
        word = tf.cast(rows.value_rowids(), tf.int32)
        starts, ends, ids = self._edges(points, tf.gather(splits, word + 1), hides)
        chosen = self._best(starts, ends, ids, splits, word)
        chosen = tf.where(chosen == self._other, self._unknown, chosen)
        flags = chosen != NOTHING
        # Neighbouring unknown pieces are one.
        piece, owner = tf.boolean_mask(chosen, flags), tf.boolean_mask(word, flags)
        place = tf.cast(tf.where(flags)[:, 0], tf.int32)
        repeats = (piece == self._unknown) & tf.logical_not(changes(owner) | changes(piece))
        piece, owner, place = (
            tf.boolean_mask(x, tf.logical_not(repeats)) for x in (piece, owner, place)
        )
        behind = tf.where(following(owner) == owner, following(place), tf.gather(splits, owner + 1))
        behind = tf.concat([behind[:-1], splits[-1:]], axis=0)[: tf.size(place)]
        pieces = tf.RaggedTensor.from_value_rowids(  # pyright: ignore[reportAttributeAccessIssue]
            piece, tf.cast(owner, tf.int64), tf.size(words, out_type=tf.int64), validate=False
        )
        return pieces, behind - place

    def _edges(self, points: tf.Tensor, stops: tf.Tensor, hides: bool) -> list[tf.Tensor]:
        """Return all pieces at all places: begin, end and id, int32 [edges] each.

        A character that is no piece is an edge with the number behind those of the pieces.

        Args:
            points: code points of all words, int32 [characters].
            stops: end of the word of each character, int32 [characters].
            hides: see `__call__`.
        """
        ids_of = self._visible if hides else self._ids
        size = tf.size(points)

        def step(
            number: tf.Tensor,
            begin: tf.Tensor,
            at: tf.Tensor,
            node: tf.Tensor,
            *arrays: tf.TensorArray,
        ) -> list[tf.Tensor | tf.TensorArray]:
            """Read one more character from every place that is still within a piece."""
            node = self._trie(node, tf.gather(points, at))
            is_node = tf.where(node != NOTHING)[:, 0]
            begin, at, node = (tf.gather(x, is_node) for x in (begin, at + 1, node))
            piece = tf.gather(ids_of, node)
            hits = tf.where(piece != NOTHING)[:, 0]
            found = [
                array.write(number, tf.gather(x, hits))
                for array, x in zip(arrays, (begin, at, piece), strict=True)
            ]
            goes_on = tf.where(at < tf.gather(stops, begin))[:, 0]
            return [number + 1, *(tf.gather(x, goes_on) for x in (begin, at, node)), *found]

        places = tf.range(size)
        vector = tf.TensorShape([None])
        state = tf.while_loop(
            lambda *state: tf.size(state[1]) > 0,
            step,
            [
                *(tf.constant(1), places, places, tf.zeros_like(places)),
                *(growing() for _ in range(3)),
            ],
            shape_invariants=[tf.TensorShape([]), *[vector] * 3, *[ANY_SHAPE] * 3],
        )
        begin, end, piece = (array.concat() for array in state[4:])
        single = tf.boolean_mask(begin, end - begin == 1)[:, tf.newaxis]
        known = tf.tensor_scatter_nd_update(
            tf.fill([size], False), single, tf.fill([tf.shape(single)[0]], True)
        )
        others = tf.boolean_mask(places, tf.logical_not(known))
        return [
            tf.concat([begin, others], axis=0),
            tf.concat([end, others + 1], axis=0),
            tf.concat([piece, tf.fill([tf.size(others)], self._other)], axis=0),
        ]

    def _best(
        self, starts: tf.Tensor, ends: tf.Tensor, ids: tf.Tensor, splits: tf.Tensor, word: tf.Tensor
    ) -> tf.Tensor:
        """Return the id of the piece that begins at each character, int32; `NOTHING` for none.

        All words go forward together, one character in each round. Of equal sums the longest last
        piece wins.

        Args:
            starts: begin of each edge.
            ends: end of each edge.
            ids: id of each edge.
            splits: index of the first character of each word, int32 [words + 1].
            word: number of the word of each character, int32 [characters].
        """
        lengths = splits[1:] - splits[:-1]
        rank_to_word = tf.argsort(-lengths, stable=True)  # long words first
        rank = tf.math.invert_permutation(rank_to_word)
        edge_word = tf.gather(word, starts)
        end = ends - tf.gather(splits, edge_word)
        longest = tf.reduce_max(tf.concat([[0], lengths], axis=0))
        edge_rank = tf.gather(rank, edge_word)
        count = tf.size(lengths)
        order = tf.argsort(
            tf.cast(end, tf.int64) * tf.cast(count, tf.int64) + tf.cast(edge_rank, tf.int64)
        )
        end, edge_rank = tf.gather(end, order), tf.gather(edge_rank, order)
        length, ids = tf.gather(ends - starts, order), tf.gather(ids, order)
        score = tf.gather(self._scores, ids)
        bounds = tf.searchsorted(end, tf.range(1, longest + 2))
        still = tf.searchsorted(
            -tf.gather(lengths, rank_to_word), -tf.range(1, longest + 1), side="right"
        )
        num_edges = tf.size(end, out_type=tf.int64)

        def step(
            at: tf.Tensor, sums: tf.Tensor, array: tf.TensorArray
        ) -> tuple[tf.Tensor, tf.Tensor, tf.TensorArray]:
            """Find the best last piece of the first `at + 1` characters of every word."""
            low, high, active = bounds[at], bounds[at + 1], still[at]
            sums = sums[:active]
            owner, size = edge_rank[low:high], length[low:high]
            total = score[low:high] + tf.gather_nd(sums, tf.stack([owner, self._longest - size], 1))
            best = tf.math.unsorted_segment_max(total, owner, active)
            key = tf.cast(size, tf.int64) * num_edges + tf.range(
                tf.cast(low, tf.int64), tf.cast(high, tf.int64)
            )
            key = tf.where(total == tf.gather(best, owner), key, -1)
            winner = tf.math.unsorted_segment_max(key, owner, active) % num_edges
            sums = tf.concat([sums[:, 1:], best[:, tf.newaxis]], axis=1)
            return at + 1, sums, array.write(at, tf.cast(winner, tf.int32))

        never = tf.fill([count, self._longest - 1], tf.constant(-np.inf, tf.float64))
        first = tf.concat([never, tf.zeros([count, 1], tf.float64)], axis=1)
        winners = tf.TensorArray(tf.int32, longest, infer_shape=False, element_shape=[None])
        winners = tf.while_loop(
            lambda at, *_: at < longest,
            step,
            [tf.constant(0), first, winners],
            shape_invariants=[
                *(tf.TensorShape([]), tf.TensorShape([None, self._longest]), ANY_SHAPE),
            ],
        )[2]
        offsets = tf.cumsum(still, exclusive=True)
        flat = tf.cond(longest > 0, winners.concat, lambda: tf.zeros([0], tf.int32))
        return self._path(flat, offsets, lengths, rank, splits, length, ids)

    def _path(
        self,
        winners: tf.Tensor,
        offsets: tf.Tensor,
        lengths: tf.Tensor,
        rank: tf.Tensor,
        splits: tf.Tensor,
        size: tf.Tensor,
        ids: tf.Tensor,
    ) -> tf.Tensor:
        """Follow the best path of every word from its end.

        Args:
            winners: best last edge of each beginning of a word; the beginnings are sorted by their
                length, then by the rank of the word.
            offsets: index of the first beginning of each length.
            lengths: characters of each word.
            rank: rank of each word.
            splits: index of the first character of each word.
            size: characters of each edge.
            ids: id of each edge.
        """

        def step(
            chosen: tf.Tensor, number: tf.Tensor, at: tf.Tensor
        ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            """Take the last piece of every word that is left."""
            edge = tf.gather(winners, tf.gather(offsets, at - 1) + tf.gather(rank, number))
            at -= tf.gather(size, edge)
            place = tf.gather(splits, number) + at
            chosen = tf.tensor_scatter_nd_update(chosen, place[:, tf.newaxis], tf.gather(ids, edge))
            goes_on = tf.where(at > 0)[:, 0]
            return chosen, tf.gather(number, goes_on), tf.gather(at, goes_on)

        vector = tf.TensorShape([None])
        return tf.while_loop(
            lambda *state: tf.size(state[1]) > 0,
            step,
            [tf.fill([splits[-1]], NOTHING), tf.range(tf.size(lengths)), lengths],
            shape_invariants=[vector] * 3,
        )[0]
