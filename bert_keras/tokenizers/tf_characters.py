"""Characters of a batch of texts in a TensorFlow graph, and steps that change or split them.

All steps work on the concatenated characters of the whole batch. A text is one segment at first.
Added tokens, words and pieces are smaller segments. An added token is a segment of one code point
beyond Unicode.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from bert_keras.tokenizers.basic_tokenizer import NUM_CODE_POINTS
from bert_keras.tokenizers.character_tables import WHITE_SPACE, Sequences, flags_of
from bert_keras.tokenizers.split_patterns import FIRST_LETTER, SplitPattern
from bert_keras.tokenizers.tf_tables import Lookup

FIRST_TOKEN = NUM_CODE_POINTS  # code point of added token 0
ANY_SHAPE = tf.TensorShape(None)  # pyright: ignore[reportArgumentType]
_BEGIN, _END = 1, 2  # control characters around a match of an expression


class Characters(NamedTuple):
    """The characters of a batch.

    Attributes:
        points: code points, int32 [characters].
        segments: number of the segment of each character, int64 [characters], ascending.
        texts: number of its text, int64 [characters].
        starts: begin in the text of the source of each character, int64 [characters].
        ends: its end.
    """

    points: tf.Tensor
    segments: tf.Tensor
    texts: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor

    def at(self, places: tf.Tensor) -> Characters:
        """Return the characters at some places, which ascend."""
        return Characters(*(tf.gather(column, places) for column in self))

    def where(self, flags: tf.Tensor) -> Characters:
        """Return the characters whose flag is True."""
        return self.at(tf.where(flags)[:, 0])

    def begins(self) -> tf.Tensor:
        """Return bool [characters]: True for the first character of each segment."""
        return changes(self.segments)


def decoded(texts: tf.Tensor) -> Characters:
    """Return the characters of UTF-8 strings [batch]. Each text is a segment."""
    rows = tf.strings.unicode_decode(texts, "UTF-8", errors="replace")
    starts = tf.ragged.range(rows.row_lengths()).flat_values
    numbers = rows.value_rowids()
    return Characters(rows.flat_values, numbers, numbers, starts, starts + 1)


def changes(values: tf.Tensor) -> tf.Tensor:
    """Return bool [values]: True for the first value, and where a value differs from the last."""
    first = tf.ones_like(values[:1], tf.bool)
    return tf.concat([first, values[1:] != values[:-1]], axis=0)


def following(values: tf.Tensor) -> tf.Tensor:
    """Return the next value for each place; 0 for the last place."""
    return tf.concat([values[1:], tf.zeros_like(values[:1])], axis=0)


def numbered(begins: tf.Tensor) -> tf.Tensor:
    """Return the number of each segment, int64 [characters], from flags of their begins."""
    return tf.cumsum(tf.cast(begins, tf.int64))


def last_place(flags: tf.Tensor) -> tf.Tensor:
    """Return the last place up to each one where a flag is True, int64; -1 if there is none."""
    places = tf.concat([[-1], tf.where(flags)[:, 0]], axis=0)
    return tf.gather(places, tf.cumsum(tf.cast(flags, tf.int32)))


def growing() -> tf.TensorArray:
    """Return a growing array of vectors to concatenate. An empty first vector makes that safe."""
    array = tf.TensorArray(
        tf.int32, size=1, dynamic_size=True, infer_shape=False, element_shape=[None]
    )
    return array.write(0, tf.zeros([0], tf.int32))


def utf8_sizes(points: tf.Tensor) -> tf.Tensor:
    """Return the number of bytes of each character, int32; 1 for an added token."""
    more = sum(tf.cast(points >= limit, tf.int32) for limit in (0x80, 0x800, 0x10000))
    return tf.where(points >= FIRST_TOKEN, 1, 1 + more)


def spelled(points: tf.Tensor, begins: tf.Tensor) -> tf.Tensor:
    """Return the segments of characters as UTF-8 strings [segments].

    Args:
        points: code points, int32 [characters].
        begins: bool [characters], True for the first character of each segment.
    """
    rows = tf.RaggedTensor.from_row_starts(points, tf.where(begins)[:, 0], validate=False)  # pyright: ignore[reportAttributeAccessIssue]
    return tf.strings.unicode_encode(rows, "UTF-8")


# === Steps ===


class Expansion(tf.Module):
    """Replaces each character by a sequence: `expansion(points)`.

    Args:
        sequences: table of the sequences.
    """

    def __init__(self, sequences: Sequences):
        super().__init__(name="expansion")
        self._numbers = Lookup(sequences.numbers)
        self._values, self._starts = tf.constant(sequences.values), tf.constant(sequences.starts)

    def numbers(self, points: tf.Tensor) -> tf.Tensor:
        """Return the number of the sequence of each character, int32; 0 if it stays."""
        return self._numbers(points)

    def lengths(self, numbers: tf.Tensor, *, stays: tf.Tensor | None = None) -> tf.Tensor:
        """Return the number of characters behind the change, int32 [characters]."""
        sizes = tf.gather(self._starts, numbers + 1) - tf.gather(self._starts, numbers)
        return tf.where(numbers == 0 if stays is None else stays, 1, sizes)

    def __call__(
        self, points: tf.Tensor, numbers: tf.Tensor, lengths: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Return the changed characters, the place of the source of each, and its place there.

        Args:
            points: int32 [characters].
            numbers: number of the sequence of each, int32.
            lengths: `lengths` of the numbers.

        Returns:
            int32 [changed characters] each.
        """
        within = tf.ragged.range(lengths)
        source = tf.cast(within.value_rowids(), tf.int32)
        number = tf.gather(numbers, source)
        last = tf.size(self._values) - 1
        place = tf.minimum(tf.gather(self._starts, number) + within.flat_values, last)
        values = tf.gather(tf.concat([self._values, [0]], axis=0), tf.maximum(place, 0))
        return tf.where(number == 0, tf.gather(points, source), values), source, within.flat_values


