"""Masked language modelling: choice of masked tokens, and batches with new masks every epoch.

15 % of the tokens are predicted: 80 % of these become [MASK], 10 % become another token, and 10 %
stay as they are (Devlin et al., 2019, §3.1). Tokens, whole words, or spans of words are chosen
(Joshi et al., 2020, SpanBERT). Special tokens are not predicted, and do not replace other tokens.
Unlike in BERT's code this includes [UNK], so that a model does not learn to predict [UNK].

Names in shapes: B rows of a batch, T tokens of a row, P predictions of a row.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from bert_keras.data.batches import Batch
from bert_keras.data.counter_rng import Draws, Stream, below
from bert_keras.data.model_inputs import EncodedTexts
from bert_keras.data.supervised import SupervisedExamples
from bert_keras.features import MASK_POSITIONS, MLM, PADDING_MASK, TOKEN_IDS
from bert_keras.tokenizers import Tokenizer

UNITS = ("token", "whole_word", "span")
# Bounds for 32 random bits: [MASK] below the first, another token below the second.
_MASKED, _REPLACED = (np.uint64(math.ceil(share * 2**32)) for share in (0.8, 0.9))
# SpanBERT, §3.1: the lengths of spans are geometric, at most ten words, and 3.8 words on average.
_SPAN_END = 0.2
_LONGEST_SPAN = 10
_HALF = np.uint64(32)
_COLUMN = np.uint64(0xFFFF)  # low bits of a sort key, which hold its column
_LAST = ~np.uint64(0)  # sort key of columns that are never chosen


class Masked(NamedTuple):
    """Batch with masked tokens. Unused predictions have position, label and weight 0."""

    token_ids: np.ndarray  # int32 [B, T]
    positions: np.ndarray  # columns of the predictions: int32 [B, P], ascending
    labels: np.ndarray  # their tokens before masking: int32 [B, P]
    weights: np.ndarray  # float32 [B, P]


class Masking:
    """Masking of batches, as a pure function of tokens and random integers.

    A row gets max(1, round(rate * tokens)) predictions, at most `max_predictions_per_seq`, and none
    if it has only special tokens. Whole words: a word that would exceed this number is skipped, as
    in BERT's code, so a row may get fewer. Spans: the last one is cut at this number, between
    words, as in SpanBERT.

    Args:
        tokenizer: tokenizer with the special tokens and the pieces that continue a word.
        unit: "token", "whole_word" or "span".
        rate: share of the tokens that are predicted, in (0, 1).
        max_predictions_per_seq: P, the maximum number of predictions in a row.

    Raises:
        ValueError: an argument is out of range, or the vocabulary has nothing but special tokens.
    """

    def __init__(
        self, tokenizer: Tokenizer, *, unit: str, rate: float, max_predictions_per_seq: int
    ):
        if unit not in UNITS:
            raise ValueError(f"masking must be one of {UNITS}. Received: {unit!r}")
        if not 0 < rate < 1:
            raise ValueError(f"mask_rate must be above 0 and below 1. Received: {rate}")
        if max_predictions_per_seq < 1:
            raise ValueError(
                f"max_predictions_per_seq must be at least 1. Received: {max_predictions_per_seq}"
            )
        self.unit, self.rate, self.max_predictions_per_seq = unit, rate, max_predictions_per_seq
        self._mask_id = tokenizer.mask_id
        self._continues = np.asarray(tokenizer.continuation, np.bool_)
        self._predictable = np.ones(tokenizer.vocab_size, np.bool_)
        self._predictable[list(tokenizer.special_ids)] = False
        self._replacements = np.flatnonzero(self._predictable).astype(np.int32)
        if not len(self._replacements):
            raise ValueError(
                "The vocabulary has only special tokens, which are never predicted. Received: "
                f"{tokenizer!r}. Pass a tokenizer whose vocabulary has words."
            )

    def width(self, length: int) -> int:
        """Return the number of random 64-bit integers that a row of `length` tokens needs.

        Two for each token: one to choose tokens, one for their replacement. Spans need a third one
        for their lengths.
        """
        return length * (3 if self.unit == "span" else 2)

    def __call__(self, token_ids: np.ndarray, is_text: np.ndarray, raw: np.ndarray) -> Masked:
        """Mask a batch.

        Args:
            token_ids: int32 [B, T], T < 2**16.
            is_text: bool [B, T], False for the special tokens of the row and for padding.
            raw: random 64-bit integers: uint64 [B, width(T)].
        """
        length = token_ids.shape[1]
        columns, draw_columns, count = self._chosen(token_ids, is_text, raw)
        used = np.arange(self.max_predictions_per_seq) < count
        places = _flat_index(columns, length)
        labels = token_ids.take(places)
        # The high half of a draw decides between [MASK], another token and the token itself. The
        # low half chooses the other token.
        draws = _gather(raw, length + columns)
        is_shared = draw_columns is not columns  # the tokens of a span share one decision
        decisions = (_gather(raw, length + draw_columns) if is_shared else draws) >> _HALF
        others = self._replacements.take(below(draws << _HALF, len(self._replacements)))
        inputs = np.where(decisions < _REPLACED, others, labels)
        inputs[decisions < _MASKED] = self._mask_id
        masked_ids = token_ids.copy()
        masked_ids.put(places[used], inputs[used])
        return Masked(masked_ids, columns.astype(np.int32), labels * used, used.astype(np.float32))

    def _chosen(
        self, token_ids: np.ndarray, is_text: np.ndarray, raw: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Choose the tokens that are predicted. The arguments are those of `__call__`.

        Returns:
            The columns of the predictions, ascending and followed by zeros: int64 [B, P]; the
            columns of the draws that decide on their replacement, the same but for spans: int64
            [B, P]; and the number of predictions in each row: int64 [B, 1].
        """
        length = token_ids.shape[1]
        keys = raw[:, :length]
        eligible = is_text & self._predictable.take(token_ids)
        budget = self._budget(eligible)
        if self.unit == "token":
            columns = _topk_smallest(eligible, keys, budget, self.max_predictions_per_seq)
            return columns, columns, budget
        word = eligible & ~(self._continues.take(token_ids) & _shifted(eligible))
        begins: np.ndarray | None = None
        if self.unit == "span":  # all words of a span have the key and the draw of its first token
            begins = _last_true(
                word & (_span_starts(word, raw[:, 2 * length :]) | ~_shifted(eligible))
            )
            keys = _gather(keys, begins)
        columns, count = _true_columns(
            self._words(eligible, word, keys, budget), self.max_predictions_per_seq
        )
        return columns, columns if begins is None else _gather(begins, columns), count

    def _budget(self, eligible: np.ndarray) -> np.ndarray:
        """Return the number of tokens of each row to predict: int64 [B, 1]."""
        count = np.count_nonzero(eligible, axis=1)
        budget = np.rint(self.rate * count).astype(np.int64)
        return np.minimum(np.clip(budget, 1, self.max_predictions_per_seq), count)[:, None]

    def _words(
        self, eligible: np.ndarray, word: np.ndarray, keys: np.ndarray, budget: np.ndarray
    ) -> np.ndarray:
        """Choose words in the order of their keys until the budget is spent.

        Args:
            eligible: tokens that may be predicted: bool [B, T].
            word: the first token of each word: bool [B, T].
            keys: random 64-bit integers to sort by: uint64 [B, T].
            budget: number of tokens to predict in each row: int64 [B, 1].

        Returns:
            The tokens of the chosen words: bool [B, T].
        """
        size, length = word.shape
        keys = _with_columns(keys, word)
        keys.sort(axis=1)  # the words of a span share their high bits, and stay in order
        if self.unit == "span":  # no word is skipped, and each has at least one token
            keys = keys[:, : self.max_predictions_per_seq]
        is_word = keys != _LAST
        order = np.where(is_word, keys & _COLUMN, np.uint64(0)).astype(np.int64)
        first = _last_true(word)
        words = _flat_index(first, length)[eligible]
        counts = np.bincount(words, minlength=size * length).reshape(size, length)
        tokens = is_word * _gather(counts, order)  # in each word
        taken, fits = np.zeros_like(is_word), is_word
        while True:
            take = fits & (np.cumsum(tokens * fits, axis=1) <= budget)
            taken |= take
            budget = budget - (tokens * take).sum(axis=1, keepdims=True)
            fits = fits & ~take & (tokens <= budget)
            # Words that are too long now stay so, because the budget only shrinks.
            if self.unit != "whole_word" or not fits.any():
                break
        return _gather(_scatter_true(taken, order, length), first) & eligible


