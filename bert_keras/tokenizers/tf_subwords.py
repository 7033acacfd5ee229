"""Tokenizers of a tokenizer.json in a TensorFlow graph: from texts to ids.

The steps are those of `graph_pipeline`. Each word is tokenized once for a batch, however often it
occurs there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_keras.tokenizers import pipeline_steps as steps
from bert_keras.tokenizers.added_tokens import AddedToken
from bert_keras.tokenizers.character_tables import (
    WHITE_SPACE,
    Sequences,
    flags_of,
    word_characters,
)
from bert_keras.tokenizers.graph_pipeline import (
    ByteBPE,
    Pipeline,
    Unigram,
    WordPieces,
    byte_characters,
)
from bert_keras.tokenizers.tf_added_tokens import TokenMatcher
from bert_keras.tokenizers.tf_bpe import MergedPieces
from bert_keras.tokenizers.tf_characters import (
    FIRST_TOKEN,
    CharacterMapping,
    Characters,
    CharacterSplitter,
    Prefixer,
    Replacer,
    Splitter,
    Stripper,
    decoded,
    numbered,
    spelled,
    utf8_sizes,
)
from bert_keras.tokenizers.tf_normalizers import CanonicalForm, ClusterReplacer
from bert_keras.tokenizers.tf_tables import Lookup
from bert_keras.tokenizers.tf_unigram import BestPieces
from bert_keras.tokenizers.tf_wordpiece import LongestPieces


def _module(step: steps.Step) -> Any:
    """Return the module of a step: a function from characters to characters."""
    match step:
        case steps.Changes():
            return CharacterMapping(Sequences.of(step.outputs))
        case steps.Form():
            return CanonicalForm(step.name)
        case steps.Rules():
            return ClusterReplacer(step.rules)
        case steps.Replacement():
            return Replacer(step.pattern, step.text)
        case steps.Strip():
            return Stripper(left=step.left, right=step.right)
        case steps.Split():
            return Splitter(step.pattern, step.dropped)
        case steps.SplitBefore():
            return CharacterSplitter(step.character)
        case steps.Prefix():
            return Prefixer(step.character, first_only=step.first_only)


def _pieces(model: ByteBPE | Unigram | WordPieces) -> Any:
    """Return the module of a model: a function from words to pieces."""
    match model:
        case ByteBPE():
            return MergedPieces(model)
        case Unigram():
            return BestPieces(model)
        case WordPieces():
            return LongestPieces(model)


class TokenSplitter(tf.Module):
    """Makes each added token in the texts a segment of one code point.

    Args:
        tokens: the tokens, and the text of each as it is searched.
        numbers: number of each token; its code point is `FIRST_TOKEN` more.
        trims: True if the place of a token leaves out white space at its ends.
    """

    def __init__(
        self, tokens: Sequence[tuple[AddedToken, str]], numbers: Sequence[int], *, trims: bool
    ):
        super().__init__(name="added_tokens")
        self._matcher = TokenMatcher([[*map(ord, text)] for _, text in tokens], numbers)
        self._trims = trims
        flags = np.zeros((4, max(numbers) + 1), np.bool_)
        for (token, _), number in zip(tokens, numbers, strict=True):
            flags[:3, number] = token.lstrip, token.rstrip, token.single_word
        self._has: list[bool] = [bool(row.any()) for row in flags[:3]]
        self._flags = tf.constant(flags)
        self._is_space = Lookup(flags_of(WHITE_SPACE))
        self._is_word = Lookup(word_characters()) if self._has[2] else None

    def __call__(self, text: Characters) -> Characters:
        """Return the text behind this step."""
        begins = text.begins()
        size = tf.size(text.points, out_type=tf.int64)
        splits = tf.concat([tf.where(begins)[:, 0], [size]], axis=0)
        found = self._matcher(text.points, splits)
        return Characters(
            *tf.cond(
                tf.size(found[0]) > 0,
                lambda: tuple(self._split(text, splits, *found)),
                lambda: tuple(text),
            )
        )

    def _split(
        self,
        text: Characters,
        splits: tf.Tensor,
        starts: tf.Tensor,
        ends: tf.Tensor,
        numbers: tf.Tensor,
    ) -> Characters:
        """Return the text with the tokens.

        Args:
            text: characters of the batch.
            splits: index of the first character of each segment, and the number of characters.
            starts: index of the first character of each match, ascending.
            ends: index behind its last character.
            numbers: number of its token.
        """
        segment = tf.searchsorted(splits, starts, side="right")
        first, stop = tf.gather(splits, segment - 1), tf.gather(splits, segment)
        if self._is_word is not None:
            is_word = tf.concat([self._is_word(text.points), [0]], axis=0) != 0
            before = (starts > first) & tf.gather(is_word, tf.maximum(starts - 1, 0))
            behind = (ends < stop) & tf.gather(is_word, ends)
            good = tf.logical_not(tf.gather(self._flags[2], numbers) & (before | behind))
            columns = starts, ends, numbers, first, stop, segment
            starts, ends, numbers, first, stop, segment = (
                tf.boolean_mask(column, good) for column in columns
            )
        is_space = self._is_space(text.points) != 0
        others = tf.where(tf.logical_not(is_space))[:, 0]
        others = tf.concat([[-1], others, splits[-1:]], axis=0)
        if self._has[1]:
            behind = tf.gather(others, tf.searchsorted(others, ends))
            ends = tf.where(tf.gather(self._flags[1], numbers), tf.minimum(behind, stop), ends)
        if self._has[0]:
            before = 1 + tf.gather(others, tf.searchsorted(others, starts) - 1)
            # Space that the token before it has taken is not taken again.
            least = tf.concat([first[:1], tf.maximum(first[1:], ends[:-1])], axis=0)
            before = tf.maximum(before, least)
            starts = tf.where(tf.gather(self._flags[0], numbers), before, starts)
        points = tf.tensor_scatter_nd_update(
            text.points, starts[:, tf.newaxis], FIRST_TOKEN + tf.cast(numbers, tf.int32)
        )
        tails = tf.ragged.range(starts + 1, ends).flat_values[:, tf.newaxis]
        size = tf.shape(text.points)
        kept = tf.tensor_scatter_nd_update(
            tf.fill(size, True), tails, tf.fill([tf.shape(tails)[0]], False)
        )
        places = starts[:, tf.newaxis]
        is_token = tf.tensor_scatter_nd_update(
            tf.fill(size, False), places, tf.fill([tf.shape(places)[0]], True)
        )
        behind = tf.concat([is_token[:1] & False, tf.boolean_mask(is_token, kept)[:-1]], axis=0)
        text, starts, ends = text._replace(points=points), *self._places(text, others, starts, ends)
        text = text._replace(
            starts=tf.tensor_scatter_nd_update(text.starts, places, starts),
            ends=tf.tensor_scatter_nd_update(text.ends, places, ends),
        )
        text, is_token = text.where(kept), tf.boolean_mask(is_token, kept)
        return text._replace(
            segments=numbered(text.begins() | is_token | behind[: tf.size(is_token)])
        )

    def _places(
        self, text: Characters, others: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return begin and end of tokens in their texts.

        Args:
            text: characters of the batch.
            others: places of characters that are no white space, between -1 and their number.
            starts: index of the first character of each token.
            ends: index behind its last character.
        """
        begin, end = tf.gather(text.starts, starts), tf.gather(text.ends, ends - 1)
        if not self._trims:
            return begin, end
        lead = tf.minimum(tf.gather(others, tf.searchsorted(others, starts)), ends) - starts
        last = tf.gather(others, tf.searchsorted(others, ends) - 1)
        tail = ends - 1 - tf.maximum(last, starts - 1)
        begin = tf.minimum(begin + lead, end)
        return begin, tf.where(end >= tail, tf.maximum(end - tail, begin), end)


