"""Kinds of characters by code point, in a table that a TensorFlow graph can hold."""

from __future__ import annotations

import functools
import re
import unicodedata

import numpy as np
import tensorflow as tf

from bert_keras.inference import words
from bert_keras.tokenizers.code_points import NUM_CODE_POINTS, PAGE_BITS, PAGE_SIZE, paged

# A flag for everything that `inference.words` and the pieces of texts ask of a character.
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
        return CHINESE if words.is_chinese(character) else 0
    is_letter = re.match(r"\w", character) is not None
    found = {
        SPACE: character.isspace(),
        CHINESE: words.is_chinese(character),
        ATTACHED: words.is_attached(character),
        MARK: words.is_mark(character),
        WORD: is_letter,
        DIGIT: is_letter and character.isdecimal(),
        PARTING: words.PARTING.match(character) is not None,
        WIDE: character in words.WIDE,
        INNER: character in words.INNER,
        QUOTE: character in words.QUOTES,
        S: character in "sS",
        ACCENT: category.startswith("M"),
    }
    return sum(flag for flag, is_there in found.items() if is_there)
