"""Batches that are numbered for ever, as tf.data.Dataset or keras.utils.PyDataset: the same ones.

Both compute batch i from i alone, so neither workers, nor reading ahead, nor a reader that begins
again (as Keras does to build a model) can change what is read.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np

Batch = tuple[dict[str, np.ndarray], dict[str, np.ndarray], dict[str, np.ndarray]]


class Examples(Protocol):
    """What batches are read from, by epoch and position.

    Attributes:
        fixed_shapes: whether all batches have the shapes of the first.
    """

    fixed_shapes: bool

    def locate(self, epoch: int, position: int, steps: int) -> tuple[int, int]:
        """The (epoch, position) that is so many batches later."""
        ...

    def batch(self, epoch: int, position: int) -> Batch:
        """One batch: inputs, labels, sample weights."""
        ...


def later(
    num_batches: Callable[[int], int], epoch: int, position: int, steps: int
) -> tuple[int, int]:
    """The (epoch, position) that is `steps` >= 0 batches later, where epochs differ in length."""
    if min(epoch, position, steps) < 0:
        raise ValueError(f"Negative. Received: {epoch=}, {position=}, {steps=}")
    position += steps
    while position >= num_batches(epoch):
        position -= num_batches(epoch)
        epoch += 1
    return epoch, position


def dataset(examples: Examples, **where: Any) -> Any:
    """The batches as the backend reads them best: `tf_dataset` on TensorFlow, else `py_dataset`.

    Of a `PyDataset` Keras makes a dataset for TensorFlow that is tuned, and at the end of `fit`
    TensorFlow 2.21 often waits for the tuner's thread.

    Args:
        examples: what is read.
        where: `epoch`, `position`, `steps` and `workers`, the same for both.
    """
    import keras

    if keras.backend.backend() == "tensorflow":
        return tf_dataset(examples, **where)
    return py_dataset(examples, **where)


def tf_dataset(
    examples: Examples,
    *,
    epoch: int = 0,
    position: int = 0,
    steps: int | None = None,
    workers: int = 1,
) -> Any:
    """A `tf.data.Dataset` of (x, y, sample_weight). Needs TensorFlow.

    Args:
        examples: what is read.
        epoch: where reading begins,
        position: and the batch of that epoch.
        steps: number of batches, the same in every pass: to evaluate on. None: endless; train by
            `fit(dataset, steps_per_epoch=..., epochs=..., shuffle=False)`.
        workers: batches built at a time.
    """
    import tensorflow as tf

    batches = _Numbered(examples, epoch, position)
    template = batches(0)
    leaves = tf.nest.flatten(template)

    def build(index):
        return tf.nest.flatten(batches(int(index)))

    def load(index):
        tensors = tf.numpy_function(build, [index], [leaf.dtype for leaf in leaves])
        for tensor, leaf in zip(tensors, leaves, strict=True):
            tensor.set_shape(leaf.shape if examples.fixed_shapes else [None] * leaf.ndim)
        return tf.nest.pack_sequence_as(template, tensors)

    numbers = tf.data.Dataset.counter()
    if steps is not None:
        numbers = numbers.take(steps)
    options = tf.data.Options()
    # Nothing here is left to tune, and whoever drops an iterator that is tuned waits for the
    # tuner's thread, which may sleep for a minute (seen with TensorFlow 2.21).
    options.autotune.enabled = False
    dataset = numbers.map(load, num_parallel_calls=workers, deterministic=True)
    return dataset.prefetch(workers + 1).with_options(options)


def py_dataset(
    examples: Examples,
    *,
    epoch: int = 0,
    position: int = 0,
    steps: int | None = None,
    workers: int = 1,
) -> Any:
    """A `keras.utils.PyDataset` of the same batches, for any backend.

    Endless by default, like `tf_dataset` and for the same call of `fit`: Keras calls
    `on_epoch_end` also before the first epoch, so a dataset that moves on there would skip batches;
    and it shuffles one that has an end.

    Args:
        examples: what is read.
        epoch: where reading begins,
        position: and the batch of that epoch.
        steps: number of batches, the same in every pass: to evaluate on. None: endless.
        workers: threads that build batches ahead of the reader; 0 builds each when it is asked for.
    """
    build = _Numbered(examples, epoch, position)
    return _batches_class()(_Ahead(build, workers, steps) if workers else build, steps)


@functools.cache
def _batches_class() -> Any:
    # One class for all: a class refers to itself, so that a dataset with one of its own, and its
    # threads, would live until the next collection.
    import keras

    class Batches(keras.utils.PyDataset):
        # Keras's own workers stay unused: with them it reads batches of a first, abandoned pass
        # again (OrderedEnqueuer.stop keeps what it drained).

        def __init__(self, read: Callable[[int], Batch], steps: int | None):
            super().__init__()
            self._read, self._steps = read, steps

        @property
        def num_batches(self) -> int | None:
            return self._steps

        def __len__(self) -> int:
            if self._steps is None:
                raise TypeError("An endless dataset has no length: give fit steps_per_epoch.")
            return self._steps

        def __getitem__(self, index: int) -> Batch:
            return self._read(index)

    return Batches


class _Numbered:
    """Batch number i, counted from (epoch, position)."""

    def __init__(self, examples: Examples, epoch: int, position: int):
        self._examples = examples
        self._origin = self._mark = (0, epoch, position)

    def __call__(self, index: int) -> Batch:
        # The mark, where the latest epoch begins, only saves counting all epochs again.
        mark = self._mark  # read once: another worker may move it
        if index < mark[0]:
            mark = self._origin
        epoch, position = self._examples.locate(mark[1], mark[2], index - mark[0])
        if epoch > mark[1]:
            self._mark = (index - position, epoch, 0)
        return self._examples.batch(epoch, position)


class _Ahead:
    """Builds the batches after the one that is read in threads."""

    def __init__(self, build: _Numbered, workers: int, steps: int | None):
        self._build, self._steps, self._depth = build, steps, workers + 1
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="batches")
        self._futures: dict[int, Future[Batch]] = {}
        self._lock = threading.Lock()

    def __call__(self, index: int) -> Batch:
        end = index + self._depth + 1
        if self._steps is not None:
            end = min(end, self._steps)
        with self._lock:
            for number in [n for n in self._futures if not index <= n < end]:
                self._futures.pop(number).cancel()
            for number in range(index, end):
                if number not in self._futures:
                    self._futures[number] = self._pool.submit(self._build, number)
            future = self._futures.pop(index)
        return future.result()
