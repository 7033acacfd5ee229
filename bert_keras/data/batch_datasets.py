"""Indexable batches as `tf.data.Dataset` or `keras.utils.PyDataset`, identical in both.

Both compute batch i from i alone. The batches do not depend on workers, on reading ahead or on
Keras's shuffling of indices, even if Keras reads from the start again to build a model.

A finite dataset is an endless sequence of batches, cut into passes of equal length. Keras reads the
length once, at the start of `fit`, so the length cannot follow epochs that differ.
"""

# The datasets of Keras and TensorFlow have no complete types.
# pyright: basic

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bert_keras.data.batches import Batch, BatchSequence, Examples, ReadAhead


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
    epochs of one `fit` are the next epochs of the examples, in the order of the examples, even with
    `shuffle=True`. A loop over the dataset in Python is one pass; the next loop is the next epoch.

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

    See `dataset` for the arguments. The results of `map`, `prefetch` and `with_options` are read in
    the same way. After other transformations, as `take`, every pass is the next epoch, also in
    `evaluate`. `fit` of a plain Keras model warns of `shuffle`, as with every `tf.data.Dataset`.
    The order stays the same.
    """
    import tensorflow as tf

    passes = _passes(examples, repeat, epoch, steps)
    batches = BatchSequence(examples, epoch, position)
    template = batches(0)
    leaves = tf.nest.flatten(template)

    def build(index):
        """Return the arrays of batch `index`, an int64 scalar, in a flat list."""
        return tf.nest.flatten(batches(int(index)))

    def load(index):
        """Return batch `index`, an int64 scalar, as tensors in the structure of a batch."""
        tensors = tf.numpy_function(build, [index], [leaf.dtype for leaf in leaves])
        for tensor, leaf in zip(tensors, leaves, strict=True):
            tensor.set_shape(leaf.shape if examples.fixed_shapes else [None] * leaf.ndim)
        return tf.nest.pack_sequence_as(template, tensors)

    numbers = tf.data.Dataset.counter() if passes is None else _numbers(passes)
    options = tf.data.Options()
    # There is nothing to tune here. Deleting an iterator with tuning waits for the tuning thread,
    # up to a minute (seen with TensorFlow 2.21).
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
    read: Callable[[int], Batch] = BatchSequence(examples, epoch, position)
    if workers:
        read = ReadAhead(read, workers, passes.length if passes else None)
    endless, finite = _batches_classes()
    return endless(read) if passes is None else finite(read, passes)


# === Passes over a finite dataset ===

_NEW_READER = 2  # announcements of `fit` and `evaluate`


class Passes:
    """Number of the first batch of each pass. Safe to use from several threads.

    `fit`, `evaluate` and `predict` all begin with the first batch, so that two evaluations are
    equal and two trainings with one dataset read the same batches. Every further pass of one `fit`,
    or of a loop in Python, continues after the last one.

    Keras does not name a reader, but it announces each pass that begins anew. It creates and resets
    a reader in `fit`, in `evaluate` and in the first validation of a `fit`: two announcements. It
    only creates one in `predict`, and only resets one in each further validation: one announcement.
    So a single announcement keeps the place of a training in progress. Two single announcements,
    each before a pass, come from a reader that built a model from a first batch and was reset.

    Args:
        length: batches of a pass.
        epoch: epoch of the first pass; further passes read later epochs. None: all passes begin
            with the first batch.
    """

    def __init__(self, length: int, *, epoch: int | None = 0):
        self.length = length
        self.epoch = epoch
        self._next = 0  # number of the next pass that continues
        self._announced = 0
        self._announced_last = 0  # announcements before the last pass
        self._lock = threading.Lock()

    def announce(self) -> None:
        """Note that Keras created or reset a reader."""
        with self._lock:
            self._announced += 1

    def restart(self) -> None:
        """Note that the next pass is the first one of a new reader."""
        with self._lock:
            self._announced = _NEW_READER

    def start(self) -> int:
        """Begin a pass; return the number of its first batch."""
        with self._lock:
            announced, self._announced = self._announced, 0
            number = 0 if announced else self._next
            if not announced:
                self._next += 1
            elif announced + self._announced_last < _NEW_READER:
                self._next = max(self._next, 1)
            else:
                self._next = 1
            self._announced_last = announced if announced < _NEW_READER else 0
            return number * self.length if self.epoch is not None else 0


def _passes(examples: Examples, repeat: bool, epoch: int, steps: int | None) -> Passes | None:
    """Return the passes over a dataset; None if it is endless."""
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
    """Return the numbers of the batches of one pass, as a `tf.data.Dataset`."""
    import tensorflow as tf

    def start():
        """Begin a pass, and return the number of its first batch."""
        return np.int64(passes.start())

    def numbers(_):
        """Return the numbers of the batches of a pass that begins when they are read."""
        first = tf.ensure_shape(tf.numpy_function(start, [], tf.int64), [])
        return tf.data.Dataset.range(first, first + passes.length)

    # The pass starts when an iterator is first read, not when it is created: at the end of each
    # epoch Keras creates one that it never reads.
    dataset = tf.data.Dataset.range(1).flat_map(numbers)
    return dataset.apply(tf.data.experimental.assert_cardinality(passes.length))


def _in_passes(dataset: Any, passes: Passes | None) -> Any:
    """Return a `tf.data.Dataset` that notices when Keras begins a call."""
    # TensorFlow has no public base class for datasets, so the class of this object is extended.
    dataset.__class__ = _tensorflow_class(type(dataset))
    dataset.passes = passes
    return dataset


@functools.cache
def _tensorflow_class(base: Any) -> Any:
    """Return a subclass of a dataset class of TensorFlow that announces Keras's readers."""

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
            """Return the number of batches, and announce the next pass."""
            # Keras asks when it creates a reader and when it resets one, and at no other time.
            if self.passes is not None:
                self.passes.announce()
            return super().cardinality()

        def __len__(self) -> int:  # TensorFlow's calls `cardinality`, which announces a reader
            if self.passes is None:
                raise TypeError(_NO_LENGTH)
            return self.passes.length

    return Batches


