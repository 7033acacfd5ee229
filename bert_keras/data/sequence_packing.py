"""Sequence packing: several examples in a row of fixed length, by bin packing over a histogram.

Krell et al., 2021, "Efficient sequence packing without cross-contamination": examples of one length
are alike, so that lengths are placed, with how many have them, and not examples.
"""

from __future__ import annotations

import math
import threading
from bisect import insort
from typing import NamedTuple, Protocol

import numpy as np

from bert_keras.data.batch_datasets import Batch, later
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
    """Rows that are filled alike."""

    count: int  # of these rows
    examples: int  # in each of them
    length: int  # of the examples that came last,
    copies: int  # of which there are so many in each row
    before: _Rows | None  # what they, and maybe others, were before; None: empty


def fill_rows(lengths: np.ndarray, row_length: int, most_examples: int | None = None) -> np.ndarray:
    """Puts examples into rows: the longest first, each into the row that has most room.

    There are from the start as many rows as the tokens fill; new ones come where none has room. So
    rows are alike: each has long examples and short ones, and about as many as the others. (The
    fullest row that has room would leave a little less empty, but some rows would be of short
    examples alone, which batches of a few rows then differ by.)

    Args:
        lengths: tokens of each example, [examples].
        row_length: tokens that a row holds.
        most_examples: that a row holds; None for any number.

    Returns:
        int64 [examples], the row of each, numbered from 0: a function of the lengths alone.

    Raises:
        ValueError: an example is empty or longer than a row, or a row may hold none.
    """
    lengths = np.asarray(lengths)
    if most_examples is not None and most_examples < 1:
        raise ValueError(f"most_examples must be at least 1. Received: {most_examples}")
    if not len(lengths):
        return np.zeros(0, np.int64)
    shortest, longest = int(lengths.min()), int(lengths.max())
    if shortest < 1 or longest > row_length:
        wrong = shortest if shortest < 1 else longest
        raise ValueError(
            f"Examples must have 1 to {row_length} tokens, those of a row. Received: one of {wrong}"
        )
    counts = np.bincount(lengths)
    places = _places(_filled(counts, row_length, most_examples or row_length))
    if longest < 2**16:
        lengths = lengths.astype(np.uint16)  # sorted by radix, in a tenth of the time
    rows = np.empty(len(lengths), np.int64)
    rows[np.argsort(lengths, kind="stable")] = np.concatenate(
        [part for length in np.flatnonzero(counts).tolist() for part in places[length]]
    )
    return rows


