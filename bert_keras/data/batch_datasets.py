"""Indexable batches as `tf.data.Dataset` or `keras.utils.PyDataset`, identical in both.

Both compute batch i from i alone. Workers, reading ahead, Keras's shuffling of indices and a reader
that begins again (as Keras does to build a model) cannot change what is read.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np

from bert_keras.data.passes import Passes

Batch = tuple[dict[str, np.ndarray], dict[str, np.ndarray], dict[str, np.ndarray]]


class Examples(Protocol):
    """Source of batches by epoch and position.

    Attributes:
        fixed_shapes: whether all batches have the shapes of the first.
    """

    fixed_shapes: bool

    def num_batches(self, epoch: int) -> int:
        """Return the number of batches in an epoch."""
        ...

    def locate(self, epoch: int, position: int, steps: int) -> tuple[int, int]:
        """Return the (epoch, position) that is so many batches later."""
        ...

    def batch(self, epoch: int, position: int) -> Batch:
        """Return one batch: inputs, labels, sample weights."""
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


def dataset(
    examples: Examples,
    *,
    repeat: bool = False,
    epoch: int = 0,
    position: int = 0,
    steps: int | None = None,
    workers: int = 1,
) -> Any:
    """Return the batches of examples for `fit`, `evaluate` and `predict`.

    The dataset is finite: `len(dataset)` is the number of batches in the epoch. Each call of `fit`,
    `evaluate` or `predict` begins with the first batch, so that two evaluations are equal. Further
    epochs of one `fit` are the next epochs of the examples, in their own order, whatever `shuffle`
    says. A loop over the dataset in Python is one pass; the next loop is the next epoch.

    Keras reads the length once, at the start of `fit`. Where epochs differ in length (pretraining
    and packed examples), an epoch of `fit` has the length of the first epoch. It begins where the
    last one ended, so no batch is left out or read twice.

    To go on with a training, name the epoch twice: `fit(dataset(examples, epoch=2),
    initial_epoch=2, epochs=5)`; `fit` of our models warns where the two differ. Give every reader
    its own dataset, as for training and validation: datasets over the same examples share them and
    cost nothing.

    Args:
        examples: source of the batches.
        repeat: True for an endless dataset without a length, for
            `fit(dataset, steps_per_epoch=..., shuffle=False)`.
        epoch: epoch of the first batch.
        position: number of the first batch within its epoch.
        steps: length of the dataset in batches; every pass reads the same ones. None: the length of
            the epoch.
        workers: number of batches that are built at a time, ahead of the reader.

    Returns:
        A `tf.data.Dataset` on TensorFlow, otherwise a `keras.utils.PyDataset`. Keras turns a
        `PyDataset` into a `tf.data.Dataset` with automatic tuning, and at the end of `fit`
        TensorFlow 2.21 often waits for the tuning thread.

    Raises:
        DataError: the examples of the epoch do not fill a batch.
        ValueError: an endless dataset with a length.
    """
    import keras

    is_tensorflow = keras.backend.backend() == "tensorflow"
    make = tf_dataset if is_tensorflow else py_dataset
    return make(
        examples, repeat=repeat, epoch=epoch, position=position, steps=steps, workers=workers
    )


def tf_dataset(
    examples: Examples,
    *,
    repeat: bool = False,
    epoch: int = 0,
    position: int = 0,
    steps: int | None = None,
    workers: int = 1,
) -> Any:
    """Return a `tf.data.Dataset` of (x, y, sample_weight). Needs TensorFlow.

    See `dataset` for the arguments. What `map`, `prefetch` and `with_options` return is read in the
    same way. After other transformations, as `take`, every pass is the next epoch, also in
    `evaluate`. `fit` of a model that is not ours warns of `shuffle`: Keras does so with every
    `tf.data.Dataset`, and the order stays as it is.
    """
    import tensorflow as tf

    passes = _passes(examples, repeat, epoch, steps)
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

    numbers = tf.data.Dataset.counter() if passes is None else _numbers(passes)
    options = tf.data.Options()
    # Nothing here is left to tune, and whoever drops an iterator that is tuned waits for the
    # tuner's thread, which may sleep for a minute (seen with TensorFlow 2.21).
    options.autotune.enabled = False
    if workers:
        dataset = numbers.map(load, num_parallel_calls=workers, deterministic=True)
        dataset = dataset.prefetch(workers + 1)
    else:
        dataset = numbers.map(load)
    dataset = dataset.with_options(options)
    return _in_passes(dataset, passes)


def py_dataset(
    examples: Examples,
    *,
    repeat: bool = False,
    epoch: int = 0,
    position: int = 0,
    steps: int | None = None,
    workers: int = 1,
) -> Any:
    """Return a `keras.utils.PyDataset` of the same batches, for any backend.

    See `dataset` for the arguments; `workers` are threads, and 0 builds each batch when it is
    needed. `dataset[i]` is batch i of the first pass. Only while Keras reads, between
    `on_epoch_begin` and `on_epoch_end`, it is the next batch in order, whatever the index: Keras
    shuffles the indices of a finite dataset by the global `random`.
    """
    passes = _passes(examples, repeat, epoch, steps)
    read: Callable[[int], Batch] = _Numbered(examples, epoch, position)
    if workers:
        read = _Ahead(read, workers, passes.length if passes else None)
    endless, finite = _batches_classes()
    return endless(read) if passes is None else finite(read, passes)


def _passes(examples: Examples, repeat: bool, epoch: int, steps: int | None) -> Passes | None:
    """The passes over a dataset; None where it is endless."""
    if repeat:
        if steps is not None:
            raise ValueError(
                f"An endless dataset has no length. Received: repeat=True, {steps=}. "
                "Leave one of them out."
            )
        return None
    if steps is None:
        return Passes(examples.num_batches(epoch), epoch=epoch)
    if steps < 1:
        raise ValueError(f"steps must be at least 1. Received: {steps=}")
    return Passes(steps, epoch=None)


def _numbers(passes: Passes) -> Any:
    """The numbers of the batches of one pass, as a `tf.data.Dataset`."""
    import tensorflow as tf

    def start():
        return np.int64(passes.start())

    def numbers(_):
        first = tf.ensure_shape(tf.numpy_function(start, [], tf.int64), [])
        return tf.data.Dataset.range(first, first + passes.length)

    # The pass starts when an iterator is first read, not when it is created: at the end of each
    # epoch Keras creates one that it never reads.
    dataset = tf.data.Dataset.range(1).flat_map(numbers)
    return dataset.apply(tf.data.experimental.assert_cardinality(passes.length))


def _in_passes(dataset: Any, passes: Passes | None) -> Any:
    """Return a `tf.data.Dataset` that hears Keras begin a call."""
    # TensorFlow has no public base class for datasets, so the class of this object is extended.
    dataset.__class__ = _tensorflow_class(type(dataset))
    dataset.passes = passes
    return dataset


@functools.cache
def _tensorflow_class(base: Any) -> Any:
    class Batches(base):
        has_own_order = True  # `DirectModel.fit` reads this and `passes`
        passes: Passes | None = None

        def map(self, *arguments: Any, **options: Any):
            return _in_passes(super().map(*arguments, **options), self.passes)

        def prefetch(self, *arguments: Any, **options: Any):
            return _in_passes(super().prefetch(*arguments, **options), self.passes)

        def with_options(self, *arguments: Any, **options: Any):
            return _in_passes(super().with_options(*arguments, **options), self.passes)

        def cardinality(self):
            # Keras asks when it creates a reader and when it resets one, and at no other time.
            if self.passes is not None:
                self.passes.announce()
            return super().cardinality()

        def __len__(self) -> int:  # no sign of a reader, unlike TensorFlow's, which is above
            if self.passes is None:
                raise TypeError(_NO_LENGTH)
            return self.passes.length

    return Batches


_NO_LENGTH = "A dataset with repeat=True is endless. Pass steps_per_epoch to `fit`."


@functools.cache
def _batches_classes() -> tuple[Any, Any]:
    # One class for all: a class refers to itself, so that a dataset with one of its own, and its
    # threads, would live until the next collection.
    import keras

    class EndlessBatches(keras.utils.PyDataset):
        has_own_order = True
        passes = None

        # Keras's own workers stay unused: with them it reads batches of a first, abandoned pass
        # again (OrderedEnqueuer.stop keeps what it drained).

        def __init__(self, read: Callable[[int], Batch]):
            super().__init__()
            self._read = read

        @property
        def num_batches(self) -> int | None:
            return None

        def __len__(self) -> int:
            raise TypeError(_NO_LENGTH)

        def __getitem__(self, index: int) -> Batch:
            return self._read(index)

    class Batches(keras.utils.PyDataset):
        has_own_order = True

        def __init__(self, read: Callable[[int], Batch], passes: Passes):
            super().__init__()
            self._read, self.passes = read, passes
            self._is_new = False  # Keras created a reader that it has not reset yet
            self._is_reading = False  # between on_epoch_begin and on_epoch_end
            self._number = self._left = 0  # of the next batch; of batches to the end of the pass
            self._lock = threading.Lock()

        @property
        def workers(self) -> int:
            # Keras reads this when it creates a reader, and at no other time.
            self._begin_again(self.passes.announce)
            self._is_new, self._is_reading = True, False
            return 1

        @workers.setter
        def workers(self, value: int) -> None:
            raise AttributeError(
                f"Keras's workers would change the order. Received: workers={value}. "
                "Pass workers= to bert_keras.data.dataset."
            )

        @property
        def num_batches(self) -> int | None:
            return self.passes.length

        def __len__(self) -> int:
            return self.passes.length

        def __iter__(self) -> Iterator[Batch]:
            first = self.passes.start()
            for number in range(first, first + len(self)):
                yield self._read(number)

        def __getitem__(self, index: int) -> Batch:
            if self._is_reading:
                return self._read(self._next_number())
            if not -len(self) <= index < len(self):
                raise IndexError(f"The dataset has {len(self)} batches. Received: {index=}")
            return self._read(index % len(self))

        def on_epoch_begin(self) -> None:
            self._is_reading = True

        def on_epoch_end(self) -> None:
            if not self._is_reading:  # Keras resets a reader
                self._begin_again(self.passes.announce)
            elif self._is_new and (self._left or len(self) == 1):
                # Keras resets a reader after it built a model from the first batch of a pass.
                # `predict` alone ends its first pass without a reset, and it reads all batches.
                self._begin_again(self.passes.restart)
            self._is_new = self._is_reading = False

        def _begin_again(self, note: Callable[[], None]) -> None:
            with self._lock:
                self._left = 0
                note()

        def _next_number(self) -> int:
            with self._lock:
                if not self._left:
                    self._number, self._left = self.passes.start(), len(self)
                number = self._number
                self._number, self._left = number + 1, self._left - 1
                return number

    return EndlessBatches, Batches


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
    """Thread pool that builds the batches after the one that is read, within the same pass."""

    def __init__(self, build: Callable[[int], Batch], workers: int, length: int | None):
        self._build, self._length, self._depth = build, length, workers + 1
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="batches")
        self._futures: dict[int, Future[Batch]] = {}
        self._lock = threading.Lock()

    def __call__(self, index: int) -> Batch:
        end = index + self._depth + 1
        if self._length is not None:  # to the end of the pass
            end = min(end, index - index % self._length + self._length)
        with self._lock:
            for number in [n for n in self._futures if not index <= n < end]:
                self._futures.pop(number).cancel()
            for number in range(index, end):
                if number not in self._futures:
                    self._futures[number] = self._pool.submit(self._build, number)
            future = self._futures.pop(index)
        return future.result()
