"""Columns of text among the arguments of `fit`, `evaluate` and `predict`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from bert_keras.data.columns import is_text


class TextColumns(NamedTuple):
    """Columns of text, and what came with them.

    Attributes:
        columns: one for each input of the task, as the caller passed them.
        y: the targets that a `tf.data.Dataset` of strings has; None elsewhere.
    """

    columns: tuple[Any, ...]
    y: Any = None


def find_text(x: Any, names: Sequence[str]) -> TextColumns | None:
    """Return the columns of text in an argument; None where it is features or batches.

    Args:
        x: a column of text; a tuple of columns; a dictionary or pandas DataFrame of columns; or a
            `tf.data.Dataset` of strings or of (string, target), in batches or not.
        names: of the columns that the task reads, in its order.
    """
    if _is_string_dataset(x):
        return _read_dataset(x)
    if hasattr(x, "columns") and hasattr(x, "iloc"):  # a pandas DataFrame
        x = {str(name): x[name] for name in x.columns}
    if isinstance(x, Mapping):
        if not x or not all(is_text(column) for column in x.values()):
            return None
        if set(x) <= set(names):
            return TextColumns(tuple(x[name] for name in names if name in x))
        return TextColumns(tuple(x.values()))
    if isinstance(x, tuple) and len(x) > 1 and all(_is_column(each) for each in x):
        return TextColumns(x)
    return TextColumns((x,)) if is_text(x) else None


def _is_column(value: Any) -> bool:
    return not isinstance(value, str) and is_text(value)


def _is_string_dataset(x: Any) -> bool:
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is None or not isinstance(x, tensorflow.data.Dataset):
        return False
    spec: Any = x.element_spec
    first: Any = next(iter(spec)) if isinstance(spec, tuple) else spec
    leaves = tensorflow.nest.flatten(first)
    return bool(leaves) and all(
        getattr(leaf, "dtype", None) == tensorflow.string for leaf in leaves
    )


def _read_dataset(dataset: Any) -> TextColumns:
    """Read all elements of a `tf.data.Dataset` of strings into lists."""
    spec: Any = dataset.element_spec
    has_targets = isinstance(spec, tuple) and len(spec) > 1
    first: Any = next(iter(spec)) if has_targets else spec
    is_several = isinstance(first, Mapping | tuple)
    width = len(first) if isinstance(first, Mapping | tuple) else 1
    columns: list[list[Any]] = [[] for _ in range(width)]
    targets: list[Any] = []
    for element in dataset.as_numpy_iterator():
        x: Any = element[0] if has_targets else element
        y: Any = element[1] if has_targets else None
        parts = list(x.values()) if isinstance(x, Mapping) else list(x) if is_several else [x]
        for column, part in zip(columns, parts, strict=True):
            column += [part] if isinstance(part, bytes) else part.ravel().tolist()
        if has_targets:
            targets += [y] if getattr(y, "ndim", 0) == 0 else list(y)
    texts = tuple([text.decode() for text in column] for column in columns)
    decoded = [each.decode() if isinstance(each, bytes) else each for each in targets]
    return TextColumns(texts, decoded if has_targets else None)