class CharacterMapping(tf.Module):
    """Replaces each character by a text, which may be empty."""

    def __init__(self, sequences: Sequences):
        super().__init__(name="mapping")
        self._expansion = Expansion(sequences)

    def __call__(self, text: Characters) -> Characters:
        """Return the text behind this step."""
        numbers = self._expansion.numbers(text.points)

        def changed() -> Characters:
            """Return the text with the changes."""
            lengths = self._expansion.lengths(numbers)
            points, source, _ = self._expansion(text.points, numbers, lengths)
            return text.at(source)._replace(points=points)

        return when(tf.reduce_any(numbers != 0), changed, text)


def when(condition: tf.Tensor, change: object, text: Characters) -> Characters:
    """Return `change()` if a condition holds, else the text."""
    return Characters(*tf.cond(condition, lambda: tuple(change()), lambda: tuple(text)))  # pyright: ignore[reportCallIssue]


class Stripper(tf.Module):
    """Drops white space at the beginning and at the end of each segment."""

    def __init__(self, *, left: bool, right: bool):
        super().__init__(name="stripper")
        self._left, self._right = left, right
        self._is_space = Lookup(flags_of(WHITE_SPACE))

    def __call__(self, text: Characters) -> Characters:
        """Return the text behind this step."""
        is_other = self._is_space(text.points) == 0
        if self._left:  # a character is kept if another one is before it, or it is one itself
            seen = _counted(is_other, text.begins())
            text, is_other = text.where(seen), tf.boolean_mask(is_other, seen)
        if self._right:
            reverse = Characters(*(tf.reverse(column, [0]) for column in text))
            seen = tf.reverse(_counted(tf.reverse(is_other, [0]), reverse.begins()), [0])
            text = text.where(seen)
        return text


def _counted(flags: tf.Tensor, begins: tf.Tensor) -> tf.Tensor:
    """Return whether a flag is True up to each place of its segment."""
    return last_place(flags) >= last_place(begins)


