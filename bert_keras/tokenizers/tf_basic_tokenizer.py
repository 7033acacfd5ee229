"""From texts to words in a TensorFlow graph: what the tokenizer does before WordPiece.

Text is decoded to code points, mapped by the table of `basic_tokenizer` and cut into words. It all
works on the flat characters of the whole batch; what is rare in text (special tokens, decomposed
letters, marks out of order) costs only where it occurs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from bert_keras.tokenizers import basic_tokenizer as cp

# Special tokens found in the text are written as code points of one more page, beyond Unicode.
_SPECIAL = cp.NUM_CODE_POINTS
_SPECIAL_TAIL = cp.NUM_CODE_POINTS + cp.PAGE_SIZE - 1

NO_SPECIAL = -1

_Columns = list[tf.Tensor]  # as long as the text, what goes along with its characters
_Text = tuple[tf.Tensor, tf.Tensor, _Columns, tf.Tensor]  # code points, kinds, those, splits


class Words(NamedTuple):
    """The words of a batch of texts.

    Attributes:
        characters: code points, int32 [words, (characters)]; a special token is one, beyond
            Unicode.
        special: int32 [words], which special token a word is; `NO_SPECIAL` for none.
        splits: int64 [texts + 1], where each text's words begin.
        starts: int64 [all characters], where in its text each was read;
        ends: and where what it was read from ends. Both None where they were not asked for.
    """

    characters: tf.RaggedTensor
    special: tf.Tensor
    splits: tf.Tensor
    starts: tf.Tensor | None = None
    ends: tf.Tensor | None = None


class InGraphWords(tf.Module):
    """Cuts texts into normalised words, exactly as the Python engine does.

    Args:
        table: what the tokenizer's switches do to each code point.
        special_tokens: those to recognise in the raw text where that is wanted, each a word of its
            own; none of them may hold another "[" than its first character.
    """

    def __init__(self, table: cp.CodePointTable, special_tokens: Sequence[str]):
        super().__init__(name="words")
        self._specials = tuple(special_tokens)
        special_page = np.full((1, cp.PAGE_SIZE), cp.ISOLATED, np.int32)
        special_page[0, -1] = cp.DROPPED
        self._entries = tf.constant(np.concatenate([table.pages, special_page]).reshape(-1))
        page_of = np.append(table.page_of, np.int32(len(table.pages)))
        self._page_starts = tf.constant(page_of * np.int32(cp.PAGE_SIZE))
        self._expansions = tf.constant(table.expansions)
        self._expansion_starts = tf.constant(table.expansion_starts)
        self._marks, self._mark_ranks = tf.constant(table.marks), tf.constant(table.mark_ranks)

    def __call__(
        self, texts: tf.Tensor, *, with_specials: bool = True, with_places: bool = False
    ) -> Words:
        """The words of texts in UTF-8, string [batch]."""
        decoded = tf.strings.unicode_decode(texts, "UTF-8", errors="replace")
        points, splits = decoded.flat_values, decoded.row_splits
        # What goes along with the characters: nothing, or where each stands in its text.
        more = [tf.ragged.range(decoded.row_lengths()).flat_values] if with_places else []
        if with_specials:
            points = self._with_specials(points, splits)
        characters, more, splits = _split(*self._normalize(points, more, splits))
        first = tf.gather(characters.flat_values, characters.row_starts())
        words = Words(characters, tf.maximum(first - _SPECIAL, NO_SPECIAL), splits)
        if not more:
            return words
        (starts,) = more
        # A special token stands at its first character; there is no last number but that of none.
        lengths = tf.constant([*map(len, self._specials), 1], tf.int64)
        number = tf.maximum(characters.flat_values - _SPECIAL, NO_SPECIAL) % tf.size(lengths)
        return words._replace(starts=starts, ends=starts + tf.gather(lengths, number))

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

    def _normalize(self, points: tf.Tensor, more: _Columns, splits: tf.Tensor) -> _Text:
        """Code points [in] -> normalised code points [out], kinds, what goes along, splits."""
        page = tf.gather(self._page_starts, tf.bitwise.right_shift(points, cp.PAGE_BITS))
        within = tf.bitwise.bitwise_and(points, cp.PAGE_SIZE - 1)
        values, kinds = _unpack(tf.gather(self._entries, page + within))
        points, kinds, more, splits = tf.cond(
            tf.reduce_any(kinds == cp.EXPANSION),
            lambda: self._expand(points, values, kinds, more, splits),
            lambda: (points + values, kinds, more, splits),
        )
        points, kinds, more = tf.cond(
            tf.reduce_any(kinds == cp.MARK),
            lambda: self._order_marks(points, kinds, more, splits),
            lambda: (points, kinds, more),
        )
        return tf.cond(
            tf.reduce_all(kinds <= cp.SPACE),
            lambda: (points, kinds, more, splits),
            lambda: _without_dropped(points, kinds, more, splits),
        )

    def _expand(
        self,
        points: tf.Tensor,
        values: tf.Tensor,
        kinds: tf.Tensor,
        more: _Columns,
        splits: tf.Tensor,
    ) -> _Text:
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
        is_tail = flags_at(tails, tf.size(points, out_type=tf.int64) + shifts[-1])
        source = tf.cumsum(tf.cast(tf.logical_not(is_tail), tf.int64)) - 1
        places = tf.ragged.range(heads, heads + 1 + added).flat_values[:, tf.newaxis]
        return (
            tf.tensor_scatter_nd_update(tf.gather(points + values, source), places, code),
            tf.tensor_scatter_nd_update(tf.gather(kinds, source), places, kind),
            [tf.gather(column, source) for column in more],
            splits + tf.gather(shifts, tf.searchsorted(at, splits)),
        )

    def _order_marks(
        self, points: tf.Tensor, kinds: tf.Tensor, more: _Columns, splits: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, _Columns]:
        """Unicode's canonical ordering: a stable sort of the marks after each base character."""
        index = tf.searchsorted(self._marks, points)
        rank = tf.gather(self._mark_ranks, tf.minimum(index, tf.size(self._marks) - 1))
        rank = tf.where(kinds == cp.MARK, rank, 0)
        begins = (kinds != cp.MARK) & (kinds != cp.DROPPED) | flags_at(splits[:-1], tf.size(kinds))
        run = tf.cumsum(tf.cast(begins, tf.int64))
        order = tf.argsort(run * cp.MAX_RANK + tf.cast(rank, tf.int64), stable=True)
        more = [tf.gather(column, order) for column in more]
        return tf.gather(points, order), tf.gather(kinds, order), more


