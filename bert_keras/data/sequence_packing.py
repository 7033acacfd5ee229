"""Sequence packing: several examples in a row of fixed length, by bin packing over a histogram.

Krell et al., 2021, "Efficient sequence packing without cross-contamination". The algorithm places
lengths with their counts, and not single examples, because examples of one length are alike.
"""

from __future__ import annotations

import math
from bisect import insort
from typing import Any, NamedTuple

import numpy as np

from bert_keras.data.batches import BaseExamples, Batch
from bert_keras.data.counter_rng import Draws, Stream
from bert_keras.features import (
    EXAMPLE_IDS,
    FIRST_POSITIONS,
    MASK_POSITIONS,
    MLM,
    PADDING_MASK,
    POSITION_IDS,
    SEGMENT_IDS,
    TOKEN_IDS,
)


class _Rows(NamedTuple):
    """Rows that hold examples of the same lengths, as a linked list of what was added.

    For example, rows of one example of 100 tokens and two of 10 are (number, 3, 10, 2, before),
    where `before` is (number, 1, 100, 1, None).
    """

    number: int  # number of these rows
    examples: int  # examples in each row
    length: int  # tokens of each example that was added last
    copies: int  # examples of this length that were added to each row last
    before: _Rows | None  # contents before that; None: empty rows


def fill_rows(lengths: np.ndarray, row_length: int, most_examples: int | None = None) -> np.ndarray:
    """Assign examples to rows: the longest first, each to the row with most room.

    The first rows are as many as all tokens fill. A new row is added if no row has room. Each row
    gets long and short examples, and about as many as the other rows. Best-fit packing (the fullest
    row with room) leaves slightly less padding. But then some rows have short examples only, and
    batches of few rows differ.

    Args:
        lengths: tokens of each example, [examples].
        row_length: maximum number of tokens in a row.
        most_examples: maximum number of examples in a row; None for any number.

    Returns:
        Row of each example, numbered from 0: int64 [examples]. It depends on the lengths alone.

    Raises:
        ValueError: an example is empty or longer than a row, or `most_examples` is below 1.
    """
    lengths = np.asarray(lengths)
    if most_examples is not None and most_examples < 1:
        raise ValueError(f"most_examples must be at least 1. Received: {most_examples}")
    if not len(lengths):
        return np.zeros(0, np.int64)
    shortest, longest = int(lengths.min()), int(lengths.max())
    if shortest < 1 or longest > row_length:
        wrong_length = shortest if shortest < 1 else longest
        raise ValueError(
            f"Every example must have 1 to {row_length} tokens, to fit in a row. Received: an "
            f"example of {wrong_length} tokens. Pass a larger sequence_length, or cut the examples."
        )
    counts = np.bincount(lengths)
    places = _places(_filled(counts, row_length, most_examples or row_length))
    if longest < 2**16:
        lengths = lengths.astype(np.uint16)  # radix sort, in a tenth of the time
    rows = np.empty(len(lengths), np.int64)
    rows[np.argsort(lengths, kind="stable")] = np.concatenate(
        [part for length in np.flatnonzero(counts).tolist() for part in places[length]]
    )
    return rows


