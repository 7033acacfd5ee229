"""BERT's basic tokenizer in a TensorFlow graph: from texts to normalised words.

Texts are decoded to code points, mapped with the table of `basic_tokenizer` and split into words.
All steps work on the concatenated characters of the whole batch. Steps for rare input (special
tokens, letters that expand, marks out of order) run only if the batch has such input.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from bert_keras.tokenizers import basic_tokenizer as cp
from bert_keras.tokenizers.added_tokens import AddedToken
from bert_keras.tokenizers.tf_added_tokens import TokenMatcher

# A special or added token in the text becomes one code point of extra pages, beyond Unicode. Its
# other characters become the last code point of these pages, which is dropped.
_SPECIAL = cp.NUM_CODE_POINTS

NO_SPECIAL = -1

_Columns = list[tf.Tensor]  # further values for each character, such as its place in the text
# Concatenated texts: code points, kinds, columns (each [characters]) and splits [texts + 1].
_Text = tuple[tf.Tensor, tf.Tensor, _Columns, tf.Tensor]


class Words(NamedTuple):
    """The words of a batch of texts.

    Attributes:
        characters: code points of each word, int32 [words, (characters)]. A special token is a
            word of one code point beyond Unicode.
        special: int32 [words], the number of the special token that a word is, or `NO_SPECIAL`.
        splits: int64 [texts + 1], the index of the first word of each text.
        starts: int64 [all characters], the start in its text of the source of each character; None
            if places were not requested.
        ends: int64 [all characters], the end of the source; None if places were not requested.
    """

    characters: tf.RaggedTensor
    special: tf.Tensor
    splits: tf.Tensor
    starts: tf.Tensor | None = None
    ends: tf.Tensor | None = None


class InGraphWords(tf.Module):
    """Splits texts into normalised words, exactly as the tokenizer in Python does.

    Args:
        table: table of code points for the tokenizer's switches.
        tokens: special tokens and added tokens that can be recognised in a text.
    """

    def __init__(self, table: cp.CodePointTable, tokens: Sequence[AddedToken]):
        super().__init__(name="words")
        num_pages = len(tokens) // cp.PAGE_SIZE + 1
        special = np.full((num_pages, cp.PAGE_SIZE), cp.ISOLATED, np.int32)
        special[-1, -1] = cp.DROPPED
        self._tail = _SPECIAL + special.size - 1
        self._entries = tf.constant(np.concatenate([table.pages, special]).reshape(-1))
        pages = np.arange(len(table.pages), len(table.pages) + num_pages, dtype=np.int32)
        page_of = np.concatenate([table.page_of, pages])
        self._page_starts = tf.constant(page_of * np.int32(cp.PAGE_SIZE))
        self._expansions = tf.constant(table.expansions)
        self._expansion_starts = tf.constant(table.expansion_starts)
        self._marks, self._mark_ranks = tf.constant(table.marks), tf.constant(table.mark_ranks)
        self._raw, self._normalized = self._matchers(tokens, with_specials=True)
        self._plain_raw, self._plain_normalized = self._matchers(tokens, with_specials=False)

    def _matchers(
        self, tokens: Sequence[AddedToken], *, with_specials: bool
    ) -> list[TokenMatcher | None]:
        """Return matchers for raw and for normalised texts; None for no tokens."""
        matchers: list[TokenMatcher | None] = []
        for normalized in (False, True):
            chosen = {
                number: token.content
                for number, token in enumerate(tokens)
                if token.normalized == normalized and (with_specials or not token.special)
            }
            codes = [self._codes(text, normalized) for text in chosen.values()]
            matchers.append(TokenMatcher(codes, [*chosen]) if chosen else None)
        return matchers

    def _codes(self, text: str, normalized: bool) -> list[int]:
        """Return the code points of a token, as they are in raw or in normalised texts."""
        points = [ord(character) for character in text]
        if not normalized:
            return points
        with tf.init_scope():  # values are needed, also while a graph is traced
            splits = tf.constant([0, len(points)], tf.int64)
            codes, kinds, _, _ = self._normalize(tf.constant(points, tf.int32), [], splits)
            return tf.where(kinds == cp.SPACE, ord(" "), codes).numpy().tolist()

    def __call__(
        self, texts: tf.Tensor, *, with_specials: bool = True, with_places: bool = False
    ) -> Words:
        """Return the words of texts.

        Args:
            texts: UTF-8 strings [batch].
            with_specials: whether to recognise special tokens in the texts. Other added tokens
                always are.
            with_places: whether to return `starts` and `ends`.
        """
        decoded = tf.strings.unicode_decode(texts, "UTF-8", errors="replace")
        points, splits = decoded.flat_values, decoded.row_splits
        more: _Columns = []
        if with_places:
            starts = tf.ragged.range(decoded.row_lengths()).flat_values
            more = [starts, starts + 1]
        raw = self._raw if with_specials else self._plain_raw
        points, more, tails = self._replace(raw, points, more, splits)
        points = tf.tensor_scatter_nd_update(
            points, tails[:, tf.newaxis], tf.fill(tf.shape(tails), self._tail)
        )
        normalized = self._normalized if with_specials else self._plain_normalized
        text = self._joined(normalized, self._normalize(points, more, splits))
        characters, more, splits = _split(*text)
        first = tf.gather(characters.flat_values, characters.row_starts())
        words = Words(characters, tf.maximum(first - _SPECIAL, NO_SPECIAL), splits)
        return words._replace(starts=more[0], ends=more[1]) if more else words

    def _replace(
        self,
        matcher: TokenMatcher | None,
        points: tf.Tensor,
        more: _Columns,
        splits: tf.Tensor,
    ) -> tuple[tf.Tensor, _Columns, tf.Tensor]:
        """Replace added tokens by their code points beyond Unicode.

        Args:
            matcher: finds the tokens; None for no tokens.
            points: code points [characters].
            more: columns [characters]; the second one, the ends of places, is that of the token.
            splits: index of the first character of each text [texts + 1].

        Returns:
            Points and columns, and int64 [tails], the indices of all characters of tokens but the
            first one of each.
        """
        if matcher is None:
            return points, more, tf.zeros([0], tf.int64)
        heads, ends, numbers = matcher(points, splits)
        tails = tf.ragged.range(heads + 1, ends).flat_values
        places = heads[:, tf.newaxis]
        points = tf.tensor_scatter_nd_update(points, places, _SPECIAL + tf.cast(numbers, tf.int32))
        if more:
            last = tf.gather(more[1], ends - 1)
            more = [more[0], tf.tensor_scatter_nd_update(more[1], places, last)]
        return points, more, tails

    def _joined(self, matcher: TokenMatcher | None, text: _Text) -> _Text:
        """Replace added tokens in normalised texts, each by one character of kind ISOLATED."""
        if matcher is None:
            return text
        points, kinds, more, splits = text
        codes = tf.where(kinds == cp.SPACE, ord(" "), points)
        codes, more, tails = self._replace(matcher, codes, more, splits)
        kinds = tf.where(codes >= _SPECIAL, cp.ISOLATED, kinds)
        is_tail = flags_at(tails, tf.size(codes))
        kinds = tf.where(is_tail, cp.DROPPED, kinds)
        return tf.cond(
            tf.size(tails) > 0,
            lambda: _without_dropped(codes, kinds, more, splits),
            lambda: (codes, kinds, more, splits),
        )

    def _normalize(self, points: tf.Tensor, more: _Columns, splits: tf.Tensor) -> _Text:
        """Normalise code points [characters] with the table; their number may change."""
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
        """Replace each code point of kind EXPANSION by its sequence of code points."""
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
        """Apply Unicode's canonical ordering: sort the marks after each base character stably."""
        index = tf.searchsorted(self._marks, points)
        rank = tf.gather(self._mark_ranks, tf.minimum(index, tf.size(self._marks) - 1))
        rank = tf.where(kinds == cp.MARK, rank, 0)
        begins = (kinds != cp.MARK) & (kinds != cp.DROPPED) | flags_at(splits[:-1], tf.size(kinds))
        run = tf.cumsum(tf.cast(begins, tf.int64))
        order = tf.argsort(run * cp.MAX_RANK + tf.cast(rank, tf.int64), stable=True)
        more = [tf.gather(column, order) for column in more]
        return tf.gather(points, order), tf.gather(kinds, order), more