def _with_columns(keys: np.ndarray, flags: np.ndarray) -> np.ndarray:
    """Return keys [B, T] with their column in the low 16 bits, to read after sorting.

    Keys without a flag become the greatest key, so that they sort behind all others.
    """
    sort_keys = keys & ~_COLUMN
    sort_keys |= np.arange(keys.shape[1], dtype=np.uint64)
    sort_keys[~flags] = _LAST
    return sort_keys


def _topk_smallest(flags: np.ndarray, keys: np.ndarray, count: np.ndarray, most: int) -> np.ndarray:
    """Return the columns of the smallest keys in each row, among those with a flag.

    Args:
        flags: columns that may be chosen: bool [B, T].
        keys: random 64-bit integers to sort by: uint64 [B, T].
        count: number of columns to choose in each row: int64 [B, 1], at most `most`.
        most: columns of the result.

    Returns:
        The chosen columns, ascending and followed by zeros: int64 [B, most].
    """
    size, length = flags.shape
    keys, width = _with_columns(keys, flags), min(most, length)
    keys.partition(width - 1, axis=1)  # most need not be sorted
    keys = keys[:, :width]
    keys.sort(axis=1)
    unused = np.arange(width) >= count
    columns = keys & _COLUMN
    columns[unused] = _LAST
    columns.sort(axis=1)
    columns[unused] = 0
    padded = np.zeros((size, most), np.int64)
    padded[:, :width] = columns
    return padded


