"""Masked language modelling: choice of masked tokens, and batches with new masks every epoch.

15 % of the text is predicted; of it 80 % become [MASK], 10 % another token, 10 % stay (Devlin et
al., 2019, §3.1). Chosen are tokens, whole words, or spans of words (Joshi et al., 2020, SpanBERT).
Special tokens are neither predicted nor put in. [UNK] counts among them: unlike the original,
which would teach the model to answer [UNK]. Names: B batch, T row length, P predictions.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bert_keras.data.batches import Batch
from bert_keras.data.counter_rng import Draws, Stream, below
from bert_keras.data.model_inputs import EncodedTexts
from bert_keras.data.supervised import SupervisedExamples
from bert_keras.features import MASK_POSITIONS, MLM, PADDING_MASK, TOKEN_IDS
from bert_keras.tokenizers import Tokenizer

if TYPE_CHECKING:
    from bert_keras.tokenizers import Tokenizer

UNITS = ("token", "whole_word", "span")
# Of 32 bits: below the first [MASK], below the second another token.
_MASKED, _REPLACED = (np.uint64(math.ceil(share * 2**32)) for share in (0.8, 0.9))
_SPAN_END = 0.2  # SpanBERT, §3.1: lengths are geometric, at most ten words, 3.8 in the mean
_LONGEST_SPAN = 10
_HALF = np.uint64(32)
_COLUMN = np.uint64(0xFFFF)  # low bits of a key: where it stands in its row
_LAST = ~np.uint64(0)


class Masked(NamedTuple):
    """A batch with masks; in unused slots positions, labels and weights are 0."""

    token_ids: np.ndarray  # int32 [B, T]
    positions: np.ndarray  # int32 [B, P], ascending
    labels: np.ndarray  # int32 [B, P]
    weights: np.ndarray  # float32 [B, P]


class Masking:
    """Masks batches; a pure function of tokens and random words.

    A row gets max(1, round(rate * tokens)) predictions, at most `max_predictions_per_seq`; none
    where it has no token to predict. Whole words: a word that would exceed that number is passed
    over, as in the original, so a row may get fewer. Spans: the last one is cut at that number,
    between words, as in SpanBERT.

    Args:
        tokenizer: names the special tokens and the pieces that continue a word.
        unit: "token", "whole_word" or "span".
        rate: share of the text that is predicted, in (0, 1).
        max_predictions_per_seq: P.

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
        """Random words that a row of `length` tokens needs."""
        return length * (3 if self.unit == "span" else 2)

    def __call__(self, token_ids: np.ndarray, is_text: np.ndarray, raw: np.ndarray) -> Masked:
        """Masks a batch.

        Args:
            token_ids: int32 [B, T], T < 2**16.
            is_text: bool [B, T], False for the row's own special tokens and padding.
            raw: uint64 [B, width(T)].
        """
        length = token_ids.shape[1]
        columns, fate_at, count = self._chosen(token_ids, is_text, raw)
        used = np.arange(self.max_predictions_per_seq) < count
        places = _flat_index(columns, length)
        labels = token_ids.take(places)
        # A draw's high half is a token's fate, its low half tells what may take its place.
        draws = _gather(raw, length + columns)
        fates = (draws if fate_at is columns else _gather(raw, length + fate_at)) >> _HALF
        others = self._replacements.take(below(draws << _HALF, len(self._replacements)))
        seen = np.where(fates < _REPLACED, others, labels)
        seen[fates < _MASKED] = self._mask_id
        masked_ids = token_ids.copy()
        masked_ids.put(places[used], seen[used])
        return Masked(masked_ids, columns.astype(np.int32), labels * used, used.astype(np.float32))

    def _chosen(
        self, token_ids: np.ndarray, is_text: np.ndarray, raw: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Choose the tokens that are predicted.

        Returns:
            Its columns, ascending, then zeros, and where the fate of each is drawn: int64 [B, P];
            how many a row has: int64 [B, 1].
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
        if self.unit == "span":  # its words have the key of its first token, and the fate
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
        """Takes words in the order of their keys until the budget is spent: bool [B, T]."""
        size, length = word.shape
        keys = _with_columns(keys, word)
        keys.sort(axis=1)  # the words of a span share their high bits, and stay in order
        if self.unit == "span":  # nothing is passed over: a word has a token at least
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
            # A word too long now is too long for ever: the budget only shrinks.
            if self.unit != "whole_word" or not fits.any():
                break
        return _gather(_scatter_true(taken, order, length), first) & eligible


def _with_columns(keys: np.ndarray, flags: np.ndarray) -> np.ndarray:
    """Keys to sort by that tell their columns in the low bits; the last of all without a flag."""
    found = keys & ~_COLUMN
    found |= np.arange(keys.shape[1], dtype=np.uint64)
    found[~flags] = _LAST
    return found


def _topk_smallest(flags: np.ndarray, keys: np.ndarray, count: np.ndarray, most: int) -> np.ndarray:
    """The `count` [B, 1] columns of least keys among those with a flag, ascending, then zeros.

    Returns:
        int64 [B, most].
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
    found = np.zeros((size, most), np.int64)
    found[:, :width] = columns
    return found


def _true_columns(flags: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """The columns with a flag, ascending, then zeros; and how many: int64 [B, most], [B, 1]."""
    size, length = flags.shape
    count = np.count_nonzero(flags, axis=1)[:, None]
    found = np.zeros((size, most), np.int64)
    found[np.arange(most) < count] = np.flatnonzero(flags) % length
    return found, count


def _scatter_true(taken: np.ndarray, order: np.ndarray, length: int) -> np.ndarray:
    """Marks column order[b, i] wherever taken[b, i] is True, both [B, I]: bool [B, length]."""
    size = len(order)
    found = np.zeros(size * length, np.bool_)
    found[_flat_index(order, length)[taken]] = True
    return found.reshape(size, length)


def _gather(values: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """values[b, columns[b, i]], [B, I]: take_along_axis at half the time or less."""
    return values.take(_flat_index(columns, values.shape[1]))


def _flat_index(columns: np.ndarray, length: int) -> np.ndarray:
    """Return flat indices of columns [B, I] in a matrix of that width: int64 [B, I]."""
    return columns + length * np.arange(len(columns))[:, None]


def _shifted(flags: np.ndarray) -> np.ndarray:
    """Each column's left neighbour; False in the first column."""
    left = np.zeros_like(flags)
    left[:, 1:] = flags[:, :-1]
    return left


def _last_true(begins: np.ndarray) -> np.ndarray:
    """The column of the latest True at or before each column, 0 if none: int64 of begins' shape."""
    columns = np.arange(begins.shape[1], dtype=np.int64)
    return np.maximum.accumulate(np.where(begins, columns, 0), axis=1)


def _span_starts(word: np.ndarray, raw: np.ndarray) -> np.ndarray:
    """Lays spans of random length end to end over the words of each row; True where one begins.

    Taking such tiles in random order chooses spans with the law of their lengths, none of which
    overlap, without trying again and again.
    """
    chances = _SPAN_END * (1 - _SPAN_END) ** np.arange(_LONGEST_SPAN)
    edges = np.cumsum(chances[:-1]) / chances.sum()
    lengths = 1 + np.searchsorted(edges, (raw >> _HALF).astype(np.float64) / 2**32, side="right")
    size, length = word.shape
    begins = np.zeros((size, length + 1), np.bool_)  # by word number; the last column is a bin
    begins[:, 0] = True
    edge = np.minimum(np.cumsum(lengths, axis=1), length)
    np.put_along_axis(begins, edge, np.True_, axis=1)
    number = np.cumsum(word, axis=1) - 1
    return _gather(begins, np.maximum(number, 0))


# === Batches of texts ===


class MaskedTexts(SupervisedExamples):
    """Texts with masked tokens: {"mlm": int32 [B, P]}, and a weight of 1 for each prediction.

    The masks of a text are a pure function of the seed, the epoch, the number of the text and the
    length of the longest text; batches do not change them. Without a seed the texts keep their
    order, and every epoch has the masks of the first one.

    Args:
        tokenizer: of the texts.
        rows: the texts.
        masking: what is masked together: "token", "whole_word" or "span".
        mask_rate: share of the tokens that is predicted.
        weights: weight of each text, float32 [texts]; None for 1.
        options: those of `SupervisedExamples`.
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
        """Return a batch of these texts, masked as in this epoch."""
        x, _, _ = super().batch_of(epoch, examples)
        token_ids = x[TOKEN_IDS]
        is_text = x[PADDING_MASK] > 0  # special tokens are never predicted
        draws = Draws(self.seed or 0, epoch if self.seed is not None else 0)
        width = self._masking.width(self._length)  # of the longest text: masks of a text alone
        raw = draws.rows_at(Stream.MASK, examples, width)
        # The parts of the words for each row lie `length` apart. Padding needs none.
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