def _unpack(entries: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Split entries `8 * value + kind` of the table into values and kinds, of the same shape."""
    return (
        tf.bitwise.right_shift(entries, cp.KIND_BITS),
        tf.bitwise.bitwise_and(entries, cp.NUM_KINDS - 1),
    )


def _without_dropped(
    points: tf.Tensor, kinds: tf.Tensor, more: _Columns, splits: tf.Tensor
) -> _Text:
    """Remove the characters of kinds BARRIER and DROPPED."""
    is_kept = kinds <= cp.SPACE
    kept = tf.where(is_kept)[:, 0]
    more = [tf.gather(column, kept) for column in more]
    return tf.gather(points, kept), tf.gather(kinds, kept), more, _count_to(splits, is_kept)


def _split(
    points: tf.Tensor, kinds: tf.Tensor, more: _Columns, splits: tf.Tensor
) -> tuple[tf.RaggedTensor, _Columns, tf.Tensor]:
    """Split normalised texts into words.

    Returns:
        Code points [words, (characters)], the columns without spaces, and the index of the first
        word of each text [texts + 1].
    """
    is_letter, is_alone = kinds != cp.SPACE, kinds == cp.ISOLATED
    ends = tf.concat([[True], is_alone | (kinds == cp.SPACE)], axis=0)[:-1]
    begins = is_letter & (is_alone | ends | flags_at(splits[:-1], tf.size(kinds)))
    letters = tf.boolean_mask(points, is_letter)
    starts = tf.where(tf.boolean_mask(begins, is_letter))[:, 0]
    words = tf.RaggedTensor.from_row_starts(letters, starts, validate=False)  # pyright: ignore[reportAttributeAccessIssue]
    more = [tf.boolean_mask(column, is_letter) for column in more]
    return words, more, _count_to(splits, begins)


def flags_at(places: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """Return bool [size] that is True at `places`. Places beyond `size` are ignored."""
    places = tf.boolean_mask(places, places < tf.cast(size, places.dtype))[:, tf.newaxis]
    flags = tf.fill([size], False)
    return tf.tensor_scatter_nd_update(flags, places, tf.fill([tf.shape(places)[0]], True))


def _count_to(splits: tf.Tensor, flags: tf.Tensor) -> tf.Tensor:
    """Return the number of True flags before each split: the splits of the flagged items alone."""
    count = tf.cumsum(tf.cast(flags, tf.int64))
    return tf.gather(tf.concat([[0], count], axis=0), splits)
