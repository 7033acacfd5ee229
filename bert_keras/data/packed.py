"""Batches whose rows hold several examples each: a pure function of (seed, epoch, position)."""

from __future__ import annotations

import math
import threading
from typing import NamedTuple, Protocol

import numpy as np

from bert_keras.data.bins import fill_rows
from bert_keras.data.feeding import Batch, later
from bert_keras.data.packed_batch import pack_batch
from bert_keras.data.sampling import Draws, Stream

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
        """What rows are filled up with."""
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
