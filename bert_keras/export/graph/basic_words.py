"""Words of texts in a TensorFlow graph, by the kinds of their characters."""

from __future__ import annotations

import functools
import re
import unicodedata
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from bert_keras.inference import token_classification
from bert_keras.tokenizers.basic_tokenizer import NUM_CODE_POINTS, PAGE_BITS, PAGE_SIZE, paged
from bert_keras.tokenizers.tf_basic_tokenizer import flags_at

# Flags of characters: those that `inference.token_classification` and the pieces of texts need.
SPACE, CHINESE, ATTACHED, MARK, WORD, DIGIT, PARTING, WIDE, INNER, QUOTE, S, ACCENT = (
    1 << bit for bit in range(12)
)
_UNASSIGNED = ("Cn", "Co", "Cs")  # most of them, and of no other kind


class Characters(tf.Module):
    """`characters(code_points)`: the flags of each, int32."""

    def __init__(self) -> None:
        super().__init__(name="characters")
        page_of, pages = _table()
        self._page_of, self._pages = tf.constant(page_of), tf.constant(pages.reshape(-1))

    def __call__(self, points: tf.Tensor) -> tf.Tensor:
        """int32 code points of any shape -> their flags."""
        page = tf.gather(self._page_of, tf.bitwise.right_shift(points, PAGE_BITS))
        within = tf.bitwise.bitwise_and(points, PAGE_SIZE - 1)
        return tf.gather(self._pages, tf.bitwise.left_shift(page, PAGE_BITS) + within)


def has(flags: tf.Tensor, wanted: int) -> tf.Tensor:
    """Return whether any of the wanted flags is there: bool."""
    return tf.bitwise.bitwise_and(flags, wanted) != 0


def lacks(flags: tf.Tensor, unwanted: int) -> tf.Tensor:
    """Return whether none of them is there: bool."""
    return tf.bitwise.bitwise_and(flags, unwanted) == 0


@functools.lru_cache(maxsize=1)
def _table() -> tuple[np.ndarray, np.ndarray]:
    """The number of each page, and the different pages. Takes about two seconds, once."""
    return paged(np.array([_flags(chr(code)) for code in range(NUM_CODE_POINTS)], np.int32))


def _flags(character: str) -> int:
    category = unicodedata.category(character)
    if category in _UNASSIGNED:
        return CHINESE if token_classification.is_chinese(character) else 0
    is_letter = re.match(r"\w", character) is not None
    found = {
        SPACE: character.isspace(),
        CHINESE: token_classification.is_chinese(character),
        ATTACHED: token_classification.is_attached(character),
        MARK: token_classification.is_mark(character),
        WORD: is_letter,
        DIGIT: is_letter and character.isdecimal(),
        PARTING: token_classification.PARTING.match(character) is not None,
        WIDE: character in token_classification.WIDE,
        INNER: character in token_classification.INNER,
        QUOTE: character in token_classification.QUOTES,
        S: character in "sS",
        ACCENT: category.startswith("M"),
    }
    return sum(flag for flag, is_there in found.items() if is_there)


# === Words ===


class TextWords(NamedTuple):
    """The words of a batch of texts.

    Attributes:
        points: the texts' code points, int32 [batch, (characters)].
        splits: int64 [batch + 1], where each text's words begin.
        starts: int64 [words], where each begins in its text;
        ends: and the character behind its last.
        texts: the words themselves, string [words].
    """

    points: tf.RaggedTensor
    splits: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor
    texts: tf.Tensor


def words_of(texts: tf.Tensor, kinds: Characters) -> TextWords:
    """See `inference.token_classification.words_of`: string [batch], UTF-8."""
    points = tf.strings.unicode_decode(texts, "UTF-8", errors="replace")
    flags, splits = kinds(points.flat_values), points.row_splits
    is_first = flags_at(splits[:-1], tf.size(flags))
    # A character with all that is attached to it.
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
    """Parts of code points as strings: string [parts]."""
    places = tf.ragged.range(starts, ends)
    return tf.strings.unicode_encode(
        places.with_flat_values(tf.gather(points, places.flat_values)), "UTF-8"
    )


def _begin_words(flags: tf.Tensor, is_inside: tf.Tensor, begins_run: tf.Tensor) -> tf.Tensor:
    """Return where words begin in runs without white space and Chinese characters."""
    goes_on = is_inside & tf.logical_not(begins_run)  # with the run of the character before
    last, following = before(flags) * tf.cast(goes_on, tf.int32), _behind(flags)
    following *= tf.cast(_behind(goes_on), tf.int32)
    is_letter = has(flags, WORD)  # of the character itself; of those beside it:
    last_letter, last_digit = has(last, WORD), has(last, DIGIT)
    next_letter, next_digit = has(following, WORD), has(following, DIGIT)
    beside = last_letter & next_letter & tf.logical_not(last_digit & next_digit)
    parts = has(flags, PARTING) | (has(flags, WIDE) & tf.logical_not(last_digit & next_digit))
    parts |= has(flags, INNER) & beside

    begins_segment = begins_run | (goes_on & (parts | before(parts)))
    # Marks before and behind what else is in a segment are words, one by one.
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
    joined = is_within & tf.logical_not(begins_core)  # with the character before, in one core
    # A possessive 's at the end.
    ends_core = is_within & tf.logical_not(_behind(joined))
    is_owner = ends_core & joined & has(flags, S) & before(joined & has(flags, QUOTE))
    is_owner &= before(before(is_letter))
    return begins_core | (is_inside & tf.logical_not(is_within)) | _behind(is_owner)


def before(values: tf.Tensor) -> tf.Tensor:
    """Return the values one place before; 0 before the first."""
    return tf.concat([tf.zeros_like(values[:1]), values[:-1]], axis=0)


def _behind(values: tf.Tensor) -> tf.Tensor:
    """Return the values one place behind."""
    return tf.concat([values[1:], tf.zeros_like(values[:1])], axis=0)
