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

# A special token in the text becomes one code point of an extra page, beyond Unicode. Its other
# characters become the tail code point, which is dropped.
_SPECIAL = cp.NUM_CODE_POINTS
_SPECIAL_TAIL = cp.NUM_CODE_POINTS + cp.PAGE_SIZE - 1

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
        special_tokens: special tokens that can be recognised in a text. The only "[" of each must
            be its first character.
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
        """Return the words of texts.

        Args:
            texts: UTF-8 strings [batch].
            with_specials: whether to recognise special tokens in the texts.
            with_places: whether to return `starts` and `ends`.
        """
        decoded = tf.strings.unicode_decode(texts, "UTF-8", errors="replace")
        points, splits = decoded.flat_values, decoded.row_splits
        more = [tf.ragged.range(decoded.row_lengths()).flat_values] if with_places else []
        if with_specials:
            points = self._with_specials(points, splits)
        characters, more, splits = _split(*self._normalize(points, more, splits))
        first = tf.gather(characters.flat_values, characters.row_starts())
        words = Words(characters, tf.maximum(first - _SPECIAL, NO_SPECIAL), splits)
        if not more:
            return words
        (starts,) = more
        # A special token starts at its first character and has its whole length. `NO_SPECIAL` (-1)
        # modulo the size selects the last entry, length 1.
        lengths = tf.constant([*map(len, self._specials), 1], tf.int64)
        number = tf.maximum(characters.flat_values - _SPECIAL, NO_SPECIAL) % tf.size(lengths)
        return words._replace(starts=starts, ends=starts + tf.gather(lengths, number))

    def _with_specials(self, points: tf.Tensor, splits: tf.Tensor) -> tf.Tensor:
        """Replace special tokens in the raw text by their code points beyond Unicode.

        Matches cannot overlap, because each token starts with its only "[".

        Args:
            points: code points [characters].
            splits: index of the first character of each text [texts + 1].
        """
        wanted = _code_points(self._specials)
        lengths = tf.constant([len(token) for token in self._specials], tf.int64)
        starts = tf.where(points == ord("["))[:, 0]
        ends = tf.gather(splits, tf.searchsorted(splits, starts, side="right"))[:, tf.newaxis]
        window = starts[:, tf.newaxis] + tf.range(wanted.shape[1], dtype=tf.int64)
        candidates = tf.gather(points, tf.minimum(window, ends - 1))
        candidates = tf.where(window < ends, candidates, -1)[:, tf.newaxis]
        matches = tf.where(tf.reduce_all((candidates == wanted) | (wanted == 0), axis=-1))
        heads, numbers = tf.gather(starts, matches[:, 0]), matches[:, 1]
        tails = tf.ragged.range(heads + 1, heads + tf.gather(lengths, numbers)).flat_values
        points = tf.tensor_scatter_nd_update(
            points, heads[:, tf.newaxis], _SPECIAL + tf.cast(numbers, tf.int32)
        )
        return tf.tensor_scatter_nd_update(
            points, tails[:, tf.newaxis], tf.fill(tf.shape(tails), _SPECIAL_TAIL)
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


def _code_points(tokens: Sequence[str]) -> tf.Tensor:
    """Return the code points of tokens, int32 [tokens, longest token], padded with 0."""
    table = np.zeros((len(tokens), max(map(len, tokens))), np.int32)
    for row, token in zip(table, tokens, strict=True):
        row[: len(token)] = [ord(character) for character in token]
    return tf.constant(table)
