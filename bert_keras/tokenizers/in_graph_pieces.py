"""From words to pieces in a TensorFlow graph: by tensorflow-text, or by TensorFlow alone."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from bert_keras.tokenizers.in_graph_words import NO_SPECIAL
from bert_keras.tokenizers.trie import FIRST_ROOT, INNER_ROOT, NOTHING, vocabulary_trie
from bert_keras.tokenizers.vocabulary import CONTINUATION, MAX_WORD_LENGTH

_MAX_BYTES = 4  # of a character in UTF-8


class FastPieces(tf.Module):
    """By one operation of tensorflow-text, which a program has to import before it loads this.

    Args:
        vocabulary: the pieces; the position is the id.
        specials: those that words can be; the last stands for a word that has no pieces.

    Raises:
        RuntimeError: a vocabulary entry has more than 256 bytes, which tensorflow-text cannot hold.
    """

    def __init__(self, vocabulary: Sequence[str], specials: Sequence[str]):
        import tensorflow_text

        super().__init__(name="pieces")
        self._names = tf.constant(specials)
        self._wordpiece = tensorflow_text.FastWordpieceTokenizer(
            _matchable(vocabulary),
            suffix_indicator=CONTINUATION,
            max_bytes_per_word=MAX_WORD_LENGTH * _MAX_BYTES,
            token_out_type=tf.int32,
            unknown_token=specials[-1],
            no_pretokenization=True,
        )

    def __call__(self, words: tf.RaggedTensor, special: tf.Tensor) -> tf.RaggedTensor:
        """The ids of words.

        Args:
            words: code points, int32 [words, (characters)], none of them empty.
            special: int32 [words], the number of the special token that a word is, or `NO_SPECIAL`.

        Returns:
            int32 [words, (pieces)].
        """
        spelled = tf.strings.unicode_encode(words, "UTF-8")
        names = tf.gather(self._names, tf.maximum(special, 0))
        return self._wordpiece.tokenize(tf.where(special == NO_SPECIAL, spelled, names))


def _matchable(vocabulary: Sequence[str]) -> list[str]:
    """The vocabulary for tensorflow-text, which cannot hold entries that no word reaches anyway."""
    longest = len(CONTINUATION) + MAX_WORD_LENGTH
    return [
        f"\n{index}" if "\0" in token or len(token) > longest else token
        for index, token in enumerate(vocabulary)
    ]


class PortablePieces(tf.Module):
    """By TensorFlow's own operations, so that a SavedModel loads where nothing else is.

    All words of a batch are matched together, a character at a time: the longest piece, then the
    longest that goes on where it ends, as in BERT's tokenization.py. Arguments and calls are those
    of `FastPieces`.
    """

    def __init__(self, vocabulary: Sequence[str], specials: Sequence[str]):
        super().__init__(name="pieces")
        trie = vocabulary_trie(vocabulary)
        self._characters = tf.constant(trie.characters)
        self._bases, self._parents = tf.constant(trie.bases), tf.constant(trie.parents)
        self._ids = tf.constant(trie.ids)
        self._special_ids = tf.constant([vocabulary.index(name) for name in specials], tf.int32)

    def __call__(self, words: tf.RaggedTensor, special: tf.Tensor) -> tf.RaggedTensor:
        """See `FastPieces`."""
        splits = tf.cast(words.row_splits, tf.int32)
        begins, ends = splits[:-1], splits[1:]
        ordinary = tf.where(special == NO_SPECIAL)[:, 0]
        starts, found, failed = self._match(
            self._classes(words.flat_values), tf.gather(begins, ordinary), tf.gather(ends, ordinary)
        )
        # The id of each piece, at its first character.
        pieces = tf.fill(tf.shape(words.flat_values), NOTHING)
        pieces = tf.tensor_scatter_nd_update(pieces, starts[:, tf.newaxis], found)
        failed = tf.gather(ordinary, failed)
        pieces = tf.cond(
            tf.size(failed) > 0, lambda: _without(pieces, splits, failed), lambda: pieces
        )
        last = tf.size(self._special_ids) - 1
        special = tf.tensor_scatter_nd_update(
            special, failed[:, tf.newaxis], tf.fill([tf.size(failed)], last)
        )
        whole = tf.where(special != NO_SPECIAL)[:, 0]
        pieces = tf.tensor_scatter_nd_update(
            pieces,
            tf.gather(begins, whole)[:, tf.newaxis],
            tf.gather(self._special_ids, tf.gather(special, whole)),
        )
        is_piece = pieces != NOTHING
        count = tf.concat([[0], tf.cumsum(tf.cast(is_piece, tf.int64))], axis=0)
        return tf.RaggedTensor.from_row_splits(
            tf.boolean_mask(pieces, is_piece), tf.gather(count, splits), validate=False
        )

    def _classes(self, points: tf.Tensor) -> tf.Tensor:
        """The trie's class of each code point; `NOTHING` where no piece has it."""
        last = tf.size(self._characters) - 1
        index = tf.minimum(tf.searchsorted(self._characters, points), last)
        return tf.where(tf.gather(self._characters, index) == points, index, NOTHING)

    def _match(self, classes: tf.Tensor, begins: tf.Tensor, ends: tf.Tensor) -> list[tf.Tensor]:
        """Where pieces begin, which they are, and the words that cannot be put together."""

        def step(
            number: tf.Tensor,
            starts: tf.TensorArray,
            found: tf.TensorArray,
            failed: tf.TensorArray,
            *state: tf.Tensor,
        ) -> list[tf.Tensor | tf.TensorArray]:
            word, begin, at, end, node, best, best_end = state
            child = tf.gather(self._bases, node) + tf.gather(classes, at)
            child = tf.clip_by_value(child, 0, tf.size(self._parents) - 1)
            is_child = tf.gather(self._parents, child) == node
            piece = tf.where(is_child, tf.gather(self._ids, child), NOTHING)
            at += 1
            is_best = piece != NOTHING
            best, best_end = tf.where(is_best, piece, best), tf.where(is_best, at, best_end)
            is_over = (at == end) | tf.logical_not(is_child)
            is_piece = is_over & (best != NOTHING)
            starts = starts.write(number, tf.boolean_mask(begin, is_piece))
            found = found.write(number, tf.boolean_mask(best, is_piece))
            failed = failed.write(number, tf.boolean_mask(word, is_over & (best == NOTHING)))
            begin, at = tf.where(is_over, best_end, begin), tf.where(is_over, best_end, at)
            node, best = tf.where(is_over, INNER_ROOT, child), tf.where(is_over, NOTHING, best)
            goes_on = tf.where(tf.logical_not(is_over) | (is_piece & (best_end < end)))[:, 0]
            state = word, begin, at, end, node, best, best_end
            return [number + 1, starts, found, failed, *(tf.gather(x, goes_on) for x in state)]

        words = tf.range(tf.size(begins))
        roots, none = tf.fill(tf.shape(begins), FIRST_ROOT), tf.fill(tf.shape(begins), NOTHING)
        arrays = tf.while_loop(
            lambda *state: tf.size(state[4]) > 0,
            step,
            [
                *(tf.constant(1), *(_growing() for _ in range(3))),
                *(words, begins, begins, ends, roots, none, begins),
            ],
        )[1:4]
        return [array.concat() for array in arrays]


def _without(pieces: tf.Tensor, splits: tf.Tensor, words: tf.Tensor) -> tf.Tensor:
    """Takes the pieces of these words away."""
    places = tf.ragged.range(tf.gather(splits, words), tf.gather(splits, words + 1)).flat_values
    nothing = tf.fill([tf.size(places)], NOTHING)
    return tf.tensor_scatter_nd_update(pieces, places[:, tf.newaxis], nothing)


def _growing() -> tf.TensorArray:
    """Of vectors that are joined at the end; begun, for of none there is nothing to join."""
    array = tf.TensorArray(
        tf.int32, size=1, dynamic_size=True, infer_shape=False, element_shape=[None]
    )
    return array.write(0, tf.zeros([0], tf.int32))
