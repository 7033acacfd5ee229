"""Batches of labelled examples of similar length, and the validation split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from bert_keras.data.batches import BaseExamples, Batch
from bert_keras.data.counter_rng import Draws, Stream
from bert_keras.data.model_inputs import EncodedTexts
from bert_keras.errors import DataError
from bert_keras.features import SEGMENT_IDS


def validation_split(
    count: int, share: float, *, seed: int = 0, firsts: Sequence[str] | None = None
) -> tuple[list[int], list[int]]:
    """Draw the rows to train on and the rows to validate on, each in the order of the data.

    Keras validates on the last rows instead. They have one label if the table is sorted by label.

    Args:
        count: number of rows.
        share: share of the rows to validate on, in (0, 1). Each side gets at least one row.
        seed: seed of the draw.
        firsts: first texts of pairs. Rows with the same first text stay on one side: a model that
            trained on some of them knows half of each other row.

    Returns:
        Numbers of the rows to train on, and of the rows to validate on.

    Raises:
        DataError: fewer than two rows.
        ValueError: a share out of range.
    """
    if not 0 < share < 1:
        raise ValueError(f"validation_split must be above 0 and below 1. Received: {share}")
    if count < 2:
        raise DataError(
            f"At least two rows are needed to split off validation data. Received: {count}. Pass "
            "more rows, or validation data of its own."
        )
    keys = Draws(seed, epoch=1).keys(Stream.PLAN, count)
    if firsts is not None:
        first = {text: row for row, text in reversed(list(enumerate(firsts)))}
        keys = keys[[first[text] for text in firsts]]
    order = np.argsort(keys, kind="stable")
    bounds = 1 + np.flatnonzero(np.diff(keys[order]))  # ends of the rows with the same first text
    wanted = num_training_rows(count, share)
    size = min(bounds.tolist(), key=lambda bound: abs(bound - wanted), default=wanted)
    train, validation = (np.sort(rows).tolist() for rows in (order[:size], order[size:]))
    return train, validation


def num_training_rows(count: int, share: float) -> int:
    """Return the number of rows to train on. At least one row is left to validate on."""
    return min(max(1, count - max(1, round(count * share))), count - 1)


# === Batches ===


# JAX compiles a step for each length, so its batches have few lengths.
_LENGTH_MULTIPLES = {"jax": 32}
_LENGTH_MULTIPLE_ELSEWHERE = 4


def require_weights(weights: np.ndarray) -> None:
    """Raise `DataError` for the first weight that is missing, infinite or negative."""
    if (unfit := np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))).size:
        raise DataError(
            f"sample_weight: the weight of row {unfit[0]} must be a finite number of at least "
            f"0. Received: {weights[unfit[0]]}. Correct it, or drop the row."
        )


def length_multiple() -> int:
    """Return the number of tokens to pad rows to a multiple of, on the active backend."""
    import keras  # pyright: ignore[reportMissingTypeStubs]

    backend = cast("str", keras.backend.backend())  # pyright: ignore[reportUnknownMemberType]
    return _LENGTH_MULTIPLES.get(backend, _LENGTH_MULTIPLE_ELSEWHERE)


# Rows of an example are padded apart where that leaves less than this share of the tokens.
_APART = 0.85


class SupervisedExamples(BaseExamples[list[np.ndarray]]):
    """Labelled examples in batches of similar length. Safe to read from several threads.

    An epoch has every example once. Each epoch shuffles the examples and sorts them by length
    within windows of many batches. Then it shuffles the batches. The last batch may be smaller.

    Args:
        rows: encoded texts. If a long text has several rows, each of them is an example, with the
            label of the text. The rows of each text weigh as much as those of any other text, and
            the mean weight of all rows is 1.
        labels: arrays [examples, ...] by name; with several rows of a text, [texts, ...].
        weights: float32, as many as labels, by name of the label. A label without weights has
            weights of 1.
        token_labels: arrays [tokens] by name, with a value for each token of `rows`.
        token_weights: float32 [tokens] by name of the label, 0 for tokens that do not count. A
            label without weights has weights of 1.
        group: number of rows of an example, as the choices of a question. None for one row; the
            arrays of a batch then have no axis of choices.
        segments: whether the model has an input of segment ids.
        batch_size: examples in a batch.
        multiple_of: number of tokens that rows are padded to a multiple of. A backend that compiles
            for each length compiles fewer times if it is large.
        max_length: maximum length after padding, for a model with so many positions.
        window: number of batches whose examples are sorted by length together. A larger window has
            less padding and batches of more similar texts.
        seed: seed of the order, 0 <= seed < 2**64. None keeps the order of the rows.
        apart: pad each row of a group to the longest row at its place in the batch, where that
            saves much padding. Then each input is a tuple of arrays [B, 1, T], one for each place.

    Attributes:
        rows: the encoded texts. `rows.num_cut` is the number of texts that were cut.
        num_texts: number of texts, pairs or other examples that the labels are of.

    Raises:
        ValueError: an argument out of range, or arrays of different sizes.
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
        apart: bool = False,
    ):
        super().__init__(batch_size=batch_size, seed=seed)
        for name, value in {"multiple_of": multiple_of, "window": window}.items():
            if value < 1:
                raise ValueError(f"{name} must be at least 1. Received: {name}={value}")
        self.rows, self.group, self.segments = rows, group, segments
        self.multiple_of, self.max_length, self.window = multiple_of, max_length, window
        self.num_examples, left = divmod(len(rows), group or 1)
        self._labels = {name: np.asarray(values) for name, values in labels.items()}
        self._weights = dict(weights or {})
        self.num_texts = self.num_examples
        if rows.sources is not None and not group:
            self._repeat_for_windows(rows.sources)
        self._token_labels = dict(token_labels or {})
        self._token_weights = dict(token_weights or {})
        sizes = _sizes(self._labels, self._weights)
        tokens = _sizes(self._token_labels, self._token_weights)
        wrong_sizes = {name: size for name, size in sizes if size != self.num_examples}
        wrong_sizes |= {name: size for name, size in tokens if size != len(rows.token_ids)}
        stray = (self._weights.keys() - self._labels) | (
            self._token_weights.keys() - self._token_labels
        )
        if stray:
            raise ValueError(
                f"Weights must have the name of a label. Received: {', '.join(sorted(stray))}. "
                f"The labels are: {', '.join([*self._labels, *self._token_labels])}"
            )
        if wrong_sizes or left or not self.num_examples:
            raise ValueError(
                "Labels and weights need one value for each example, token labels one for each "
                "token, and at least one example is needed. "
                f"Received: {wrong_sizes or dict(sizes)} for {len(rows)} rows "
                f"in groups of {group or 1}, {len(rows.token_ids)} tokens."
            )
        each = rows.lengths.reshape(self.num_examples, -1)
        self.lengths: np.ndarray = each.max(axis=1)
        padded = -(-each // multiple_of)  # in multiples
        self.apart = apart and bool(padded.mean() < _APART * padded.max(axis=1).mean())

    def __len__(self) -> int:
        return self.num_examples

    def _repeat_for_windows(self, sources: np.ndarray) -> None:
        """Give each window of a text its label, and its share of the weight of the text."""
        self.num_texts = len(np.bincount(sources))
        sizes = _sizes(self._labels, self._weights)
        if wrong := {name: size for name, size in sizes if size != self.num_texts}:
            raise ValueError(
                f"Labels and weights need one value for each text. Received: {wrong} for "
                f"{self.num_texts} texts in {len(sources)} windows."
            )
        share = self._shares(sources)
        self._labels = {name: values[sources] for name, values in self._labels.items()}
        self._weights = {
            name: share * np.asarray(self._weights[name])[sources]
            if name in self._weights
            else share
            for name in self._labels
        }

    def _shares(self, sources: np.ndarray) -> np.ndarray:
        """Return the weight of each window for a text of weight 1: float32 [windows]."""
        counts = np.bincount(sources)
        return (len(sources) / len(counts) / counts[sources]).astype(np.float32)

    def of_texts(self) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Return labels and weights of the texts, [texts, ...], instead of those of their windows.

        Raises:
            ValueError: if no text has several rows.
        """
        sources = self.rows.sources
        if sources is None:
            raise ValueError(
                "The texts have one row each. Pass long_texts='windows' to split them."
            )
        first = np.flatnonzero(np.diff(sources, prepend=-1))
        shares = self._shares(sources)[first]
        labels = {name: values[first] for name, values in self._labels.items()}
        return labels, {name: values[first] / shares for name, values in self._weights.items()}

    def weigh(self, weights: Any) -> None:
        """Multiply the weights of the examples by `sample_weight`.

        Args:
            weights: one number for each example; with several rows of a text, one for each text.

        Raises:
            ValueError: another number of weights, or examples with token labels.
            DataError: a weight that is missing, infinite or negative. The message names the row.
        """
        factors = np.asarray(weights, np.float32)
        if self._token_labels or factors.shape != (self.num_texts,):
            raise ValueError(
                "sample_weight needs one number for each example of one row. Received: shape "
                f"{factors.shape} for {self.num_texts} rows"
            )
        require_weights(factors)
        if self.rows.sources is not None and not self.group:
            factors = factors[self.rows.sources]
        for name in self._labels:
            self._weights[name] = self._weights.get(name, 1.0) * factors

    def num_batches(self, epoch: int = 0) -> int:
        """Return the number of batches in an epoch. All epochs have the same number."""
        del epoch
        return -(-self.num_examples // self.batch_size)

    def order(self, epoch: int) -> list[np.ndarray]:
        """Return the numbers of the examples in each batch of an epoch."""
        return self.plan(epoch)

    @property
    def pad_id(self) -> int:
        """Token id of padding."""
        return self.rows.pad_id

    @property
    def per_token_labels(self) -> tuple[str, ...]:
        """Names of the labels that have a value for each token."""
        return tuple(self._token_labels)

    def lengths_of(self, epoch: int) -> np.ndarray:
        """Return the number of tokens of each example, in all epochs: int64 [examples].

        Raises:
            ValueError: examples of several rows, as those of choices.
        """
        del epoch
        if self.group is not None:
            raise ValueError(
                "Examples of several rows, such as multiple choice, cannot be packed. "
                f"Received: examples with group={self.group}. Train them without packing."
            )
        return self.lengths

    def epoch_order(self, epoch: int) -> np.ndarray:
        """Return the numbers of the examples of an epoch, shuffled: int64 [examples]."""
        if self.seed is None:
            return np.arange(self.num_examples)
        keys = Draws(self.seed, epoch).keys(Stream.ORDER, self.num_examples)
        return np.argsort(keys, kind="stable")

    def _plan(self, epoch: int) -> list[np.ndarray]:
        """Draw the batches of an epoch, each the numbers of its examples: int64 [B].

        A batch with fewer examples than the others comes last.
        """
        size, numbers = self.batch_size, self.epoch_order(epoch)
        if self.seed is None:
            return [numbers[start : start + size] for start in range(0, len(numbers), size)]
        draws = Draws(self.seed, epoch)
        batches: list[np.ndarray] = []
        for start in range(0, len(numbers), size * self.window):
            window = numbers[start : start + size * self.window]
            window = window[np.argsort(self.lengths[window], kind="stable")]
            batches += [window[first : first + size] for first in range(0, len(window), size)]
        keys = draws.keys(Stream.BALANCE, len(batches))
        turns: list[int] = np.argsort(keys, kind="stable").tolist()
        return sorted((batches[turn] for turn in turns), key=lambda batch: len(batch) < size)

    def _batch(self, epoch: int, position: int) -> Batch:
        return self.batch_of(epoch, self.plan(epoch)[position])

    def batch_of(self, epoch: int, examples: np.ndarray) -> Batch:
        """Return a batch of the examples with these numbers. It does not depend on the epoch.

        Returns:
            x: token_ids, segment_ids (if the model has that input) and padding_mask, int32 [B, T],
                or [B, choices, T] with `group`; apart, tuples of arrays [B, 1, T].
            y: labels [B, ...]; token labels [B, T].
            sample_weight: float32 [B]; for token labels [B, T], 0 for padding.
        """
        del epoch
        numbers = examples
        if self.group:
            numbers = examples[:, None] * self.group + np.arange(self.group)
        width = self._width(self.lengths[examples])
        x = self._apart(numbers) if self.apart else self.rows.inputs(numbers, width)
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

    def _apart(self, numbers: np.ndarray) -> dict[str, Any]:
        """Return the inputs of rows [B, group], a tuple of arrays [B, 1, T], one for each place."""
        places = [place[:, None] for place in numbers.T]
        inputs = [
            self.rows.inputs(place, self._width(self.rows.lengths[place])) for place in places
        ]
        return {name: tuple(arrays[name] for arrays in inputs) for name in inputs[0]}

    def _width(self, lengths: np.ndarray) -> int:
        """Return the length of padded rows of some lengths."""
        longest = int(lengths.max())
        width = -(-longest // self.multiple_of) * self.multiple_of
        return width if self.max_length is None else max(longest, min(width, self.max_length))

    def _tokens_and_places(self, epoch: int, batches: int) -> tuple[int, int]:
        tokens = places = 0
        for numbers in self.plan(epoch)[:batches]:
            lengths = self.rows.lengths.reshape(self.num_examples, -1)[numbers]
            columns = lengths.T if self.apart else [lengths.max(axis=1)] * (self.group or 1)
            places += sum(self._width(column) for column in columns) * len(numbers)
            tokens += int(lengths.sum())
        return tokens, places


def _sizes(*groups: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Return the names and lengths of all arrays, for example of labels and their weights."""
    return [(name, len(values)) for arrays in groups for name, values in arrays.items()]
