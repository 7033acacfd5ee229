"""Splitting of texts into words in a TensorFlow graph, by flags of their characters."""

from __future__ import annotations

import functools
import re
import unicodedata
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from bert_keras.data import entity_spans
from bert_keras.tokenizers.basic_tokenizer import NUM_CODE_POINTS, PAGE_BITS, PAGE_SIZE, paged
from bert_keras.tokenizers.tf_basic_tokenizer import flags_at

# Flags of characters, for the rules of `data.entity_spans.words_of` and for pieces.
SPACE, CHINESE, ATTACHED, MARK, WORD, DIGIT, PARTING, WIDE, INNER, QUOTE, S, ACCENT = (
    1 << bit for bit in range(12)
)
_UNASSIGNED = ("Cn", "Co", "Cs")  # categories of most code points, which can only be CHINESE


class Characters(tf.Module):
    """Lookup table from code points to their flags."""

    def __init__(self) -> None:
        super().__init__(name="characters")
        page_of, pages = _table()
        self._page_of, self._pages = tf.constant(page_of), tf.constant(pages.reshape(-1))

    def __call__(self, points: tf.Tensor) -> tf.Tensor:
        """Return the flags of int32 code points, int32 of the same shape."""
        page = tf.gather(self._page_of, tf.bitwise.right_shift(points, PAGE_BITS))
        within = tf.bitwise.bitwise_and(points, PAGE_SIZE - 1)
        return tf.gather(self._pages, tf.bitwise.left_shift(page, PAGE_BITS) + within)


def has(flags: tf.Tensor, wanted: int) -> tf.Tensor:
    """Return bool of the same shape: True if any of the wanted flags is set."""
    return tf.bitwise.bitwise_and(flags, wanted) != 0


def lacks(flags: tf.Tensor, unwanted: int) -> tf.Tensor:
    """Return bool of the same shape: True if none of the unwanted flags is set."""
    return tf.bitwise.bitwise_and(flags, unwanted) == 0


@functools.lru_cache(maxsize=1)
def _table() -> tuple[np.ndarray, np.ndarray]:
    """Return the flags of all code points as `page_of` and `pages`; takes two seconds, cached."""
    return paged(np.array([_flags(chr(code)) for code in range(NUM_CODE_POINTS)], np.int32))


def _flags(character: str) -> int:
    """Return the flags of a character."""
    category = unicodedata.category(character)
    if category in _UNASSIGNED:
        return CHINESE if entity_spans.is_chinese(character) else 0
    is_letter = re.match(r"\w", character) is not None
    flags = {
        SPACE: character.isspace(),
        CHINESE: entity_spans.is_chinese(character),
        ATTACHED: entity_spans.is_attached(character),
        MARK: entity_spans.is_mark(character),
        WORD: is_letter,
        DIGIT: is_letter and character.isdecimal(),
        PARTING: entity_spans.PARTING.match(character) is not None,
        WIDE: character in entity_spans.WIDE,
        INNER: character in entity_spans.INNER,
        QUOTE: character in entity_spans.QUOTES,
        S: character in "sS",
        ACCENT: category.startswith("M"),
    }
    return sum(flag for flag, is_set in flags.items() if is_set)


# === Words ===


