"""Masked language modelling: which tokens are predicted, and what the model sees in their place.

15 % of the text is predicted; of it 80 % become [MASK], 10 % another token, 10 % stay (Devlin et
al., 2019, §3.1). Chosen are tokens, whole words, or spans of words (Joshi et al., 2020, SpanBERT).
Special tokens are neither predicted nor put in. [UNK] counts among them: unlike the original,
which would teach the model to answer [UNK]. Names: B batch, T row length, P predictions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bert_keras.data.sampling import below

if TYPE_CHECKING:
    from bert_keras.tokenizers import Tokenizer

UNITS = ("token", "whole_word", "span")
_MASKED, _REPLACED = 0.8, 0.9  # below the first: [MASK]; below the second: another token
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

    A row gets max(1, round(rate * tokens)) predictions, at most `max_predictions`; none where it
    has no token to predict. Whole words: a word that would exceed that number is passed over, as
    in the original, so a row may get fewer. Spans: the last one is cut at that number, between
    words, as in SpanBERT.

    Args:
        tokenizer: names the special tokens and the pieces that continue a word.
        unit: "token", "whole_word" or "span".
        rate: share of the text that is predicted, in (0, 1).
        max_predictions: P.

    Raises:
        ValueError: an argument is out of range, or the vocabulary has nothing but special tokens.
    """

    def __init__(self, tokenizer: Tokenizer, *, unit: str, rate: float, max_predictions: int):
        if unit not in UNITS:
            raise ValueError(f"masking must be one of {UNITS}. Received: {unit!r}")
        if not 0 < rate < 1:
            raise ValueError(f"mask_rate must be above 0 and below 1. Received: {rate}")
        if max_predictions < 1:
            raise ValueError(f"max_predictions must be at least 1. Received: {max_predictions}")
        self.unit, self.rate, self.max_predictions = unit, rate, max_predictions
        self._mask_id = tokenizer.mask_id
        self._continues = np.asarray(tokenizer.continuation, np.bool_)
        self._predictable = np.ones(tokenizer.vocab_size, np.bool_)
        self._predictable[list(tokenizer.special_ids)] = False
        self._replacements = np.flatnonzero(self._predictable).astype(np.int32)
        if not len(self._replacements):
            raise ValueError("The vocabulary has special tokens only: nothing can be predicted.")

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
        keys, fates = raw[:, :length], raw[:, length : 2 * length]
        eligible = is_text & self._predictable[token_ids]
        word = eligible  # where a word begins
        if self.unit != "token":
            word = eligible & ~(self._continues[token_ids] & _shifted(eligible))
        group = word  # where what is chosen together begins
        if self.unit == "span":
            group = word & (_tiles(word, raw[:, 2 * length :]) | ~_shifted(eligible))
        chosen = self._choose(eligible, word, group, keys)
        rows, columns = np.nonzero(chosen)
        labels = token_ids[rows, columns]
        # Fate is drawn per span (from the word at its first token), otherwise per token.
        fate_at = _latest(group)[rows, columns] if self.unit == "span" else columns
        fate = (fates[rows, fate_at] >> _HALF).astype(np.float64) / 2**32
        other = self._replacements[below(fates[rows, columns] << _HALF, len(self._replacements))]
        seen = np.where(fate < _MASKED, self._mask_id, np.where(fate < _REPLACED, other, labels))
        masked = Masked(
            token_ids.copy(),
            *(np.zeros((len(token_ids), self.max_predictions), d) for d in ("i4", "i4", "f4")),
        )
        slot = (np.cumsum(chosen, axis=1) - 1)[rows, columns]
        masked.token_ids[rows, columns] = seen
        masked.positions[rows, slot] = columns
        masked.labels[rows, slot] = labels
        masked.weights[rows, slot] = 1
        return masked

    def _choose(
        self, eligible: np.ndarray, word: np.ndarray, group: np.ndarray, keys: np.ndarray
    ) -> np.ndarray:
        """Takes words, group by group in random order, until the budget is spent: bool [B, T]."""
        size, length = word.shape
        columns = np.arange(length, dtype=np.uint64)
        if self.unit == "span":
            keys = _pick(keys, _latest(group))
        keys = np.where(word, (keys & ~_COLUMN) | columns, _LAST)
        keys.sort(axis=1)  # the words of a group share their high bits, and stay in order
        if self.unit != "whole_word":  # nothing is passed over: a word has a token at least
            keys = keys[:, : self.max_predictions]
        is_word = keys != _LAST
        order = np.where(is_word, keys & _COLUMN, np.uint64(0)).astype(np.int64)
        count = eligible.sum(axis=1)
        budget = np.rint(self.rate * count).astype(np.int64)
        budget = np.minimum(np.clip(budget, 1, self.max_predictions), count)[:, None]
        if self.unit == "token":
            return _placed(np.arange(order.shape[1]) < budget, order, length)
        first = _latest(word)
        words = (first + length * np.arange(size)[:, None])[eligible]
        counts = np.bincount(words, minlength=size * length).reshape(size, length)
        tokens = is_word * _pick(counts, order)  # in each word
        taken, fits = np.zeros_like(is_word), is_word
        while True:
            take = fits & (np.cumsum(tokens * fits, axis=1) <= budget)
            taken |= take
            budget = budget - (tokens * take).sum(axis=1, keepdims=True)
            fits = fits & ~take & (tokens <= budget)
            # A word too long now is too long for ever: the budget only shrinks.
            if self.unit != "whole_word" or not fits.any():
                break
        return _pick(_placed(taken, order, length), first) & eligible


def _placed(taken: np.ndarray, order: np.ndarray, length: int) -> np.ndarray:
    """Marks column order[b, i] wherever taken[b, i] is True, both [B, I]: bool [B, length]."""
    found = np.zeros((len(order), length), np.bool_)
    rows, ranks = np.nonzero(taken)
    found[rows, order[rows, ranks]] = True
    return found


def _pick(values: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """values[b, columns[b, i]], [B, I]: take_along_axis at half the time."""
    size, length = values.shape
    return values.ravel()[columns + length * np.arange(size)[:, None]]


def _shifted(flags: np.ndarray) -> np.ndarray:
    """Each column's left neighbour; False in the first column."""
    left = np.zeros_like(flags)
    left[:, 1:] = flags[:, :-1]
    return left


def _latest(begins: np.ndarray) -> np.ndarray:
    """The column of the latest True at or before each column, 0 if none: int64 of begins' shape."""
    return np.maximum.accumulate(np.where(begins, np.arange(begins.shape[1]), 0), axis=1)


def _tiles(word: np.ndarray, raw: np.ndarray) -> np.ndarray:
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
    return _pick(begins, np.maximum(number, 0))
