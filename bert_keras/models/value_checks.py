"""Ranges of ids, lengths and labels, checked on the host before a batch reaches the model.

The backends treat a number that is too large for its table differently. PyTorch raises an
IndexError, TensorFlow names a node of its graph, or clips in compiled programs, and JAX returns
NaN. With these checks every backend raises the same error, which names the input and the place.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np

from bert_keras import features
from bert_keras.layers import BertEmbeddings


class Limit(NamedTuple):
    """Numbers of a batch and the range that they must be in.

    Args:
        name: key of the input, or name of the output for labels.
        values: an array or tensor of any shape; for a length, one number.
        upper: the smallest number that is too large; None where only NaN is refused.
        message: message of the error, with the fields that `_explain` fills in.
        ignored: one more value that is allowed, such as -1 for labels that a loss ignores.
    """

    name: str
    values: Any
    upper: Any
    message: str
    ignored: int | None = None


_TABLE = (
    "{name} has {found} at {place}, but the model's {table} table has {upper} rows: the largest id "
    "is {last}. "
)
_TOKENS = _TABLE.replace("{table}", "token") + (
    "Use the tokenizer that the model was trained with, or after `add_tokens` a model with more "
    "rows: model.resize_vocabulary(tokenizer.vocab_size)."
)
_SEGMENTS = _TABLE.replace("{table}", "segment") + "Number the segments from 0."
_POSITIONS = (
    "{name} has {found} at {place}, but the model has {upper} positions: the last is {last}. "
    "Shorten the examples."
)
_LENGTH = (
    "The model has {last} positions, but the rows of {name} have {found} tokens. "
    "Shorten the texts, as with max_length={last}."
)
_PLACES = (
    "{name} has {found} at {place}, but rows are {upper} tokens long: the last position is {last}. "
    "Count positions from 0 within the row."
)
_CLASSES = (
    "The labels of output {name!r} have {found} at {place}, but the output has {upper} classes: "
    "labels are from 0 to {last}. Correct the label or the model's number of classes. An example "
    "that must not count has the label 0 and the sample weight 0."
)
_NOT_A_NUMBER = (
    "The labels of output {name!r} have {found} at {place}: every weight of the model would become "
    "NaN. Correct the label, or give it the value 0 and the sample weight 0."
)

SizeOf = Callable[[Any, int], Any]


class ValueChecks:
    """The ranges of one model: the sizes of its tables for inputs, of its outputs for labels.

    It keeps these numbers and not the model, because worker processes of a dataset pickle it.

    Args:
        model: a functional model over `BertEmbeddings`.
    """

    def __init__(self, model: keras.Model):
        tables = list(_embeddings_of(model))
        self._rows = min((table.token.input_dim for table in tables), default=None)
        self._positions = min((table.max_positions for table in tables), default=0)
        self._segments = min(
            (table.segment.input_dim for table in tables if table.segment is not None), default=None
        )
        # Rows with `position_ids` may be longer than the examples in them, except where the
        # attention has a table of distances.
        self._reads_positions = not any(table.limits_rows for table in tables)
        inputs: Any = model.input
        tokens = inputs.get(features.TOKEN_IDS) if isinstance(inputs, Mapping) else None
        # Not the last axis: Keras also takes tokens with one more axis, of one element.
        self._length_axis = -1 if tokens is None else len(tokens.shape) - 1
        outputs: Any = model.output
        self._shapes: dict[str, tuple[int | None, ...]] = {}
        if isinstance(outputs, Mapping):
            self._shapes = {
                name: tuple(tensor.shape)
                for name, tensor in outputs.items()
                if hasattr(tensor, "shape")  # hidden states are a tuple of tensors
            }
        self._classes: dict[str, tuple[Any, int | None]] = {}

    def with_losses(self, losses: Any) -> ValueChecks:
        """Return a copy of these checks that also checks labels.

        Args:
            losses: as `compile` takes them; they decide which labels are class indices.
        """
        checks = copy.copy(self)
        checks._classes = {}
        for name, loss in _by_output(losses, list(self._shapes)).items():
            classes = label_classes(loss, self._shapes[name])
            if classes is not None or isinstance(loss, _OF_NUMBERS):
                checks._classes[name] = classes, getattr(loss, "ignore_class", None)
        return checks

    def limits(self, x: Mapping[str, Any], y: Any, size_of: SizeOf) -> Iterator[Limit]:
        """Yield the numbers of one batch with the ranges that they must be in.

        Args:
            x: inputs by name.
            y: labels as Keras takes them, or None.
            size_of: returns the size of an axis of a tensor; in a TensorFlow graph a tensor.
        """
        if self._rows is None or features.TOKEN_IDS not in x:
            return
        tokens = x[features.TOKEN_IDS]
        if isinstance(tokens, tuple):  # texts that are padded apart, without labels to check
            for place in range(len(tokens)):
                yield from self.limits(
                    {name: each[place] for name, each in x.items()}, None, size_of
                )
            return
        length = size_of(tokens, self._length_axis)
        yield Limit(features.TOKEN_IDS, tokens, self._rows, _TOKENS)
        if self._segments is not None and features.SEGMENT_IDS in x:
            yield Limit(features.SEGMENT_IDS, x[features.SEGMENT_IDS], self._segments, _SEGMENTS)
        if self._reads_positions and features.POSITION_IDS in x:
            yield Limit(
                features.POSITION_IDS, x[features.POSITION_IDS], self._positions, _POSITIONS
            )
        else:
            yield Limit(features.TOKEN_IDS, length, self._positions + 1, _LENGTH)
        for name in (features.MASK_POSITIONS, features.FIRST_POSITIONS):
            if name in x:
                yield Limit(name, x[name], length, _PLACES)
        for name, labels in _by_output(y, list(self._shapes)).items():
            if name not in self._classes or not hasattr(labels, "shape"):
                continue
            classes, ignored = self._classes[name]
            if classes is Ellipsis:  # one class for each token, or for each choice
                classes = size_of(tokens, 1) if name == features.CHOICE else length
            message = _NOT_A_NUMBER if classes is None else _CLASSES
            yield Limit(name, labels, classes, message, ignored)

    def check(self, x: Mapping[str, Any], y: Any = None) -> None:
        """Raise `ValueError` where a number of the batch is out of its range."""
        for limit in self.limits(x, y, lambda tensor, axis: tensor.shape[axis]):
            values = as_numpy(limit.values)
            if values.dtype.kind in "biuf" and not _is_within(values, limit):
                raise ValueError(_explain(limit, values))


_OF_NUMBERS = (keras.losses.MeanSquaredError, keras.losses.BinaryCrossentropy)
_SPARSE = (
    "sparse_categorical_crossentropy",
    keras.losses.sparse_categorical_crossentropy,
)


def label_classes(loss: Any, shape: tuple[int | None, ...]) -> Any:
    """Return the number of classes for a loss whose labels are class indices.

    Args:
        loss: a Keras loss, its name or function. A loss of ours has a method of this name, with
            the argument `shape`.
        shape: shape of the model's output, None for axes of unknown size.

    Returns:
        The number; `...` where the output has one class per token or choice of the batch; None for
        a loss that takes other labels, or an unknown loss.
    """
    method = getattr(loss, "label_classes", None)
    if method is not None:
        return method(shape)
    is_sparse = isinstance(loss, keras.losses.SparseCategoricalCrossentropy)
    if is_sparse or any(loss is sparse or loss == sparse for sparse in _SPARSE):
        return ... if shape[-1] is None else shape[-1]
    return None


def _explain(limit: Limit, values: np.ndarray) -> str:
    """Return the message about the first number in `values` that is out of its range."""
    bad = ~_within(values, limit)
    place = tuple(int(index) for index in np.argwhere(bad)[0])
    return limit.message.format(
        name=limit.name,
        found=values[place],
        place=list(place),
        upper=limit.upper,
        last=None if limit.upper is None else int(limit.upper) - 1,
    )


def as_numpy(values: Any) -> np.ndarray:
    """Return an array or tensor of any library as a NumPy array."""
    if isinstance(values, np.ndarray):
        return values
    return keras.ops.convert_to_numpy(values) if keras.ops.is_tensor(values) else np.asarray(values)


def _is_within(values: np.ndarray, limit: Limit) -> bool:
    """Return whether all numbers are in their range; valid integers take one pass."""
    if not values.size:
        return True
    if values.dtype.kind in "iu" and limit.upper is not None:
        # As an unsigned number, one below 0 is larger than any limit.
        unsigned = values.view(values.dtype.str.replace("i", "u"))
        if unsigned.max() < limit.upper:
            return True
    return bool(_within(values, limit).all())


def _within(values: np.ndarray, limit: Limit) -> np.ndarray:
    """Return a boolean array of the shape of `values`: True for a number in its range."""
    if limit.upper is None:
        return ~np.isnan(values) if values.dtype.kind == "f" else np.ones(values.shape, bool)
    within = (values >= 0) & (values < limit.upper)
    return within if limit.ignored is None else within | (values == limit.ignored)


def _by_output(values: Any, outputs: Sequence[str]) -> dict[str, Any]:
    """Return labels or losses by the name of their output.

    Values without names belong to the only output of a model. With several outputs the result is
    empty, because Keras alone decides their order.
    """
    if isinstance(values, Mapping):
        return {name: value for name, value in values.items() if name in outputs}
    if values is None or len(outputs) != 1:
        return {}
    if isinstance(values, list | tuple):
        return dict(zip(outputs, values, strict=True)) if len(values) == 1 else {}
    return {outputs[0]: values}


def _embeddings_of(model: keras.Model) -> Iterator[BertEmbeddings]:
    """Yield the `BertEmbeddings` of a functional model, also those of models within it."""
    layers: list[Any] = [model]
    seen: set[int] = set()
    while layers:
        layer = layers.pop()
        if id(layer) in seen:
            continue
        seen.add(id(layer))
        if isinstance(layer, BertEmbeddings):
            yield layer
        layers.extend(getattr(layer, "layers", ()))
