"""Batches of labelled examples as a function of (seed, epoch, position), and validation split."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_keras.data.batch_datasets import Batch
from bert_keras.data.counter_rng import Draws, Stream
from bert_keras.data.model_inputs import EncodedTexts
from bert_keras.errors import DataError
from bert_keras.features import SEGMENT_IDS


def validation_split(
    count: int, share: float, *, seed: int = 0, firsts: Sequence[str] | None = None
) -> tuple[list[int], list[int]]:
    """Draw the rows to learn from and those to validate on, each in the order of the data.

    Keras takes the last rows instead, which are of one label where a table is sorted.

    Args:
        count: number of rows.
        share: share of the rows to validate on, in (0, 1); at least one row stays on each side.
        seed: of the draw.
        firsts: the first texts of pairs. Rows of one first text stay together: a model that has
            learned from some of them knows half of the others.

    Raises:
        DataError: fewer than two rows.
        ValueError: a share out of range.
    """
    if not 0 < share < 1:
        raise ValueError(f"validation_split must be above 0 and below 1. Received: {share}")
    if count < 2:
        raise DataError(
            f"{count} rows cannot be split: nothing would be left to learn from. Pass validation "
            "data of its own."
        )
    keys = Draws(seed, epoch=1).keys(Stream.PLAN, count)
    if firsts is not None:
        first = {text: row for row, text in reversed(list(enumerate(firsts)))}
        keys = keys[[first[text] for text in firsts]]
    order = np.argsort(keys, kind="stable")
    bounds = 1 + np.flatnonzero(np.diff(keys[order]))  # where another text begins
    wanted = rows_to_learn(count, share)
    size = min(bounds.tolist(), key=lambda bound: abs(bound - wanted), default=wanted)
    learned, validated = (np.sort(part).tolist() for part in (order[:size], order[size:]))
    return learned, validated


def rows_to_learn(count: int, share: float) -> int:
    """Return how many rows are left to learn from: at least one, and one to validate on."""
    return min(max(1, count - max(1, round(count * share))), count - 1)


# === Batches ===


_ORDERS_KEPT = 2


# Rows are padded to a multiple of this. JAX compiles for every length, so there are few lengths.
_LENGTH_MULTIPLES = {"jax": 32}
_LENGTH_MULTIPLE_ELSEWHERE = 4


def length_multiple() -> int:
    """Return the number of tokens of which the lengths of batches should be multiples here."""
    import keras

    return _LENGTH_MULTIPLES.get(keras.backend.backend(), _LENGTH_MULTIPLE_ELSEWHERE)


class SupervisedExamples:
    """Examples in batches of similar length. Safe to read from several threads.

    An epoch has every example once, in an order of its own: shuffled, then sorted by length within
    windows of many batches, whose batches are shuffled again. The last batch may be smaller.

    Args:
        rows: the texts.
        labels: by name, an array [examples, ...].
        weights: by name, float32 [examples]; 1 where a name has none.
        token_labels: by name, an array [tokens] that lies as the rows' ids do,
        token_weights: and float32 [tokens]: 0 for tokens that do not count; 1 where a name has
            none.
        group: how many rows make an example (the choices of a question); None for one, without an
            axis of its own.
        segments: whether the model reads segments.
        batch_size: examples in a batch.
        multiple_of: rows are padded to a multiple of this; a backend that compiles for every length
            compiles seldom where it is large.
        max_length: but to no more than this, as where the model has no more positions.
        window: batches whose rows are sorted by length together: in a larger window there is less
            padding, and the texts of a batch are more alike.
        seed: of the order, 0 <= seed < 2**64; None keeps the order of the rows.

    Raises:
        ValueError: numbers that do not fit together.
    """

    fixed_shapes = False

    def __init__(
        self,
        rows: EncodedTexts,
        labels: Mapping[str, Any],
        *,
        weights: Mapping[str, np.ndarray] | None = None,
        token_labels: Mapping[str, np.ndarray] | None = None,
        token_weights: Mapping[str, np.ndarray] | None = None,
        group: int | None = None,
        segments: bool = True,
        batch_size: int = 32,
        multiple_of: int = 8,
        max_length: int | None = None,
        window: int = 50,
        seed: int | None = 0,
    ):
        given = {"batch_size": batch_size, "multiple_of": multiple_of, "window": window}
        for name, value in given.items():
            if value < 1:
                raise ValueError(f"{name} must be at least 1. Received: {name}={value}")
        self.rows, self.group, self.segments = rows, group, segments
        self.batch_size, self.multiple_of, self.seed = batch_size, multiple_of, seed
        self.max_length, self.window = max_length, window
        self.num_examples, left = divmod(len(rows), group or 1)
        self._labels = {name: np.asarray(values) for name, values in labels.items()}
        self._weights = dict(weights or {})
        self._token_labels = dict(token_labels or {})
        self._token_weights = dict(token_weights or {})
        sizes = _sizes(self._labels, self._weights)
        tokens = _sizes(self._token_labels, self._token_weights)
        wrong = {name: size for name, size in sizes if size != self.num_examples}
        wrong |= {name: size for name, size in tokens if size != len(rows.token_ids)}
        stray = (self._weights.keys() - self._labels) | (
            self._token_weights.keys() - self._token_labels
        )
        if stray:
            raise ValueError(f"Weights without labels. Received: {', '.join(sorted(stray))}")
        if wrong or left or not self.num_examples:
            raise ValueError(
                f"{len(rows)} rows in groups of {group or 1}, {len(rows.token_ids)} tokens, do not "
                f"fit labels and weights, or there are none. Received: {wrong or dict(sizes)}"
            )
        lengths = rows.lengths.reshape(self.num_examples, -1).max(axis=1)
        self.lengths: np.ndarray = lengths
        self._orders: dict[int, list[np.ndarray]] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return self.num_examples

    def weigh(self, weights: Any) -> None:
        """Multiply the weights of the examples.

        Args:
            weights: one number for each example.

        Raises:
            ValueError: not one for each, or examples whose tokens have labels.
            DataError: a weight that is missing, not finite or negative; names the row.
        """
        factors = np.asarray(weights, np.float32)
        if self._token_labels or factors.shape != (self.num_examples,):
            raise ValueError(
                "sample_weight needs one number for each example of one row. Received: shape "
                f"{factors.shape} for {self.num_examples} rows"
            )
        if (unfit := np.flatnonzero(~(np.isfinite(factors) & (factors >= 0)))).size:
            raise DataError(
                f"sample_weight: row {unfit[0]} is no weight. Received: {factors[unfit[0]]}. Pass "
                "a finite number of at least 0 for each row."
            )
        for name in self._labels:
            self._weights[name] = self._weights.get(name, 1.0) * factors

    def num_batches(self, epoch: int = 0) -> int:
        """Batches in an epoch, the same in each."""
        del epoch
        return -(-self.num_examples // self.batch_size)

    def locate(self, epoch: int, position: int, steps: int) -> tuple[int, int]:
        """The (epoch, position) that is `steps` >= 0 batches later."""
        if min(epoch, position, steps) < 0:
            raise ValueError(f"Negative. Received: {epoch=}, {position=}, {steps=}")
        more, position = divmod(position + steps, self.num_batches())
        return epoch + more, position

    def order(self, epoch: int) -> list[np.ndarray]:
        """The numbers of the examples in each batch of an epoch."""
        with self._lock:
            order = self._orders.pop(epoch, None)
            if order is None:
                order = self._order(epoch)
            self._orders[epoch] = order
            while len(self._orders) > _ORDERS_KEPT:
                del self._orders[next(iter(self._orders))]
            return order

    @property
    def pad_id(self) -> int:
        """Id that rows are filled up with."""
        return self.rows.pad_id

    @property
    def token_names(self) -> tuple[str, ...]:
        """The labels of tokens."""
        return tuple(self._token_labels)

    def lengths_of(self, epoch: int) -> np.ndarray:
        """Tokens of the examples, the same in each epoch.

        Raises:
            ValueError: choices, whose examples have several rows.
        """
        del epoch
        if self.group is not None:
            raise ValueError(
                "Examples of several rows cannot share a row. "
                f"Received: examples with group={self.group}"
            )
        return self.lengths

    def most_predictions(self, tokens: int, examples: int) -> int:
        """None: no token is masked."""
        del tokens, examples
        return 0

    def drawn(self, epoch: int) -> np.ndarray:
        """The numbers of the examples in the order of an epoch, whatever their lengths."""
        if self.seed is None:
            return np.arange(self.num_examples)
        keys = Draws(self.seed, epoch).keys(Stream.ORDER, self.num_examples)
        return np.argsort(keys, kind="stable")

    def _order(self, epoch: int) -> list[np.ndarray]:
        size, numbers = self.batch_size, self.drawn(epoch)
        if self.seed is None:
            return [numbers[start : start + size] for start in range(0, len(numbers), size)]
        draws, batches = Draws(self.seed, epoch), []
        for start in range(0, len(numbers), size * self.window):
            window = numbers[start : start + size * self.window]
            window = window[np.argsort(self.lengths[window], kind="stable")]
            batches += [window[first : first + size] for first in range(0, len(window), size)]
        turns = np.argsort(draws.keys(Stream.BALANCE, len(batches)), kind="stable")
        return sorted((batches[turn] for turn in turns), key=lambda batch: len(batch) < size)

    def batch(self, epoch: int, position: int) -> Batch:
        """One batch: inputs, labels, sample weights; rows padded to a common length."""
        if not 0 <= position < self.num_batches():
            raise IndexError(f"An epoch has {self.num_batches()} batches. Received: {position=}")
        return self.batch_of(epoch, self.order(epoch)[position])

    def batch_of(self, epoch: int, examples: np.ndarray) -> Batch:
        """A batch of these examples, in whichever epoch."""
        del epoch
        numbers = examples
        if self.group:
            numbers = examples[:, None] * self.group + np.arange(self.group)
        width = self._width(examples)
        x = self.rows.inputs(numbers, width)
        if not self.segments:
            del x[SEGMENT_IDS]
        y = {name: values[examples] for name, values in self._labels.items()}
        ones = np.ones(len(examples), np.float32)
        weights = dict.fromkeys(y, ones)
        weights |= {name: values[examples] for name, values in self._weights.items()}
        for name, values in self._token_labels.items():
            y[name] = self.rows.gather(values, numbers, width)
            counts = self._token_weights.get(name, np.ones(len(values), np.float32))
            weights[name] = self.rows.gather(counts, numbers, width)
        return x, y, weights

    def _width(self, examples: np.ndarray) -> int:
        """Return the length that the rows of a batch are padded to."""
        longest = int(self.lengths[examples].max())
        width = -(-longest // self.multiple_of) * self.multiple_of
        return width if self.max_length is None else max(longest, min(width, self.max_length))

    def statistics(self, epoch: int = 0) -> dict[str, float]:
        """Batches, tokens and the share of padding in an epoch."""
        tokens = places = 0
        for numbers in self.order(epoch):
            places += self._width(numbers) * len(numbers) * (self.group or 1)
            tokens += int(self.rows.lengths.reshape(self.num_examples, -1)[numbers].sum())
        return {
            "batches": self.num_batches(),
            "tokens": tokens,
            "padding_share": 1 - tokens / places,
        }


def _sizes(*columns: Mapping[str, Any]) -> list[tuple[str, int]]:
    return [(name, len(values)) for each in columns for name, values in each.items()]