_NO_LENGTH = "A dataset with repeat=True is endless. Pass steps_per_epoch to `fit`."


@functools.cache
def _batches_classes() -> tuple[Any, Any]:
    """Return the `PyDataset` classes of endless and of finite datasets, once Keras is imported."""
    # All datasets share these classes. A class refers to itself, so a class for each dataset would
    # keep the dataset and its threads alive until the next garbage collection.
    import keras

    class EndlessBatches(keras.utils.PyDataset):
        """Endless batches: batch i, whatever the epoch."""

        has_own_order = True
        passes = None

        # Keras's own workers stay unused: with them it reads batches of an abandoned first pass
        # again, because OrderedEnqueuer.stop keeps the batches in its queue.

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
        """The batches of one pass, of which Keras reads one after another.

        Keras reads a dataset through an object that it creates for `fit`, `evaluate` or `predict`,
        here called a reader. While it reads, its index is ignored.
        """

        has_own_order = True

        def __init__(self, read: Callable[[int], Batch], passes: Passes):
            super().__init__()
            self._read, self.passes = read, passes
            self._is_new = False  # Keras created a reader that it has not reset yet
            self._is_reading = False  # between on_epoch_begin and on_epoch_end
            self._number = self._left = 0  # next batch; batches to the end of the pass
            self._lock = threading.Lock()

        @property
        def workers(self) -> int:
            """The number of Keras's workers: one, which reads the batches in their order."""
            # Keras reads this when it creates a reader, and at no other time.
            self._end_pass(self.passes.announce)
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
            """Keras: begin to read batches one after another."""
            self._is_reading = True

        def on_epoch_end(self) -> None:
            """Keras: stop reading; a reset of a reader ends the pass."""
            if not self._is_reading:  # Keras resets a reader
                self._end_pass(self.passes.announce)
            elif self._is_new and (self._left or len(self) == 1):
                # Keras resets a reader after it built a model from the first batch of a pass.
                # `predict` alone ends its first pass without a reset, and it reads all batches.
                self._end_pass(self.passes.restart)
            self._is_new = self._is_reading = False

        def _end_pass(self, tell_passes: Callable[[], None]) -> None:
            """End the current pass, so that the next read begins a new one.

            Args:
                tell_passes: `passes.announce` or `passes.restart`, by what Keras did.
            """
            with self._lock:
                self._left = 0
                tell_passes()

        def _next_number(self) -> int:
            """Return the number of the next batch, and begin a new pass after the last one."""
            with self._lock:
                if not self._left:
                    self._number, self._left = self.passes.start(), len(self)
                number = self._number
                self._number, self._left = number + 1, self._left - 1
                return number

    return EndlessBatches, Batches