class Matches(tf.Module):
    """Finds the matches of an expression in each segment.

    Args:
        pattern: the expression.
    """

    def __init__(self, pattern: SplitPattern):
        super().__init__(name="matches")
        self._pattern, self._num = pattern.pattern, pattern.num
        self._classes = Lookup(pattern.classes)
        self._ahead = None if pattern.ahead is None else Lookup(pattern.ahead)

    def __call__(self, text: Characters) -> tuple[tf.Tensor, tf.Tensor]:
        """Return which characters begin a match or a part between matches, and which are matched.

        Returns:
            bool [characters] each.
        """
        letters = FIRST_LETTER + self._classes(text.points)
        begins = text.begins()
        if self._ahead is not None:
            is_last = tf.concat([begins[1:], tf.ones_like(begins[:1])], axis=0)
            is_ahead = following(self._ahead(text.points)) & tf.cast(
                tf.logical_not(is_last), tf.int32
            )
            letters += self._num * is_ahead
        marked = tf.strings.regex_replace(
            spelled(letters, begins), self._pattern, f"{chr(_BEGIN)}\\0{chr(_END)}"
        )
        letters = tf.strings.unicode_decode(marked, "UTF-8").flat_values
        is_letter = letters >= FIRST_LETTER
        opened, closed = (tf.cumsum(tf.cast(letters == mark, tf.int32)) for mark in (_BEGIN, _END))
        behind = tf.concat([tf.ones_like(is_letter[:1]), tf.logical_not(is_letter[:-1])], axis=0)
        # Letters of tokens could match, too; they are segments of their own anyway.
        return (
            tf.boolean_mask(behind, is_letter) | begins,
            tf.boolean_mask(opened > closed, is_letter) & (text.points < FIRST_TOKEN),
        )


class Replacer(tf.Module):
    """Replaces each match of an expression by a text.

    Args:
        pattern: the expression.
        text: the text, which may be empty.
    """

    def __init__(self, pattern: SplitPattern, text: str):
        super().__init__(name="replacer")
        self._matches = Matches(pattern)
        self._text = tf.constant([ord(c) for c in text], tf.int32)

    def __call__(self, text: Characters) -> Characters:
        """Return the text behind this step."""
        begins, is_match = self._matches(text)

        def changed() -> Characters:
            """Return the text with the changes. A new character has the place of the last old."""
            ends = tf.concat([begins[1:], tf.ones_like(begins[:1])], axis=0)
            size = tf.size(self._text)
            lengths = tf.where(is_match, tf.where(ends, size, 0), 1)
            within = tf.ragged.range(lengths)
            source = within.value_rowids()
            values = tf.gather(tf.concat([self._text, [0]], axis=0), within.flat_values)
            kept = text.at(source)
            return kept._replace(points=tf.where(tf.gather(is_match, source), values, kept.points))

        return when(tf.reduce_any(is_match), changed, text)


class Splitter(tf.Module):
    """Splits segments at the matches of an expression.

    Args:
        pattern: the expression.
        dropped: "matches", "others" or "" for the parts that are dropped.
    """

    def __init__(self, pattern: SplitPattern, dropped: str):
        super().__init__(name="splitter")
        self._matches, self._dropped = Matches(pattern), dropped

    def __call__(self, text: Characters) -> Characters:
        """Return the text behind this step."""
        begins, is_match = self._matches(text)
        text = text._replace(segments=numbered(begins))
        if not self._dropped:
            return text
        is_token = text.points >= FIRST_TOKEN
        return text.where(is_token | (is_match != (self._dropped == "matches")))


class CharacterSplitter(tf.Module):
    """Splits segments before each occurrence of a character."""

    def __init__(self, character: str):
        super().__init__(name="splitter")
        self._point = ord(character)

    def __call__(self, text: Characters) -> Characters:
        """Return the text behind this step."""
        return text._replace(segments=numbered(text.begins() | (text.points == self._point)))


class Prefixer(tf.Module):
    """Puts a character before each segment that does not begin with it.

    Args:
        character: the character.
        first_only: True to put it only before the beginning of a whole text.
    """

    def __init__(self, character: str, *, first_only: bool):
        super().__init__(name="prefixer")
        self._point, self._first_only = ord(character), first_only

    def __call__(self, text: Characters) -> Characters:
        """Return the text behind this step."""
        lacks = text.begins() & (text.points != self._point) & (text.points < FIRST_TOKEN)
        if self._first_only:
            lacks &= text.starts == 0
        lengths = 1 + tf.cast(lacks, tf.int32)
        within = tf.ragged.range(lengths)
        source = within.value_rowids()
        is_new = (within.flat_values == 0) & tf.gather(lacks, source)
        kept = text.at(source)
        return kept._replace(points=tf.where(is_new, self._point, kept.points))
