"""Datasets of TensorFlow that are not tuned: so that what is timed is no tuner's sleep.

tf.data tunes datasets in a thread that sleeps twice as long each time, and whoever drops an
iterator often waits until it wakes (TensorFlow 2.21). Rounds that end in between then take 0.63,
1.27, 2.55, 5.11, 10.23 or 20.47 seconds, whatever they compute.
"""

from __future__ import annotations

from typing import Any


def untuned(dataset: Any) -> Any:
    """The same dataset, without the tuner; AUTOTUNE in it is then as many as there are cores."""
    import tensorflow as tf

    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


def batches(parts: Any, size: int) -> Any:
    """Arrays as such a dataset of batches, as Keras and KerasHub make one of arrays for TensorFlow.

    Args:
        parts: a structure of arrays: rows, or tuples of inputs, labels and weights.
        size: rows of a batch.
    """
    import tensorflow as tf

    rows = tf.data.Dataset.from_tensor_slices(parts)
    return untuned(rows.batch(size).prefetch(2))