class SubwordIds(tf.Module):
    """Ids of texts: `ids(texts, with_specials=…)`.

    Args:
        pipeline: steps of the tokenizer.
        vocabulary: all entries; the position is the id.
    """

    def __init__(self, pipeline: Pipeline, vocabulary: Sequence[str]):
        super().__init__(name="subwords")
        self._normalizer = [_module(step) for step in pipeline.normalizer]
        self._pre_tokenizer = [_module(step) for step in pipeline.pre_tokenizer]
        self._bytes = isinstance(pipeline.model, ByteBPE)
        self._model = _pieces(pipeline.model)
        self._marked = _splitters(pipeline.marked, pipeline.normalized, trims=pipeline.trims)
        self._plain = _splitters(pipeline.plain, pipeline.normalized, trims=pipeline.trims)
        # Both lists have the tokens in the same order, so a number is of the same token.
        self._token_ids = tf.constant([token.id for token in pipeline.marked] or [0], tf.int32)
        self._trims, self._keeps_first = pipeline.trims, pipeline.keeps_first
        space = byte_characters()[ord(" ")]
        lead = [len(piece) - len(piece.lstrip(space)) for piece in vocabulary]
        tail = [len(piece) - len(piece.rstrip(space)) for piece in vocabulary]
        self._spaces = tf.constant([lead, tail], tf.int64) if pipeline.trims else None

    def __call__(
        self, texts: tf.Tensor, *, with_specials: bool
    ) -> tuple[tf.RaggedTensor, tf.Tensor, tf.Tensor]:
        """Return ids int32 [batch, (tokens)], and starts and ends, each int64 [all tokens].

        Args:
            texts: UTF-8 strings [batch].
            with_specials: whether to recognise special tokens in the texts. Other added tokens
                always are.
        """
        raw, normalized = self._marked if with_specials else self._plain
        text = raw(decoded(texts))
        for step in self._normalizer:
            text = step(text)
        text = normalized(text)
        for step in self._pre_tokenizer:
            text = step(text)
        begins = text.begins()
        heads = tf.where(begins)[:, 0]
        first = tf.gather(text.points, heads)
        is_token = first >= FIRST_TOKEN
        in_word = text.points < FIRST_TOKEN
        words = spelled(tf.boolean_mask(text.points, in_word), tf.boolean_mask(begins, in_word))
        # [words]: each word once, then the tokens.
        unique, index = tf.unique(words, out_idx=tf.int64)
        options = {} if self._bytes else {"hides": not with_specials}
        pieces, sizes = self._model(unique, **options)
        pool = tf.concat([pieces.flat_values, self._token_ids], axis=0)
        number = tf.cast(first - FIRST_TOKEN, tf.int64)
        places = tf.where(tf.logical_not(is_token))
        shape = tf.shape(is_token, out_type=tf.int64)
        row_starts = tf.scatter_nd(places, tf.gather(pieces.row_starts(), index), shape)
        lengths = tf.scatter_nd(places, tf.gather(pieces.row_lengths(), index), shape)
        count = tf.size(pieces.flat_values, out_type=tf.int64)
        row_starts = tf.where(is_token, count + number, row_starts)
        lengths = tf.where(is_token, tf.ones_like(lengths), lengths)
        chosen = tf.ragged.range(row_starts, row_starts + lengths)
        ids = tf.gather(pool, chosen.flat_values)
        owner = tf.gather(text.texts, tf.gather(heads, chosen.value_rowids()))
        rows = tf.RaggedTensor.from_value_rowids(  # pyright: ignore[reportAttributeAccessIssue]
            ids, owner, tf.size(texts, out_type=tf.int64), validate=False
        )
        # A piece has as many units (bytes or characters) as it has in its word.
        units = tf.concat([sizes, tf.ones_like(self._token_ids)], axis=0)
        behind = tf.cumsum(tf.gather(units, chosen.flat_values))
        sources = self._sources(text.points)
        before = behind - tf.gather(units, chosen.flat_values)
        starts = tf.gather(text.starts, tf.gather(sources, before))
        ends = tf.gather(text.ends, tf.gather(sources, behind - 1))
        if self._spaces is not None:
            is_piece = tf.gather(tf.logical_not(is_token), chosen.value_rowids())
            starts, ends = self._trimmed(rows, starts, ends, is_piece)
        return rows, starts, ends

    def _sources(self, points: tf.Tensor) -> tf.Tensor:
        """Return the character of each unit, int32 [units]."""
        characters = tf.range(tf.size(points))
        return tf.repeat(characters, utf8_sizes(points)) if self._bytes else characters

    def _trimmed(
        self, rows: tf.RaggedTensor, starts: tf.Tensor, ends: tf.Tensor, is_piece: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the places of pieces without the spaces at their ends.

        Args:
            rows: ids [batch, (tokens)].
            starts: begin of each, int64 [all tokens].
            ends: end of each.
            is_piece: False for added tokens, whose places are trimmed already.
        """
        lead, tail = tf.unstack(tf.gather(self._spaces, rows.flat_values, axis=1))
        if self._keeps_first:
            place = tf.ragged.range(rows.row_lengths()).flat_values
            lead = tf.where((place == 0) | (starts == 0), tf.zeros_like(lead), lead)
        lead, tail = (tf.where(is_piece, values, 0) for values in (lead, tail))
        starts = tf.minimum(starts + lead, ends)
        cut = (tail > 0) & (ends >= tail)
        return starts, tf.where(cut, tf.maximum(ends - tail, starts), ends)


def _same(text: Characters) -> Characters:
    """Return a text as it is."""
    return text


def _splitters(
    tokens: Sequence[AddedToken], normalized: Mapping[str, str], *, trims: bool
) -> tuple[Any, Any]:
    """Return the modules that find added tokens in raw and in normalised texts."""
    modules: list[Any] = []
    for is_normalized in (False, True):
        chosen = {
            number: (token, normalized.get(token.content, token.content))
            for number, token in enumerate(tokens)
            if token.normalized == is_normalized
        }
        splitter = TokenSplitter([*chosen.values()], [*chosen], trims=trims) if chosen else _same
        modules.append(splitter)
    return modules[0], modules[1]