def _unpack(entries: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Entries or symbols of the table -> values, kinds."""
    return (
        tf.bitwise.right_shift(entries, cp.KIND_BITS),
        tf.bitwise.bitwise_and(entries, cp.NUM_KINDS - 1),
    )


def _without_dropped(
    points: tf.Tensor, kinds: tf.Tensor, more: _Columns, splits: tf.Tensor
) -> _Text:
    is_kept = kinds <= cp.SPACE
    kept = tf.where(is_kept)[:, 0]
    more = [tf.gather(column, kept) for column in more]
    return tf.gather(points, kept), tf.gather(kinds, kept), more, _count_to(splits, is_kept)


def _split(
    points: tf.Tensor, kinds: tf.Tensor, more: _Columns, splits: tf.Tensor
) -> tuple[tf.RaggedTensor, _Columns, tf.Tensor]:
    """Cuts normalised text into words: code points [words, (characters)], the texts' splits."""
    is_letter, is_alone = kinds != cp.SPACE, kinds == cp.ISOLATED
    ends = tf.concat([[True], is_alone | (kinds == cp.SPACE)], axis=0)[:-1]
    begins = is_letter & (is_alone | ends | flags_at(splits[:-1], tf.size(kinds)))
    letters = tf.boolean_mask(points, is_letter)
    starts = tf.where(tf.boolean_mask(begins, is_letter))[:, 0]
    words = tf.RaggedTensor.from_row_starts(letters, starts, validate=False)
    more = [tf.boolean_mask(column, is_letter) for column in more]
    return words, more, _count_to(splits, begins)


def flags_at(places: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """True at the places that are within: bool [size]. Of splits, where a text begins."""
    places = tf.boolean_mask(places, places < tf.cast(size, places.dtype))[:, tf.newaxis]
    found = tf.fill([size], False)
    return tf.tensor_scatter_nd_update(found, places, tf.fill([tf.shape(places)[0]], True))


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
