"""Unicode's normalisation forms and SentencePiece's rules in a TensorFlow graph.

Places in the text follow the `tokenizers` library. Each new character has a `change`: 0 takes the
next old character's place, a positive number takes no further one, and -n takes n more.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from bert_keras.tokenizers import character_map as cm
from bert_keras.tokenizers import character_tables as tables
from bert_keras.tokenizers.basic_tokenizer import NUM_CODE_POINTS
from bert_keras.tokenizers.character_map import ClusterRules
from bert_keras.tokenizers.character_tables import Sequences
from bert_keras.tokenizers.tf_characters import (
    FIRST_TOKEN,
    Characters,
    Expansion,
    changes,
    last_place,
    numbered,
    utf8_sizes,
    when,
)
from bert_keras.tokenizers.tf_tables import Lookup, SortedTable

_CODE_BITS, _RANK_BITS = 21, 8


def _placed(old: Characters, points: tf.Tensor, source: tf.Tensor, change: tf.Tensor) -> Characters:
    """Return changed characters with their places in the text.

    Args:
        old: characters before the change.
        points: code points after the change, int32 [characters].
        source: place of an old character of the same segment for each, ascending.
        change: see the module, int32 [characters].
    """
    new = old.at(source)._replace(points=points)
    taken = tf.where(change > 0, 0, 1 - change)
    before = tf.cumsum(taken, exclusive=True)
    begins = new.begins()
    first = tf.gather(before, last_place(begins))  # taken by earlier segments
    starts = last_place(old.begins())
    begin = tf.gather(starts, source)
    place = begin + tf.cast(before - first - tf.cast(change > 0, tf.int32), tf.int64)
    place = tf.clip_by_value(place, begin, tf.size(old.points, out_type=tf.int64) - 1)
    return new._replace(starts=tf.gather(old.starts, place), ends=tf.gather(old.ends, place))


class CanonicalForm(tf.Module):
    """A normalisation form (UAX #15): decomposition, order of marks, composition.

    Args:
        name: "NFC", "NFD", "NFKC" or "NFKD".
    """

    def __init__(self, name: str):
        super().__init__(name=name.lower())
        outputs = tables.decompositions(name.replace("C", "D"))
        ranks = tables.mark_ranks()
        pairs, composites = tables.compositions()
        self._composes = name.endswith("C")
        self._expansion = Expansion(Sequences.of(outputs))
        self._ranks = Lookup(ranks)
        # Only a text with such a character may change.
        affected = ranks > 0
        changed = [ord(c) for c, text in outputs.items() if not self._composes or _alone(c, text)]
        affected[changed] = True
        second = np.zeros(NUM_CODE_POINTS, np.bool_)
        second[pairs & (1 << _CODE_BITS) - 1] = True
        if self._composes:
            affected |= second
        self._affected = Lookup(affected)
        self._joins = Lookup((ranks > 0) | second)
        self._composites = SortedTable(pairs, composites, 0)

    def __call__(self, text: Characters) -> Characters:
        """Return the text behind this step."""
        is_affected = tf.reduce_any(self._affected(text.points) != 0)
        return when(is_affected, lambda: self._changed(text), text)

    def _changed(self, text: Characters) -> Characters:
        """Return the normalised text."""
        numbers = self._expansion.numbers(text.points)
        lengths = self._expansion.lengths(numbers)
        points, source, within = self._expansion(text.points, numbers, lengths)
        change = tf.cast(within > 0, tf.int32)
        segments = tf.gather(text.segments, source)
        # Marks behind a base character are sorted by their class.
        ranks = self._ranks(points)
        begins = changes(segments)
        run = numbered((ranks == 0) | begins)
        order = tf.argsort(run * (1 << _RANK_BITS) + tf.cast(ranks, tf.int64), stable=True)
        points, change = tf.gather(points, order), tf.gather(change, order)
        if self._composes:
            points, change, kept = self._composed(points, change, begins)
            points, change, source = (tf.boolean_mask(x, kept) for x in (points, change, source))
        return _placed(text, points, source, change)

    def _composed(
        self, points: tf.Tensor, change: tf.Tensor, begins: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Compose pairs of characters, reading one more character of each run in each round.

        A run is a character with all behind it that may join it.

        Args:
            points: decomposed characters, int32 [characters].
            change: their changes.
            begins: True for the first character of each segment.

        Returns:
            Points, changes, and which characters are left, bool [characters].
        """
        ranks = self._ranks(points)
        is_first = begins | (self._joins(points) == 0)
        firsts = tf.where(is_first)[:, 0]
        size = tf.size(points, out_type=tf.int64)
        stops = tf.concat([firsts[1:], [size]], axis=0)
        kept = tf.fill([size], True)
        long = tf.where(stops - firsts > 1)[:, 0]
        at, stop = tf.gather(firsts, long), tf.gather(stops, long)
        # A mark at the beginning of a run is no base.
        base = tf.where(tf.gather(ranks, at) == 0, at, -1)
        rank = tf.fill(tf.shape(at), 0)  # of the last character that was not composed

        def step(
            points: tf.Tensor, change: tf.Tensor, kept: tf.Tensor, *state: tf.Tensor
        ) -> list[tf.Tensor]:
            """Read one more character of each run."""
            at, stop, base, rank = state
            place = tf.maximum(base, 0)
            code, own = tf.gather(points, at), tf.gather(ranks, at)
            key = tf.cast(tf.gather(points, place), tf.int64) * (1 << _CODE_BITS)
            key += tf.cast(code, tf.int64)
            composite = self._composites(key)
            joins = (base >= 0) & (composite != 0) & ((rank == 0) | (rank < own))
            joined = tf.where(joins)[:, 0]
            bases = tf.gather(place, joined)[:, tf.newaxis]
            gone = tf.gather(at, joined)[:, tf.newaxis]
            taken = tf.gather(change, tf.gather(place, joined)) - 1
            taken += tf.gather(change, tf.gather(at, joined))
            points = tf.tensor_scatter_nd_update(points, bases, tf.gather(composite, joined))
            change = tf.tensor_scatter_nd_update(change, bases, taken)
            kept = tf.tensor_scatter_nd_update(kept, gone, tf.fill(tf.shape(joined), False))
            is_base = tf.logical_not(joins) & (own == 0)
            base = tf.where(is_base, at, base)
            rank = tf.where(joins, rank, own)
            at += 1
            goes_on = tf.where(at < stop)[:, 0]
            return [points, change, kept, *(tf.gather(x, goes_on) for x in (at, stop, base, rank))]

        vector = tf.TensorShape([None])
        state = tf.while_loop(
            lambda *state: tf.size(state[3]) > 0,
            step,
            [points, change, kept, at + 1, stop, base, rank],
            shape_invariants=[vector] * 7,
        )
        return state[0], state[1], state[2]


def _alone(character: str, text: str) -> bool:
    """Return whether composition does not give a character back from its decomposition."""
    return tables.composed(text) != character


# === SentencePiece's rules ===


class ClusterReplacer(tf.Module):
    """Applies SentencePiece's rules to grapheme clusters; see `character_map`.

    Args:
        rules: the rules.
    """

    def __init__(self, rules: ClusterRules):
        super().__init__(name="rules")
        self._expansion = Expansion(Sequences.of(rules.single, [*rules.several.values()]))
        keys = [tuple(map(ord, text)) for text in rules.several]
        keys = [sum(code << _CODE_BITS * place for place, code in enumerate(key)) for key in keys]
        first = 1 + len(rules.single)
        self._numbers = SortedTable(keys, range(first, first + len(keys)), 0)
        self._properties = Lookup(cm.cluster_properties())

    def __call__(self, text: Characters) -> Characters:
        """Return the text behind this step."""
        numbers = self._expansion.numbers(text.points)
        properties = self._properties(text.points)
        hangul = tf.bitwise.right_shift(properties, cm.HANGUL_SHIFT)
        may_join = tf.reduce_any(
            _has(properties, cm.JOINS | cm.PREPEND) | (hangul > 0) | (text.points == ord("\r"))
        )
        same = numbers, numbers == 0
        numbers, stays, heads = tf.cond(
            may_join,
            lambda: self._of_clusters(text, numbers, properties),
            lambda: (*same, tf.range(tf.size(numbers, out_type=tf.int64))),
        )
        return when(
            tf.reduce_any(tf.logical_not(stays)),
            lambda: self._changed(text, numbers, stays, heads),
            text,
        )

    def _of_clusters(
        self, text: Characters, numbers: tf.Tensor, properties: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Return the sequences of characters that replace clusters.

        Returns:
            Number of the sequence of each character, int32; whether it stays, bool; and the place
            of the first character that is replaced together with it, int64.
        """
        points = text.points
        begins = _cluster_begins(text, properties)
        head = last_place(begins)
        owner = tf.cast(numbered(begins), tf.int32) - 1
        count = tf.size(tf.where(begins)[:, 0])
        bytes_ = tf.gather(tf.math.unsorted_segment_sum(utf8_sizes(points), owner, count), owner)
        length = tf.gather(tf.math.unsorted_segment_sum(tf.ones_like(owner), owner, count), owner)
        is_short = (bytes_ <= cm.MOST_BYTES) & (length > 1)
        head_number = tf.gather(numbers, head)
        # The shortest beginning with a rule: one character, or two, or three.
        key = tf.cast(points, tf.int64)
        found = head_number
        for place in (1, 2):
            ahead = tf.concat([points[place:], tf.zeros_like(points[:place])], axis=0)[
                : tf.size(points)
            ]
            key += tf.cast(ahead, tf.int64) * (1 << _CODE_BITS * place)
            number = tf.where(length > place, tf.gather(self._numbers(key), head), 0)
            found = tf.where(found == 0, number, found)
        is_whole = is_short & (found != 0)
        place = tf.range(tf.size(points, out_type=tf.int64))
        number = tf.where(is_whole, tf.where(begins, found, 0), numbers)
        stays = tf.where(is_whole, False, numbers == 0)
        return number, stays, tf.where(is_whole, head, place)

    def _changed(
        self, text: Characters, numbers: tf.Tensor, stays: tf.Tensor, heads: tf.Tensor
    ) -> Characters:
        """Return the text with the replacements."""
        lengths = self._expansion.lengths(numbers, stays=stays)
        points, source, within = self._expansion(text.points, numbers, lengths)
        size = tf.size(text.points, out_type=tf.int32)
        olds = tf.math.unsorted_segment_sum(tf.ones_like(lengths), heads, size)
        # New characters beyond the number of old ones take no further place.
        change = tf.cast(within >= tf.gather(olds, source), tf.int32)
        # Old characters beyond the number of new ones are taken by the last one, if there is one.
        gone = tf.where(heads == tf.range(tf.size(heads, out_type=tf.int64)), olds - lengths, 0)
        gone = tf.maximum(gone, 0)
        last = tf.cumsum(lengths) - 1  # the last new character up to each old one
        behind = tf.maximum(last, 0)
        segments = tf.gather(text.segments, source)
        has_one = (last >= 0) & (tf.size(points) > 0)
        owner = tf.where(has_one, behind, 0)
        padded = tf.concat([segments, [-1]], axis=0)
        has_one &= tf.gather(padded, owner) == text.segments
        # One more than the new characters, because `owner` is 0 also where there are none.
        size = tf.size(points)
        taken = tf.math.unsorted_segment_sum(tf.where(has_one, gone, 0), owner, size + 1)[:size]
        return _placed(text, points, source, change - taken)


def _has(properties: tf.Tensor, bits: int) -> tf.Tensor:
    """Return whether properties have one of some bits."""
    return tf.bitwise.bitwise_and(properties, bits) != 0


def _cluster_begins(text: Characters, properties: tf.Tensor) -> tf.Tensor:
    """Return bool [characters]: True where a grapheme cluster begins (UAX #29, 3.1.1).

    Pairs of flags are left out: they are longer than any cluster that is replaced as a whole.
    """
    points, before = text.points, _before(properties)
    hangul = tf.bitwise.right_shift(properties, cm.HANGUL_SHIFT)
    last_hangul = _before(hangul)
    joins = _has(properties, cm.JOINS) | _has(before, cm.PREPEND)
    leads, vowels, trails = (
        _is_any(last_hangul, *kinds)
        for kinds in ((cm.LEADING,), (cm.VOWEL, cm.LV), (cm.TRAILING, cm.LVT))
    )
    joins |= leads & _is_any(hangul, cm.LEADING, cm.VOWEL, cm.LV, cm.LVT)
    joins |= vowels & _is_any(hangul, cm.VOWEL, cm.TRAILING)
    joins |= trails & (hangul == cm.TRAILING)
    # Pictographs that ZERO WIDTH JOINER joins.
    is_other = tf.logical_not(_has(properties, cm.EXTEND)) | text.begins()
    base = _at(properties, _before(last_place(is_other), -1))
    is_joiner = (points == cm.JOINER) & tf.logical_not(text.begins())
    behind = _before(tf.where(is_joiner, base, 0))
    joins |= _has(properties, cm.PICTOGRAPH) & _has(behind, cm.PICTOGRAPH)
    # Consonants that a virama joins.
    is_link = _has(properties, cm.LINKER)
    is_middle = _has(properties, cm.LINKER | cm.INDIC_EXTEND) & tf.logical_not(text.begins())
    last = _before(last_place(tf.logical_not(is_middle)), -1)
    last_link = _before(last_place(is_link), -1)
    joins |= (
        _has(properties, cm.CONSONANT)
        & _has(_at(properties, last), cm.CONSONANT)
        & (last_link > last)
    )
    joins &= tf.logical_not(_has(properties, cm.CONTROL)) & tf.logical_not(_has(before, cm.CONTROL))
    joins |= (points == ord("\n")) & (_before(points) == ord("\r"))
    joins &= (points < FIRST_TOKEN) & tf.logical_not(text.begins())
    return tf.logical_not(joins)


def _at(values: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
    """Return the values at some places; 0 for -1."""
    return tf.gather(tf.concat([[0], values], axis=0), places + 1)


def _is_any(values: tf.Tensor, *numbers: int) -> tf.Tensor:
    """Return whether each value is one of some numbers."""
    return tf.reduce_any([values == number for number in numbers], axis=0)


def _before(values: tf.Tensor, first: int = 0) -> tf.Tensor:
    """Return the previous value for each place; `first` for the first place."""
    return tf.concat(
        [tf.zeros_like(values[:1]) + tf.cast(first, values.dtype), values[:-1]], axis=0
    )