def _filled(counts: np.ndarray, row_length: int, most: int) -> list[_Rows]:
    """Return the contents of the rows that hold all examples.

    Args:
        counts: counts[n] is the number of examples of n tokens: int64 [longest + 1].
        row_length: maximum number of tokens in a row.
        most: maximum number of examples in a row.
    """
    tokens = int(counts @ np.arange(len(counts)))
    fewest = max(-(-tokens // row_length), -(-int(counts.sum()) // most))
    full: list[_Rows] = []
    # Rows by their number of free tokens, and these numbers in ascending order.
    partly = {row_length: [_Rows(fewest, 0, 0, 0, None)]}
    free = [row_length]

    def put(space: int, rows: _Rows) -> None:
        """Add rows with `space` free tokens to the full or the partly filled rows."""
        if not space or rows.examples == most:
            full.append(rows)
            return
        if space not in partly:
            partly[space] = []
            insort(free, space)
        partly[space].append(rows)

    for length in np.flatnonzero(counts)[::-1].tolist():
        left = int(counts[length])
        while left:
            if free and free[-1] >= length:
                space, copies = free[-1], 1
                before = partly[space].pop()
                if not partly[space]:
                    del partly[free.pop()]
                count = min(left, before.number)
            else:  # no row has room: add rows of examples of this length
                space, before = row_length, None
                copies = min(left, row_length // length, most)
                count = left // copies
            examples = copies + (before.examples if before else 0)
            put(space - copies * length, _Rows(count, examples, length, copies, before))
            if before and count < before.number:
                put(space, before._replace(number=before.number - count))
            left -= count * copies
    return full + [rows for space in free for rows in partly[space]]


def _places(filled: list[_Rows]) -> dict[int, list[np.ndarray]]:
    """Return the rows of the examples of each length, by length, as int64 arrays to join."""
    places: dict[int, list[np.ndarray]] = {}
    first = 0
    for rows in filled:
        numbers = np.arange(first, first + rows.number)
        first += rows.number
        part: _Rows | None = rows
        while part is not None:
            places.setdefault(part.length, []).append(np.repeat(numbers, part.copies))
            part = part.before
    return places


# === Packed batches ===


def pack_batch(
    batch: Batch,
    rows: np.ndarray,
    *,
    shape: tuple[int, int],
    max_examples: int,
    max_predictions: int = 0,
    pad_id: int = 0,
    per_token_labels: tuple[str, ...] = (),
) -> Batch:
    """Put the examples of a batch one after another into common rows.

    Args:
        batch: examples in rows of their own (x, y, sample_weight), with padding at the end.
        rows: row of each example, in ascending order: [examples].
        shape: number of rows, and of tokens in a row.
        max_examples: slots for examples in a row.
        max_predictions: slots for masked tokens in a row.
        pad_id: token id of padding.
        per_token_labels: names of the labels that have a value for each token.

    Returns:
        x: token_ids, segment_ids (if the examples have them), position_ids, example_ids int32
            [rows, length]; first_positions int32 [rows, max_examples]; for masked tokens
            mask_positions int32 [rows, max_predictions].
        y: labels of examples [rows, max_examples, ...]; of tokens [rows, length]; "mlm" [rows,
            max_predictions].
        sample_weight: shapes as y; 0 for unused slots and padding. Weights of token labels are
            multiplied by rows / examples, so that a mean over the rows is a mean over the examples.
    """
    x, y, weights = batch
    real = x[PADDING_MASK] > 0
    lengths = real.sum(axis=1)
    begins = np.cumsum(lengths) - lengths
    first = np.searchsorted(rows, rows)  # first example in the row of each example
    slots = np.arange(len(rows)) - first
    starts = (begins - begins[first]).astype(np.int32)
    example, position = np.nonzero(real)
    places = rows[example], starts[example] + position

    def by_token(values: np.ndarray, fill: int = 0) -> np.ndarray:
        """Put values of tokens, [examples, length], into the packed rows, of `shape`."""
        packed = np.full(shape, fill, values.dtype)
        packed[places] = values[real]
        return packed

    def by_slot(values: np.ndarray) -> np.ndarray:
        """Put values of examples, [examples, ...], into slots: [rows, max_examples, ...]."""
        packed = np.zeros((shape[0], max_examples, *values.shape[1:]), values.dtype)
        packed[rows, slots] = values
        return packed

    positions = np.arange(real.shape[1], dtype=np.int32)
    numbers = 1 + slots.astype(np.int32)
    packed_x = {
        TOKEN_IDS: by_token(x[TOKEN_IDS], pad_id),
        POSITION_IDS: by_token(np.broadcast_to(positions, real.shape)),
        EXAMPLE_IDS: by_token(np.broadcast_to(numbers[:, None], real.shape)),
        FIRST_POSITIONS: by_slot(starts),
    }
    if SEGMENT_IDS in x:
        packed_x[SEGMENT_IDS] = by_token(x[SEGMENT_IDS])
    packed_y: dict[str, np.ndarray] = {}
    packed_weights: dict[str, np.ndarray] = {}
    share = np.float32(shape[0] / len(rows))
    for name, values in y.items():
        if name == MLM:
            columns = x[MASK_POSITIONS] + starts[:, None]
            masks = columns, values, weights[MLM]
            packed_x[MASK_POSITIONS], packed_y[MLM], packed_weights[MLM] = _masks(
                *masks, rows=rows, shape=(shape[0], max_predictions)
            )
        elif name in per_token_labels:
            packed_y[name], packed_weights[name] = by_token(values), share * by_token(weights[name])
        else:
            packed_y[name], packed_weights[name] = by_slot(values), by_slot(weights[name])
    return packed_x, packed_y, packed_weights


def _masks(*columns: np.ndarray, rows: np.ndarray, shape: tuple[int, int]) -> list[np.ndarray]:
    """Move masked tokens into the slots of common rows, without their unused slots.

    Args:
        columns: positions, labels and weights of masked tokens, each [examples, predictions]. The
            weight is 0 for unused slots.
        rows: row of each example, in ascending order: [examples].
        shape: number of rows, and of slots in a row.

    Returns:
        The columns by row, each [rows, slots].
    """
    used = columns[-1] > 0
    row = rows[np.nonzero(used)[0]]
    slots = row, np.arange(len(row)) - np.searchsorted(row, row)
    packed = [np.zeros(shape, values.dtype) for values in columns]
    for packed_values, values in zip(packed, columns, strict=True):
        packed_values[slots] = values[used]
    return packed


# === Batches of an epoch ===


_TIMES_THE_MEAN = 3  # default of the maximum number of examples in a row


class _RowPlan(NamedTuple):
    """Rows of an epoch. Row i has the examples `examples[bounds[i] : bounds[i + 1]]`."""

    examples: np.ndarray  # numbers of the examples, row by row: int64 [examples]
    bounds: np.ndarray  # int64 [rows + 1]


class PackedExamples(BaseExamples[_RowPlan]):
    """Rows of several examples, for `task.packed()`. Safe to read from several threads.

    An epoch has every example once. Each epoch draws anew which examples of equal lengths share a
    row, and the order of the rows. All batches have the same shapes: the last batch of an epoch may
    end with empty rows. `pack_batch` documents the arrays of a batch.

    Args:
        examples: examples to pack. Rows are filled in the order of their epoch, and drawn with
            their seed. Their own batches are not used.
        sequence_length: tokens of a row.
        batch_size: rows of a batch. A batch has about
            batch_size * sequence_length / (mean length) examples.
        max_examples: maximum number of examples in a row. None: three times as many as examples of
            mean length fill a row.

    Raises:
        ValueError: an argument is out of range, or an example is longer than a row, or is several
            rows by itself (the choices of a question).
    """

    fixed_shapes = True

    def __init__(
        self,
        examples: BaseExamples[Any],
        *,
        sequence_length: int = 128,
        batch_size: int = 8,
        max_examples: int | None = None,
    ):
        super().__init__(batch_size=batch_size, seed=examples.seed)
        self.examples, self.sequence_length = examples, sequence_length
        if max_examples is None:
            mean = float(np.mean(examples.lengths_of(0)))
            max_examples = math.ceil(_TIMES_THE_MEAN * sequence_length / mean)
        self.max_examples = max_examples
        self.plan(0)  # raises for what is out of range

    def num_batches(self, epoch: int = 0) -> int:
        """Return the number of batches in an epoch."""
        return -(-self.num_rows(epoch) // self.batch_size)

    def num_rows(self, epoch: int = 0) -> int:
        """Return the number of rows in an epoch, without empty ones."""
        return len(self.plan(epoch).bounds) - 1

    def statistics(self, epoch: int = 0, batches: int | None = None) -> dict[str, float]:
        """Return the number of batches, rows and tokens, and the share of padding.

        Args:
            epoch: epoch to count.
            batches: number of batches to count, from the first one; None for all of the epoch.
        """
        figures = super().statistics(epoch, batches)
        rows = min(int(figures["batches"]) * self.batch_size, self.num_rows(epoch))
        return {"batches": figures["batches"], "rows": rows, **figures}

    def _tokens_and_places(self, epoch: int, batches: int) -> tuple[int, int]:
        plan, rows = self.plan(epoch), min(batches * self.batch_size, self.num_rows(epoch))
        tokens = self.examples.lengths_of(epoch)[plan.examples[: plan.bounds[rows]]].sum()
        return int(tokens), batches * self.batch_size * self.sequence_length

    def _plan(self, epoch: int) -> _RowPlan:
        """Fill rows with the examples of an epoch, and draw the order of the rows."""
        source = self.examples
        examples = source.epoch_order(epoch)
        lengths = source.lengths_of(epoch)[examples]
        row_of_example = fill_rows(lengths, self.sequence_length, self.max_examples)
        if self.seed is None:  # rows in the order of their first examples
            _, sort_keys = np.unique(row_of_example, return_index=True)
        else:
            sort_keys = Draws(self.seed, epoch).keys(Stream.ROWS, int(row_of_example.max()) + 1)
        place_of_row = np.empty(len(sort_keys), np.int64)
        place_of_row[np.argsort(sort_keys, kind="stable")] = np.arange(len(sort_keys))
        places = place_of_row[row_of_example]
        bounds = np.cumsum(np.bincount(places))
        return _RowPlan(examples[np.argsort(places, kind="stable")], np.concatenate([[0], bounds]))

    def _batch(self, epoch: int, position: int) -> Batch:
        first = position * self.batch_size
        last = min(first + self.batch_size, self.num_rows(epoch))
        return self.batch_of(epoch, np.arange(first, last))

    def batch_of(self, epoch: int, examples: np.ndarray) -> Batch:
        """Return a batch of the rows with these numbers, in ascending order without gaps."""
        plan = self.plan(epoch)
        bounds = plan.bounds[examples[0] : examples[-1] + 2]
        most = self.examples.most_predictions(self.sequence_length, self.max_examples)
        return pack_batch(
            self.examples.batch_of(epoch, plan.examples[bounds[0] : bounds[-1]]),
            np.repeat(np.arange(len(bounds) - 1), np.diff(bounds)),
            shape=(self.batch_size, self.sequence_length),
            max_examples=self.max_examples,
            max_predictions=most,
            pad_id=self.pad_id,
            per_token_labels=self.examples.per_token_labels,
        )

    @property
    def pad_id(self) -> int:
        """Token id of padding."""
        return self.examples.pad_id

    def epoch_order(self, epoch: int) -> np.ndarray:
        """Return the numbers of the rows of an epoch: int64 [rows]."""
        return np.arange(self.num_rows(epoch))

    def lengths_of(self, epoch: int) -> np.ndarray:
        """Raise a ValueError: a packed row cannot share a row."""
        del epoch
        raise ValueError(
            "Packed rows cannot be packed again. Pass the examples themselves. "
            f"Received: {type(self).__name__}"
        )