def _true_columns(flags: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the columns with a flag in each row of bool [B, T], and their number.

    Returns:
        The columns, ascending and followed by zeros: int64 [B, most]; their number: int64 [B, 1].
    """
    size, length = flags.shape
    count = np.count_nonzero(flags, axis=1)[:, None]
    columns = np.zeros((size, most), np.int64)
    columns[np.arange(most) < count] = np.flatnonzero(flags) % length
    return columns, count


def _scatter_true(taken: np.ndarray, order: np.ndarray, length: int) -> np.ndarray:
    """Return flags that are True at column order[b, i] if taken[b, i] is: bool [B, length].

    `taken` bool and `order` int64 are [B, I].
    """
    size = len(order)
    flags = np.zeros(size * length, np.bool_)
    flags[_flat_index(order, length)[taken]] = True
    return flags.reshape(size, length)


def _gather(values: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return values[b, columns[b, i]]: [B, I]. NumPy's take_along_axis takes twice the time."""
    return values.take(_flat_index(columns, values.shape[1]))


def _flat_index(columns: np.ndarray, length: int) -> np.ndarray:
    """Return flat indices of columns [B, I] in a matrix of that width: int64 [B, I]."""
    return columns + length * np.arange(len(columns))[:, None]


def _shifted(flags: np.ndarray) -> np.ndarray:
    """Return the flag of each column's left neighbour, False for the first: bool [B, T]."""
    left = np.zeros_like(flags)
    left[:, 1:] = flags[:, :-1]
    return left


def _last_true(begins: np.ndarray) -> np.ndarray:
    """Return the column of the last True at or before each column, or 0: int64 [B, T].

    With the first tokens of words as `begins`, this is the first token of each token's word.
    """
    columns = np.arange(begins.shape[1], dtype=np.int64)
    return np.maximum.accumulate(np.where(begins, columns, 0), axis=1)


def _span_starts(word: np.ndarray, raw: np.ndarray) -> np.ndarray:
    """Divide the words of each row into spans of random lengths, and flag where a span begins.

    If spans are then chosen in random order, their lengths have SpanBERT's distribution and none
    overlap. Drawing spans at random places would need new draws for each overlap.

    Args:
        word: the first token of each word: bool [B, T].
        raw: random 64-bit integers for the lengths: uint64 [B, T].

    Returns:
        bool [B, T]; the flag of the first token of a word counts.
    """
    chances = _SPAN_END * (1 - _SPAN_END) ** np.arange(_LONGEST_SPAN)
    edges = np.cumsum(chances[:-1]) / chances.sum()
    lengths = 1 + np.searchsorted(edges, (raw >> _HALF).astype(np.float64) / 2**32, side="right")
    size, length = word.shape
    begins = np.zeros((size, length + 1), np.bool_)  # by word; the last column takes the rest
    begins[:, 0] = True
    edge = np.minimum(np.cumsum(lengths, axis=1), length)
    np.put_along_axis(begins, edge, np.True_, axis=1)
    number = np.cumsum(word, axis=1) - 1
    return _gather(begins, np.maximum(number, 0))


# === Batches of texts ===


class MaskedTexts(SupervisedExamples):
    """Texts with masked tokens, as batches for a `MaskedLM`.

    The targets of a batch are {"mlm": int32 [B, P]}, with a weight of 1 for each prediction. The
    inputs also have mask_positions int32 [B, P]. The masks of a text depend on the seed, the epoch,
    the index of the text and the length of the longest text, and not on its batch. Without a seed
    the texts keep their order, and every epoch has the masks of the first one.

    Args:
        tokenizer: tokenizer that encoded the texts.
        rows: encoded texts.
        masking: unit of masking: "token", "whole_word" or "span".
        mask_rate: share of the tokens that are predicted.
        weights: weight of each text, float32 [texts]; None for 1.
        options: options of `SupervisedExamples`.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        rows: EncodedTexts,
        *,
        masking: str = "token",
        mask_rate: float = 0.15,
        weights: np.ndarray | None = None,
        **options: Any,
    ):
        super().__init__(rows, {}, **options)
        self._length = int(rows.lengths.max(initial=1))
        self._row_weights = weights
        self._masking = Masking(
            tokenizer,
            unit=masking,
            rate=mask_rate,
            max_predictions_per_seq=max(1, math.ceil(mask_rate * self._length)),
        )

    def batch_of(self, epoch: int, examples: np.ndarray) -> Batch:
        """Return a batch of the texts with these indices, with the masks of an epoch."""
        x, _, _ = super().batch_of(epoch, examples)
        token_ids = x[TOKEN_IDS]
        is_text = x[PADDING_MASK] > 0  # special tokens are never predicted
        draws = Draws(self.seed or 0, epoch if self.seed is not None else 0)
        # As many draws as the longest text needs, so that the masks do not depend on the batch.
        width = self._masking.width(self._length)
        raw = draws.rows_at(Stream.MASK, examples, width)
        # `Masking` reads two or three parts of T draws; cut each part to the width of this batch.
        parts = raw.reshape(len(examples), -1, self._length)[:, :, : token_ids.shape[1]]
        missing = token_ids.shape[1] - parts.shape[2]
        parts = np.pad(parts, [(0, 0), (0, 0), (0, max(0, missing))])
        raw = parts.reshape(len(examples), -1)
        masked = self._masking(token_ids, is_text, raw)
        weights = masked.weights
        if self._row_weights is not None:
            weights = weights * self._row_weights[examples][:, None]
        x[TOKEN_IDS] = masked.token_ids
        x[MASK_POSITIONS] = masked.positions
        return x, {MLM: masked.labels}, {MLM: weights.astype(np.float32)}