class SpaceTrimmer(tf.Module):
    """Leaves out white space at the ends of pieces, as `data.sliding_windows.Pieces` does.

    Pieces of byte-level BPE and SentencePiece may begin with the space before their word.
    """

    def __init__(self, kinds: Characters) -> None:
        super().__init__(name="spaces")
        self._kinds = kinds

    def __call__(
        self, points: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return begin and end of pieces without the white space.

        Args:
            points: code points of all texts, int32 [characters].
            starts: index of the first character of each piece, int64 [pieces].
            ends: index behind its last character.
        """
        others = tf.where(lacks(self._kinds(points), SPACE))[:, 0]
        size = tf.size(points, out_type=tf.int64)
        first = tf.gather(tf.concat([others, [size]], axis=0), tf.searchsorted(others, starts))
        last = tf.gather(tf.concat([[-1], others], axis=0), tf.searchsorted(others, ends))
        return tf.minimum(first, ends), tf.where(last >= starts, last + 1, ends)


class TextWords(NamedTuple):
    """The words of a batch of texts.

    Attributes:
        points: code points of the texts, int32 [batch, (characters)].
        splits: int64 [batch + 1], index of the first word of each text.
        starts: int64 [words], index in its text of the first character of each word.
        ends: int64 [words], index after its last character.
        texts: the words as strings [words].
    """

    points: tf.RaggedTensor
    splits: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor
    texts: tf.Tensor


def words_of(texts: tf.Tensor, kinds: Characters) -> TextWords:
    """Split texts into words by the rules of `data.entity_spans.words_of`.

    Args:
        texts: UTF-8 strings [batch].
        kinds: table of character flags.
    """
    points = tf.strings.unicode_decode(texts, "UTF-8", errors="replace")
    flags, splits = kinds(points.flat_values), points.row_splits
    is_first = flags_at(splits[:-1], tf.size(flags))
    # From here on, a character includes the accents that are attached to it.
    begins = is_first | lacks(flags, ATTACHED) | has(before(flags), SPACE)
    starts = tf.where(begins)[:, 0]
    ends = tf.concat([starts[1:], splits[-1:]], axis=0)[: tf.size(starts)]
    flags, is_first = tf.gather(flags, starts), tf.gather(is_first, starts)

    is_inside = lacks(flags, SPACE | CHINESE)
    begins_run = is_inside & (is_first | tf.logical_not(before(is_inside)))
    begins_word = has(flags, CHINESE) | _begin_words(flags, is_inside, begins_run)
    is_word = lacks(flags, SPACE)
    starts, ends = tf.boolean_mask(starts, is_word), tf.boolean_mask(ends, is_word)
    begins_word = tf.boolean_mask(begins_word, is_word)
    heads = tf.where(begins_word)[:, 0]
    tails = tf.concat([heads[1:], [tf.size(starts, out_type=tf.int64)]], axis=0)[: tf.size(heads)]
    starts, ends = tf.gather(starts, heads), tf.gather(ends, tails - 1)
    of_texts = tf.searchsorted(starts, splits, out_type=tf.int64)
    begin = tf.repeat(splits[:-1], of_texts[1:] - of_texts[:-1])
    return TextWords(
        points, of_texts, starts - begin, ends - begin, spelled(points.flat_values, starts, ends)
    )


def spelled(points: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
    """Return the parts from `starts` to `ends` of flat code points, as strings [parts]."""
    places = tf.ragged.range(starts, ends)
    return tf.strings.unicode_encode(
        places.with_flat_values(tf.gather(points, places.flat_values)), "UTF-8"
    )


def _begin_words(flags: tf.Tensor, is_inside: tf.Tensor, begins_run: tf.Tensor) -> tf.Tensor:
    """Return bool [characters]: True where a word begins in a run without spaces and Chinese.

    Args:
        flags: flags of all characters of the batch, int32 [characters].
        is_inside: True for the characters of runs.
        begins_run: True for the first character of each run.
    """
    goes_on = is_inside & tf.logical_not(begins_run)  # continues the run of the previous character
    last, following = before(flags) * tf.cast(goes_on, tf.int32), _behind(flags)
    following *= tf.cast(_behind(goes_on), tf.int32)
    is_letter = has(flags, WORD)
    last_letter, last_digit = has(last, WORD), has(last, DIGIT)
    next_letter, next_digit = has(following, WORD), has(following, DIGIT)
    beside = last_letter & next_letter & tf.logical_not(last_digit & next_digit)
    parts = has(flags, PARTING) | (has(flags, WIDE) & tf.logical_not(last_digit & next_digit))
    parts |= has(flags, INNER) & beside

    begins_segment = begins_run | (goes_on & (parts | before(parts)))
    # Marks at both ends of a segment are words of their own. The rest is its core.
    segment = tf.cumsum(tf.cast(begins_segment, tf.int32))
    is_core = is_inside & lacks(flags, MARK)
    count = tf.cumsum(tf.cast(is_core, tf.int32))
    size = tf.reduce_max(tf.concat([[0], segment], axis=0)) + 1
    first = tf.math.unsorted_segment_min(count - tf.cast(is_core, tf.int32), segment, size)
    final = tf.math.unsorted_segment_max(count, segment, size)
    is_within = (count > tf.gather(first, segment)) & (
        (count < tf.gather(final, segment)) | is_core
    )
    is_within &= is_inside
    begins_core = is_within & (begins_segment | tf.logical_not(before(is_within)))
    joined = is_within & tf.logical_not(begins_core)  # in the same core as the previous character
    # A possessive 's at the end of a core is a word of its own.
    ends_core = is_within & tf.logical_not(_behind(joined))
    is_owner = ends_core & joined & has(flags, S) & before(joined & has(flags, QUOTE))
    is_owner &= before(before(is_letter))
    return begins_core | (is_inside & tf.logical_not(is_within)) | _behind(is_owner)


def before(values: tf.Tensor) -> tf.Tensor:
    """Return the previous value for each place; 0 for the first place."""
    return tf.concat([tf.zeros_like(values[:1]), values[:-1]], axis=0)


def _behind(values: tf.Tensor) -> tf.Tensor:
    """Return the next value for each place; 0 for the last place."""
    return tf.concat([values[1:], tf.zeros_like(values[:1])], axis=0)
