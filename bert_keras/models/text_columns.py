"""Columns of text among the arguments of `fit`, `evaluate` and `predict`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bert_keras.data.columns import is_text
from bert_keras.models.data_checks import is_a

# Names that columns of targets have. Such a column is never taken for a text.
_TARGETS = frozenset({"answer", "answers", "class", "label", "labels", "tags", "target", "y"})


class TextColumns(NamedTuple):
    """Columns of text, and what came with them.

    Attributes:
        columns: one for each input of the task, as the caller passed them.
        y: the targets that a `tf.data.Dataset` of strings has; None elsewhere.
        sample_weight: the weights that such a dataset has; None elsewhere.
    """

    columns: tuple[Any, ...]
    y: Any = None
    sample_weight: Any = None


def find_text(x: Any, names: Sequence[str]) -> TextColumns | None:
    """Return the columns of text in an argument; None where it is features or batches.

    Args:
        x: a column of text; a tuple of columns, where the task reads several; a dictionary or
            pandas DataFrame of columns; or a `tf.data.Dataset` of strings, of (string, target) or
            of (string, target, weight), in batches or not, whose strings may be tuples or
            dictionaries as well.
        names: of the columns that the task reads, in its order.

    Raises:
        ValueError: an empty list, rows of several texts in place of columns, or a table of text
            with columns that the task does not read.
    """
    if isinstance(x, list | tuple) and not x:
        raise ValueError(f"No texts. Received: an empty {type(x).__name__}")
    if is_a("tensorflow", "data.Dataset", x):
        return _read_dataset(x, names) if _is_of_strings(x) else None
    if hasattr(x, "columns") and hasattr(x, "iloc"):  # a pandas DataFrame
        x = {str(name): x[name] for name in x.columns}
    elif isinstance(getattr(x, "column_names", None), list):  # a table of Arrow or datasets
        x = {str(name): x[name] for name in x.column_names}
    if isinstance(x, Mapping):
        if not x or not all(is_text(column) for column in x.values()):
            return None
        return TextColumns(tuple(x[name] for name in _order(x, names)))
    if len(names) > 1 and _is_rows(x):
        raise ValueError(
            f"The task reads columns, {' and '.join(names)}, and not rows of both: pass "
            f"`tuple(zip(*rows))`. Received: a {type(x).__name__} of rows"
        )
    if isinstance(x, tuple) and min(len(x), len(names)) > 1 and all(map(_is_column, x)):
        return TextColumns(x)
    return TextColumns((x,)) if is_text(x) else None


def _order(table: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """Return the columns of a table in the order of the task.

    Columns with the names of the task are in its order. Columns with other names alone are in their
    own order.
    """
    known = [name for name in names if name in table]
    others = [name for name in table if name not in names]
    if (known and others) or len(others) > len(names) or _TARGETS & set(map(str.lower, others)):
        raise ValueError(
            f"The table has the columns {', '.join(table)}, and the task reads {', '.join(names)}. "
            "Pass the columns of text alone as `x`, such as table[['text']], and targets as `y`."
        )
    return known or others


def _is_rows(x: Any) -> bool:
    """Return whether `x` has rows of several texts in place of one column of each."""
    if isinstance(x, np.ndarray):
        return x.ndim > 1 and is_text(x)
    first = x[0] if isinstance(x, list) and x else None
    return isinstance(first, tuple | list) and bool(first) and isinstance(first[0], str)


def _is_column(value: Any) -> bool:
    return not isinstance(value, str) and is_text(value)


def _is_of_strings(dataset: Any) -> bool:
    """Return whether the inputs of a `tf.data.Dataset` are strings, all of them."""
    import tensorflow as tf

    leaves = tf.nest.flatten(_parts(dataset.element_spec)[0])
    return bool(leaves) and all(getattr(leaf, "dtype", None) == tf.string for leaf in leaves)


def _parts(element: Any) -> tuple[Any, Any, Any]:
    """Return inputs, targets and weights of an element, as Keras reads it; None for absent ones."""
    if not isinstance(element, tuple):
        return element, None, None
    x, y, weight, *_ = (*element, None, None)
    return x, y, weight


def _read_dataset(dataset: Any, names: Sequence[str]) -> TextColumns:
    """Read all elements of a `tf.data.Dataset` of strings into lists."""
    x_spec, y_spec, weight_spec = _parts(dataset.element_spec)
    if isinstance(x_spec, Mapping):
        keys: list[Any] = _order(x_spec, names)
    else:
        keys = list(range(len(x_spec))) if isinstance(x_spec, tuple) else []
    first: Any = x_spec[keys[0]] if keys else x_spec
    is_batched = first.shape.rank > 0
    columns: list[list[Any]] = [[] for _ in keys or [None]]
    targets: list[Any] = []
    weights: list[Any] = []
    for element in dataset.as_numpy_iterator():
        x, y, weight = _parts(element)
        parts = [x[key] for key in keys] if keys else [x]
        for values, part in [
            *zip(columns, parts, strict=True),
            (targets, _only(y)),
            (weights, _only(weight)),
        ]:
            if part is not None:
                values += list(part) if is_batched else [part]
    return TextColumns(
        tuple(_decoded(column) for column in columns),
        None if y_spec is None else _decoded(targets),
        None if weight_spec is None else weights,
    )


def _only(values: Any) -> Any:
    """Return the one entry of a dictionary, such as {"label": ...}; other values as they are."""
    if not isinstance(values, Mapping):
        return values
    if len(values) != 1:
        raise ValueError(
            "Targets and weights of text are one column. "
            f"Received: {len(values)}, {', '.join(map(str, values))}"
        )
    return next(iter(values.values()))


def _decoded(values: Sequence[Any]) -> list[Any]:
    return [value.decode() if isinstance(value, bytes) else value for value in values]
