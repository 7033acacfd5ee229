"""From texts to words in a TensorFlow graph: what the tokenizer does before WordPiece.

Text is decoded to code points, mapped by the table of `code_points` and cut into words. All of it
works on the flat characters of the whole batch; what is rare in text (special tokens, decomposed
letters, marks out of order) costs only where it occurs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from bert_keras.tokenizers import code_points as cp
from bert_keras.tokenizers.vocabulary import MAX_WORD_LENGTH

# Special tokens found in the text are written as code points of one more page, beyond Unicode.
_SPECIAL = cp.NUM_CODE_POINTS
_SPECIAL_TAIL = cp.NUM_CODE_POINTS + cp.PAGE_SIZE - 1


class InGraphWords(tf.Module):
    """Cuts texts into normalised words, exactly as the Python engine does.

    Args:
        table: what the tokenizer's switches do to each code point.
        special_tokens: those to recognise in the raw text, each a word of its own; none of them
            may hold another "[" than its first character.
        unknown: what stands for a word of more than 100 characters.
    """

    def __init__(self, table: cp.CodePointTable, special_tokens: Sequence[str], unknown: str):
        super().__init__(name="words")
        self._specials, self._unknown = tuple(special_tokens), unknown
        special_page = np.full((1, cp.PAGE_SIZE), cp.ISOLATED, np.int32)
        special_page[0, -1] = cp.DROPPED
        self._entries = tf.constant(np.concatenate([table.pages, special_page]).reshape(-1))
        page_of = np.append(table.page_of, np.int32(len(table.pages)))
        self._page_starts = tf.constant(page_of * np.int32(cp.PAGE_SIZE))
        self._expansions = tf.constant(table.expansions)
        self._expansion_starts = tf.constant(table.expansion_starts)
        self._marks, self._mark_ranks = tf.constant(table.marks), tf.constant(table.mark_ranks)

    def __call__(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """The words of texts in UTF-8: string [batch] -> string [batch, (words)]."""
        decoded = tf.strings.unicode_decode(texts, "UTF-8", errors="replace")
        points, splits = decoded.flat_values, decoded.row_splits
        if self._specials:
            points = self._with_specials(points, splits)
        characters, splits = _split(*self._normalize(points, splits))
        words = tf.strings.unicode_encode(characters, "UTF-8")
        words = tf.where(characters.row_lengths() > MAX_WORD_LENGTH, self._unknown, words)
        if self._specials:
            number = tf.gather(characters.flat_values, characters.row_starts()) - _SPECIAL
            names = tf.gather(tf.constant(self._specials), tf.maximum(number, 0))
            words = tf.where(number >= 0, names, words)
        return tf.RaggedTensor.from_row_splits(words, splits, validate=False)

    def _with_specials(self, points: tf.Tensor, splits: tf.Tensor) -> tf.Tensor:
        """Finds special tokens in the raw text. None can overlap: each starts with its only "["."""
        wanted = _code_points(self._specials)
        lengths = tf.constant([len(token) for token in self._specials], tf.int64)
        starts = tf.where(points == ord("["))[:, 0]
        ends = tf.gather(splits, tf.searchsorted(splits, starts, side="right"))[:, tf.newaxis]
        window = starts[:, tf.newaxis] + tf.range(wanted.shape[1], dtype=tf.int64)
        found = tf.gather(points, tf.minimum(window, ends - 1))
        found = tf.where(window < ends, found, -1)[:, tf.newaxis]
        matches = tf.where(tf.reduce_all((found == wanted) | (wanted == 0), axis=-1))
        heads, numbers = tf.gather(starts, matches[:, 0]), matches[:, 1]
        tails = tf.ragged.range(heads + 1, heads + tf.gather(lengths, numbers)).flat_values
        points = tf.tensor_scatter_nd_update(
            points, heads[:, tf.newaxis], _SPECIAL + tf.cast(numbers, tf.int32)
        )
        return tf.tensor_scatter_nd_update(
            points, tails[:, tf.newaxis], tf.fill(tf.shape(tails), _SPECIAL_TAIL)
        )

    def _normalize(self, points: tf.Tensor, splits: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Code points [in] -> normalised code points [out], their kinds, the texts' splits."""
        page = tf.gather(self._page_starts, tf.bitwise.right_shift(points, cp.PAGE_BITS))
        within = tf.bitwise.bitwise_and(points, cp.PAGE_SIZE - 1)
        values, kinds = _unpack(tf.gather(self._entries, page + within))
        points, kinds, splits = tf.cond(
            tf.reduce_any(kinds == cp.EXPANSION),
            lambda: self._expand(points, values, kinds, splits),
            lambda: (points + values, kinds, splits),
        )
        points, kinds = tf.cond(
            tf.reduce_any(kinds == cp.MARK),
            lambda: self._order_marks(points, kinds, splits),
            lambda: (points, kinds),
        )
        return tf.cond(
            tf.reduce_all(kinds <= cp.SPACE),
            lambda: (points, kinds, splits),
            lambda: _without_dropped(points, kinds, splits),
        )

    def _expand(
        self, points: tf.Tensor, values: tf.Tensor, kinds: tf.Tensor, splits: tf.Tensor
    ) -> tuple[tf.Tensor, ...]:
        """Puts the symbols of each expansion in its place. Works on the few places that grow."""
        at = tf.where(kinds == cp.EXPANSION)[:, 0]
        number = tf.gather(values, at)
        starts = tf.gather(self._expansion_starts, number)
        ends = tf.gather(self._expansion_starts, number + 1)
        code, kind = _unpack(tf.gather(self._expansions, tf.ragged.range(starts, ends).flat_values))
        added = tf.cast(ends - starts - 1, tf.int64)
        shifts = tf.concat([[0], tf.cumsum(added)], axis=0)
        heads = at + shifts[:-1]
        tails = tf.ragged.range(heads + 1, heads + 1 + added).flat_values
        is_tail = _flags(tf.size(points, out_type=tf.int64) + shifts[-1], tails)
        source = tf.cumsum(tf.cast(tf.logical_not(is_tail), tf.int64)) - 1
        places = tf.ragged.range(heads, heads + 1 + added).flat_values[:, tf.newaxis]
        return (
            tf.tensor_scatter_nd_update(tf.gather(points + values, source), places, code),
            tf.tensor_scatter_nd_update(tf.gather(kinds, source), places, kind),
            splits + tf.gather(shifts, tf.searchsorted(at, splits)),
        )

    def _order_marks(
        self, points: tf.Tensor, kinds: tf.Tensor, splits: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Unicode's canonical ordering: a stable sort of the marks after each base character."""
        index = tf.searchsorted(self._marks, points)
        rank = tf.gather(self._mark_ranks, tf.minimum(index, tf.size(self._marks) - 1))
        rank = tf.where(kinds == cp.MARK, rank, 0)
        begins = (kinds != cp.MARK) & (kinds != cp.DROPPED) | _is_first(kinds, splits)
        run = tf.cumsum(tf.cast(begins, tf.int64))
        order = tf.argsort(run * cp.MAX_RANK + tf.cast(rank, tf.int64), stable=True)
        return tf.gather(points, order), tf.gather(kinds, order)


def _unpack(entries: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Entries or symbols of the table -> values, kinds."""
    return (
        tf.bitwise.right_shift(entries, cp.KIND_BITS),
        tf.bitwise.bitwise_and(entries, cp.NUM_KINDS - 1),
    )


def _without_dropped(
    points: tf.Tensor, kinds: tf.Tensor, splits: tf.Tensor
) -> tuple[tf.Tensor, ...]:
    is_kept = kinds <= cp.SPACE
    kept = tf.where(is_kept)[:, 0]
    return tf.gather(points, kept), tf.gather(kinds, kept), _count_to(splits, is_kept)


def _split(
    points: tf.Tensor, kinds: tf.Tensor, splits: tf.Tensor
) -> tuple[tf.RaggedTensor, tf.Tensor]:
    """Cuts normalised text into words: code points [words, (characters)], the texts' splits."""
    is_letter, is_alone = kinds != cp.SPACE, kinds == cp.ISOLATED
    ends = tf.concat([[True], is_alone | (kinds == cp.SPACE)], axis=0)[:-1]
    begins = is_letter & (is_alone | ends | _is_first(kinds, splits))
    letters = tf.boolean_mask(points, is_letter)
    starts = tf.where(tf.boolean_mask(begins, is_letter))[:, 0]
    words = tf.RaggedTensor.from_row_starts(letters, starts, validate=False)
    return words, _count_to(splits, begins)


def _is_first(kinds: tf.Tensor, splits: tf.Tensor) -> tf.Tensor:
    """Where a text begins: bool, as long as `kinds`."""
    return _flags(tf.size(kinds), tf.boolean_mask(splits[:-1], splits[:-1] < splits[1:]))


def _flags(size: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
    """True at `places`: bool [size]."""
    return tf.tensor_scatter_nd_update(
        tf.fill([size], False), places[:, tf.newaxis], tf.ones_like(places, tf.bool)
    )


def _count_to(splits: tf.Tensor, flags: tf.Tensor) -> tf.Tensor:
    """The number of flags before each split: the splits of what is flagged."""
    count = tf.cumsum(tf.cast(flags, tf.int64))
    return tf.gather(tf.concat([[0], count], axis=0), splits)


def _code_points(tokens: Sequence[str]) -> tf.Tensor:
    """int32 [tokens, longest], padded with 0."""
    table = np.zeros((len(tokens), max(map(len, tokens))), np.int32)
    for row, token in zip(table, tokens, strict=True):
        row[: len(token)] = [ord(character) for character in token]
    return tf.constant(table)
