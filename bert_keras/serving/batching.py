"""Dynamic batching: rows of several requests run through the model together."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from bert_keras.serving.signatures import Columns, Outputs, Signature, joined_rows, without_padding

_SHORTEST = 5  # the shortest length bucket, which has all texts below 2**5 characters
# Maximum number of characters in a batch. A batch of long texts is small, so that a request with
# many of them can be cancelled between two batches.
_MOST_CHARACTERS = 2**18


class QueueFullError(RuntimeError):
    """The queue of a model has no room for more rows.

    Attributes:
        retry_after: seconds after which the queue is expected to have room.
    """

    def __init__(self, message: str, retry_after: int):
        super().__init__(message)
        self.retry_after = retry_after


class ClosedError(RuntimeError):
    """The model was unloaded before the request ran, or the server stops."""


@dataclass
class Job:
    """One request: its inputs, and the results of its rows so far.

    Attributes:
        signature: signature to run.
        columns: input name -> values of all rows.
        count: number of rows. If the signature has no text rows, the whole request is one row.
        future: outputs of all rows, or the error.
        results: outputs of each row; None for rows that did not run yet.
        waiting: number of rows that did not run yet.
    """

    signature: Signature
    columns: Columns
    count: int
    future: Future[Outputs] = field(default_factory=Future[Outputs])
    results: list[Any] = field(default_factory=list[Any])
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class _Row:
    """A row that waits in the queue.

    Attributes:
        job: request that the row belongs to.
        index: index of the row in the request.
        bucket: length bucket; see `_buckets`.
        arrival: time at which the request arrived, in seconds of `time.monotonic`.
    """

    job: Job
    index: int
    bucket: int
    arrival: float


class Batcher:
    """A queue of rows and a thread that runs them through one model.

    A batch has the oldest row, and rows of the same signature in the same length bucket. An idle
    thread runs a batch at once. After a batch, the thread waits for more rows until the next batch
    is full or the oldest row has waited `max_wait` seconds.

    Args:
        name: name of the model, for messages and the thread.
        max_batch: maximum number of rows in a batch.
        max_wait: maximum time in seconds that a row waits for other rows.
        max_queue: maximum number of waiting rows. A larger request runs if no other row waits.
        pad_id: id that fills the end of shorter rows of token ids.
        report: function that is called after every batch with (rows, seconds).
    """

    def __init__(
        self,
        name: str,
        *,
        max_batch: int = 32,
        max_wait: float = 0.002,
        max_queue: int = 2048,
        pad_id: int = 0,
        report: Callable[[int, float], None] | None = None,
    ):
        self.name, self.max_batch, self.max_wait = name, max_batch, max_wait
        self.max_queue, self._pad_id, self._report = max_queue, pad_id, report
        self._rows: deque[_Row] = deque()
        self._changed = threading.Condition()
        self._is_closed = False
        # Decaying sums over the batches, from which `submit` computes `retry_after`.
        self._recent_seconds, self._recent_rows = 0.0, 0.0
        self._thread = threading.Thread(target=self._work, name=f"model {name}", daemon=True)
        self._thread.start()

    def __len__(self) -> int:
        return len(self._rows)

    def submit(self, signature: Signature, columns: Columns, count: int) -> Job:
        """Put the rows of a request into the queue.

        Args:
            signature: signature to run.
            columns: input name -> values of the rows.
            count: number of rows.

        Returns:
            The job, whose `future` gets the outputs.

        Raises:
            QueueFullError: if the queue has no room.
            ClosedError: if the batcher is closed.
        """
        rows = count if signature.has_text_rows else 1
        job = Job(signature, columns, rows, results=[None] * rows, waiting=rows)
        now = time.monotonic()
        buckets = _buckets(columns, rows) if signature.has_text_rows else [0]
        with self._changed:
            if self._is_closed:
                raise ClosedError(f"the model {self.name} is not loaded any more")
            if self._rows and len(self._rows) + rows > self.max_queue:
                seconds = self._seconds_to_empty()
                raise QueueFullError(
                    f"The queue of {self.name} is full: {len(self._rows)} rows wait. Repeat the "
                    f"request after {seconds} s.",
                    seconds,
                )
            self._rows.extend(_Row(job, index, bucket, now) for index, bucket in enumerate(buckets))
            self._changed.notify()
        return job

    def _seconds_to_empty(self) -> int:
        """Return the expected time in whole seconds until the waiting rows have run."""
        rows = self._recent_rows
        seconds_per_row = self._recent_seconds / rows if rows else 0.01
        return max(1, round(len(self._rows) * seconds_per_row))

    def close(self, timeout: float | None = None) -> None:
        """Run the waiting rows, refuse new ones, and end the thread.

        Args:
            timeout: maximum time to wait for the thread, in seconds; None for no limit.
        """
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join(timeout)

    # === The thread ===

    def _work(self) -> None:
        """Take and run batches until the batcher is closed and the queue is empty."""
        was_idle = True
        while True:
            with self._changed:
                while not self._rows:
                    if self._is_closed:
                        return
                    was_idle = True
                    self._changed.wait()
                if not was_idle:
                    self._wait_for_more()
                batch = self._take()
            was_idle = False
            if batch:
                self._run(batch)

    def _wait_for_more(self) -> None:
        """Wait until the batch is full or the oldest row has waited long enough."""
        until = self._rows[0].arrival + self.max_wait
        while len(self._rows) < self.max_batch and not self._is_closed:
            seconds = until - time.monotonic()
            if seconds <= 0 or not self._changed.wait(seconds):
                return

    def _take(self) -> list[_Row]:
        """Remove the rows of the next batch from the queue, and return them.

        Rows of requests that were cancelled or have failed are dropped.
        """
        batch: list[_Row] = []
        others: deque[_Row] = deque()
        max_rows = self.max_batch
        while self._rows and len(batch) < max_rows:
            row = self._rows.popleft()
            if row.job.future.done():
                continue
            if not batch:
                batch.append(row)
                max_rows = max(1, min(self.max_batch, _MOST_CHARACTERS >> row.bucket))
            elif _run_together(batch[0], row):
                batch.append(row)
            else:
                others.append(row)
        self._rows.extendleft(reversed(others))
        return batch

    def _run(self, batch: list[_Row]) -> None:
        """Run rows, and give each job that is complete its outputs."""
        start = time.monotonic()
        try:
            rows = self._outputs(batch)
            seconds = time.monotonic() - start
            if self._report is not None:
                self._report(len(batch), seconds)
        except Exception as error:
            self._fail(batch, error)
            return
        self._recent_seconds = 0.9 * self._recent_seconds + seconds
        self._recent_rows = 0.9 * self._recent_rows + len(batch)
        for row, outputs in zip(batch, rows, strict=True):
            job = row.job
            job.results[row.index] = outputs
            job.waiting -= 1
            if not job.waiting and job.future.set_running_or_notify_cancel():
                self._finish(job)

    def _finish(self, job: Job) -> None:
        """Give a job its outputs. An error fails the job, and the thread goes on."""
        has_rows = job.signature.has_text_rows
        try:
            result = joined_rows(job.results, self._pad_id) if has_rows else job.results[0]
        except Exception as error:
            job.future.set_exception(error)
        else:
            job.future.set_result(result)

    def _outputs(self, batch: Sequence[_Row]) -> list[Any]:
        """Run a batch through the model; return the outputs of each row, without padding."""
        job = batch[0].job
        signature = job.signature
        if not signature.has_text_rows:
            return [signature.run(job.columns)]
        columns = {
            name: [row.job.columns[name][row.index] for row in batch] for name in signature.inputs
        }
        outputs = signature.run(columns)
        return [
            without_padding({name: values[index] for name, values in outputs.items()})
            for index in range(len(batch))
        ]

    def _fail(self, batch: list[_Row], error: Exception) -> None:
        """Fail the request of a batch. In a batch of several, run each request separately first."""
        jobs = {id(row.job): row.job for row in batch}
        if len(jobs) > 1:
            for key in jobs:
                self._run([row for row in batch if id(row.job) == key])
            return
        future = batch[0].job.future
        if not future.done() and future.set_running_or_notify_cancel():
            future.set_exception(error)


def _run_together(first: _Row, other: _Row) -> bool:
    """Return whether two rows may be in one batch."""
    signature = first.job.signature
    return (
        signature.has_text_rows
        and other.job.signature is signature
        and other.bucket == first.bucket
    )


def _buckets(columns: Columns, count: int) -> list[int]:
    """Return the length bucket of each row: b for a length from 2**(b - 1) to 2**b - 1."""
    lengths = [0] * count
    for values in columns.values():
        for index, value in enumerate(values):
            lengths[index] += _length(value)
    return [max(_SHORTEST, length.bit_length()) for length in lengths]


def _length(value: Any) -> int:
    """Return the number of characters of a text, or of all texts of a list."""
    if isinstance(value, str | bytes):
        return len(value)
    return sum(map(_length, value))