def _filled(counts: np.ndarray, row_length: int, most: int) -> list[_Rows]:
    """Return the contents of the rows that hold `counts[n]` examples of n tokens each."""
    tokens = int(counts @ np.arange(len(counts)))
    fewest = max(-(-tokens // row_length), -(-int(counts.sum()) // most))
    full: list[_Rows] = []
    # Rows by the tokens that are free in them, and these numbers in order.
    partly = {row_length: [_Rows(fewest, 0, 0, 0, None)]}
    free = [row_length]

    def put(space: int, rows: _Rows) -> None:
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
                count = min(left, before.count)
            else:  # no row has room: new ones, filled with examples of this length
                space, before = row_length, None
                copies = min(left, row_length // length, most)
                count = left // copies
            examples = copies + (before.examples if before else 0)
            put(space - copies * length, _Rows(count, examples, length, copies, before))
            if before and count < before.count:
                put(space, before._replace(count=before.count - count))
            left -= count * copies
    return full + [rows for space in free for rows in partly[space]]


def _places(filled: list[_Rows]) -> dict[int, list[np.ndarray]]:
    """The numbers of the rows in which examples of each length have a place."""
    places: dict[int, list[np.ndarray]] = {}
    first = 0
    for rows in filled:
        numbers = np.arange(first, first + rows.count)
        first += rows.count
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
    token_names: tuple[str, ...] = (),
) -> Batch:
    """The examples of a batch, one after the other in common rows.

    Args:
        batch: examples in rows of their own: x, y, sample_weight; padding comes last.
        rows: the row of each example, ascending: [examples].
        shape: rows, and tokens of a row.
        max_examples: slots of a row for examples,
        max_predictions: and for masked tokens.
        pad_id: what rows are filled up with.
        token_names: the labels that lie as the tokens do.

    Returns:
        x: token_ids, segment_ids (where the examples have them), position_ids, example_ids int32
            [rows, length]; first_positions int32 [rows, max_examples]; mask_positions int32 [rows,
            max_predictions] where tokens are masked.
        y: those of examples [rows, max_examples, ...]; of tokens [rows, length]; "mlm" [rows,
            max_predictions].
        sample_weight: likewise; 0 in unused slots and for padding. Those of tokens count
            rows / examples times, so that a mean over the rows is one over the examples.
    """
    x, y, weights = batch
    real = x[PADDING_MASK] > 0
    lengths = real.sum(axis=1)
    begins = np.cumsum(lengths) - lengths
    first = np.searchsorted(rows, rows)  # of the examples in each one's row
    slots = np.arange(len(rows)) - first
    starts = (begins - begins[first]).astype(np.int32)
    example, position = np.nonzero(real)
    places = rows[example], starts[example] + position

    def laid(values: np.ndarray, fill: int = 0) -> np.ndarray:
        found = np.full(shape, fill, values.dtype)
        found[places] = values[real]
        return found

    def slotted(values: np.ndarray) -> np.ndarray:
        found = np.zeros((shape[0], max_examples, *values.shape[1:]), values.dtype)
        found[rows, slots] = values
        return found

    positions = np.arange(real.shape[1], dtype=np.int32)
    numbers = 1 + slots.astype(np.int32)
    packed_x = {
        TOKEN_IDS: laid(x[TOKEN_IDS], pad_id),
        POSITION_IDS: laid(np.broadcast_to(positions, real.shape)),
        EXAMPLE_IDS: laid(np.broadcast_to(numbers[:, None], real.shape)),
        FIRST_POSITIONS: slotted(starts),
    }
    if SEGMENT_IDS in x:
        packed_x[SEGMENT_IDS] = laid(x[SEGMENT_IDS])
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
        elif name in token_names:
            packed_y[name], packed_weights[name] = laid(values), share * laid(weights[name])
        else:
            packed_y[name], packed_weights[name] = slotted(values), slotted(weights[name])
    return packed_x, packed_y, packed_weights


def _masks(*columns: np.ndarray, rows: np.ndarray, shape: tuple[int, int]) -> list[np.ndarray]:
    """Columns of masked tokens, the last of which is 0 in unused slots, without these, by row."""
    used = columns[-1] > 0
    row = rows[np.nonzero(used)[0]]
    slots = row, np.arange(len(row)) - np.searchsorted(row, row)
    found = [np.zeros(shape, values.dtype) for values in columns]
    for each, values in zip(found, columns, strict=True):
        each[slots] = values[used]
    return found


# === Batches of an epoch ===


_EPOCHS_KEPT = 2  # workers may still build the end of one epoch when the next has begun
_TIMES_THE_MEAN = 3  # examples of a row at most, where nobody says


class Packable(Protocol):
    """Examples that can share rows: `SupervisedExamples`, `PretrainingExamples`."""

    @property
    def seed(self) -> int | None:
        """Of the order of rows; None keeps that of the examples."""
        ...

    @property
    def pad_id(self) -> int:
        """Token id of padding, which fills the rest of a row."""
        ...

    @property
    def token_names(self) -> tuple[str, ...]:
        """The labels that lie as the tokens do; the others are of whole examples."""
        ...

    def drawn(self, epoch: int) -> np.ndarray:
        """The numbers of the examples of an epoch, in its order."""
        ...

    def lengths_of(self, epoch: int) -> np.ndarray:
        """Tokens of the examples of an epoch, by their numbers."""
        ...

    def most_predictions(self, tokens: int, examples: int) -> int:
        """Masked tokens at most among so many tokens, of so many examples."""
        ...

    def batch_of(self, epoch: int, examples: np.ndarray) -> Batch:
        """The examples with these numbers, each in a row of its own."""
        ...


class _Epoch(NamedTuple):
    examples: np.ndarray  # their numbers, row by row
    bounds: np.ndarray  # where each row begins among them, and the end: [rows + 1]


class PackedExamples:
    """Rows of several examples, for `task.packed()`. Safe to read from several threads.

    An epoch has every example once. Which share a row is drawn anew in each epoch, among examples
    of the same lengths, and so is the order of the rows. All batches have the same shapes: the last
    one of an epoch may have empty rows at its end.

    Args:
        examples: what is packed; of these only the order, and not the batches, counts.
        sequence_length: tokens of a row.
        batch_size: rows of a batch, which is about batch_size * sequence_length / (mean length)
            examples.
        max_examples: examples of a row at most; None: three times what a row holds in the mean.

    Raises:
        ValueError: an argument is out of range, an example is longer than a row, or of more rows.
    """

    fixed_shapes = True

    def __init__(
        self,
        examples: Packable,
        *,
        sequence_length: int = 128,
        batch_size: int = 8,
        max_examples: int | None = None,
    ):
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1. Received: batch_size={batch_size}")
        self.examples, self.sequence_length = examples, sequence_length
        self.batch_size = batch_size
        if max_examples is None:
            mean = float(np.mean(examples.lengths_of(0)))
            max_examples = math.ceil(_TIMES_THE_MEAN * sequence_length / mean)
        self.max_examples = max_examples
        self._epochs: dict[int, _Epoch] = {}
        self._lock = threading.Lock()
        self._epoch(0)  # what is out of range is said at once

    def num_batches(self, epoch: int = 0) -> int:
        """Batches in an epoch."""
        return -(-self.num_rows(epoch) // self.batch_size)

    def num_rows(self, epoch: int = 0) -> int:
        """Rows in an epoch, without the empty ones."""
        return len(self._epoch(epoch).bounds) - 1

    def locate(self, epoch: int, position: int, steps: int) -> tuple[int, int]:
        """The (epoch, position) that is `steps` >= 0 batches later."""
        return later(self.num_batches, epoch, position, steps)

    def batch(self, epoch: int, position: int) -> Batch:
        """One batch: inputs, labels, sample weights.

        Returns:
            x: token_ids, segment_ids (where the examples have them), position_ids, example_ids
                int32 [rows, length]; first_positions int32 [rows, max_examples]; mask_positions
                int32 [rows, predictions] where tokens are masked.
            y: those of the examples: [rows, max_examples, ...]; of tokens, [rows, length]; "mlm"
                [rows, predictions].
            sample_weight: likewise; 0 in unused slots and for padding. Those of tokens count
                rows / examples times, so that a mean over the rows is one over the examples.
        """
        if not 0 <= position < self.num_batches(epoch):
            raise IndexError(
                f"Epoch {epoch} has {self.num_batches(epoch)} batches. Received: {position=}"
            )
        plan, first = self._epoch(epoch), position * self.batch_size
        bounds = plan.bounds[first : first + self.batch_size + 1]
        examples = plan.examples[bounds[0] : bounds[-1]]
        rows = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
        most = self.examples.most_predictions(self.sequence_length, self.max_examples)
        return pack_batch(
            self.examples.batch_of(epoch, examples),
            rows,
            shape=(self.batch_size, self.sequence_length),
            max_examples=self.max_examples,
            max_predictions=most,
            pad_id=self.examples.pad_id,
            token_names=self.examples.token_names,
        )

    def statistics(self, epoch: int = 0) -> dict[str, float]:
        """Batches, rows, tokens and the share of padding in an epoch."""
        tokens, batches = int(self.examples.lengths_of(epoch).sum()), self.num_batches(epoch)
        places = batches * self.batch_size * self.sequence_length
        return {
            "batches": batches,
            "rows": self.num_rows(epoch),
            "tokens": tokens,
            "padding_share": 1 - tokens / places,
        }

    def _epoch(self, epoch: int) -> _Epoch:
        with self._lock:
            plan = self._epochs.pop(epoch, None)
            if plan is None:
                plan = self._plan(epoch)
            self._epochs[epoch] = plan
            while len(self._epochs) > _EPOCHS_KEPT:
                del self._epochs[next(iter(self._epochs))]
            return plan

    def _plan(self, epoch: int) -> _Epoch:
        source = self.examples
        examples = source.drawn(epoch)
        lengths = source.lengths_of(epoch)[examples]
        rows = fill_rows(lengths, self.sequence_length, self.max_examples)
        if source.seed is None:
            _, keys = np.unique(rows, return_index=True)  # by the first example of each
        else:
            keys = Draws(source.seed, epoch).keys(Stream.ROWS, int(rows.max()) + 1)
        turns = np.empty(len(keys), np.int64)
        turns[np.argsort(keys, kind="stable")] = np.arange(len(keys))
        bounds = np.cumsum(np.bincount(turns[rows]))
        return _Epoch(
            examples[np.argsort(turns[rows], kind="stable")], np.concatenate([[0], bounds])
        )
