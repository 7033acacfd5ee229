"""`class_weight` of `fit` for features: Keras takes none where labels are a dictionary."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import GeneratorType
from typing import Any, NamedTuple

import keras
import numpy as np

from bert_keras import features
from bert_keras.models.data_checks import MappedDataset, is_a, mapped_loader
from bert_keras.models.text_targets import weights_by_name


def weighed(
    x: Any, y: Any, sample_weight: Any, class_weight: Mapping[Any, float], labels: Sequence[str]
) -> tuple[Any, Any]:
    """Return data of `fit` whose sample weights are those of the classes as well.

    Args:
        x: arrays, a `tf.data.Dataset`, `PyDataset`, PyTorch `DataLoader` or generator of (x, y) or
            (x, y, sample_weight).
        y: labels of arrays: class indices, or {"label": class indices}.
        sample_weight: weights of arrays, in the form of `y`; None for 1.
        class_weight: weight of each class, by name or index; 1 for the others.
        labels: names of the classes.

    Returns:
        `x` and `sample_weight` for `fit`.

    Raises:
        ValueError: an unknown class, labels that are no indices, or another kind of data.
    """
    indices = {index: index for index in range(len(labels))}
    by_name = weights_by_name(class_weight, labels, indices) or {}
    table = np.array([by_name.get(name, 1.0) for name in labels], np.float32)
    arrays = _Weights(lambda indices: table[np.asarray(indices)], _as_array)
    if y is not None:
        return x, arrays.of(y, sample_weight)
    if isinstance(x, keras.utils.PyDataset):
        return MappedDataset(x, arrays.batch), None
    if isinstance(x, GeneratorType):
        return (arrays.batch(batch) for batch in x), None
    if is_a("torch.utils.data", "DataLoader", x):
        return mapped_loader(x, _LoaderWeights(table)), None
    if is_a("tensorflow", "data.Dataset", x):
        import tensorflow

        tensors = _Weights(
            lambda indices: tensorflow.gather(table, indices),
            lambda values: tensorflow.cast(values, "float32"),
        )
        return x.map(lambda *batch: tensors.batch(batch)), None
    raise ValueError(
        "`class_weight` is for arrays, tf.data, PyDataset, DataLoader and generators. Pass sample "
        f"weights. Received: x of {type(x).__name__}"
    )


def _as_array(values: Any) -> np.ndarray:
    return np.asarray(values, np.float32)


class _LoaderWeights:
    """The weights of a PyTorch batch; workers of a `DataLoader` copy it."""

    def __init__(self, table: np.ndarray):
        self._table = table

    def __call__(self, batch: Sequence[Any]) -> tuple[Any, Any, Any]:
        """Return a batch with the weights of its classes."""
        import torch

        table = torch.from_numpy(self._table)
        weights = _Weights(
            lambda indices: table[torch.as_tensor(indices).long()],
            lambda values: torch.as_tensor(values, dtype=torch.float32),
        )
        return weights.batch(batch)


class _Weights(NamedTuple):
    """Sample weights of batches, by the functions of a library."""

    gather: Callable[[Any], Any]  # weights of class indices
    cast: Callable[[Any], Any]  # to float32

    def batch(self, batch: Sequence[Any]) -> tuple[Any, Any, Any]:
        """Return a batch with the weights of its classes."""
        x, y, *rest = batch
        return x, y, self.of(y, rest[0] if rest else None)

    def of(self, y: Any, sample_weight: Any) -> Any:
        """Return the sample weights of labels, in the form of the labels."""
        indices = y.get(features.LABEL) if isinstance(y, Mapping) else y
        if isinstance(indices, list | tuple):
            indices = np.asarray(indices)
        if indices is None or not _are_indices(indices):
            raise ValueError(
                "`class_weight` needs labels that are class indices, int [batch] or [batch, 1]. "
                "Pass sample weights instead."
            )
        if len(indices.shape) == 2:
            indices = indices[:, 0]
        is_named = isinstance(sample_weight, Mapping)
        given = sample_weight.get(features.LABEL) if is_named else sample_weight
        product = self.gather(indices)
        if given is not None:
            product = product * self.cast(given)
        if not isinstance(y, Mapping):
            return product
        return {**(sample_weight if is_named else {}), features.LABEL: product}


def _are_indices(values: Any) -> bool:
    shape = values.shape
    dtype = getattr(values.dtype, "name", values.dtype)
    return "int" in str(dtype) and (len(shape) == 1 or (len(shape) == 2 and shape[1] == 1))
