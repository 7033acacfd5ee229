"""Between files and variables, in parts: a model is never in memory twice."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import keras
import numpy as np

from bert_keras.checkpoints import tensors
from bert_keras.checkpoints.format import Entry
from bert_keras.checkpoints.tensors import Tensors
from bert_keras.errors import ArtifactError, NumericError

_FLOAT = 4  # bytes

# Called with (what is done, numbers so far, numbers in all).
Report = Callable[[str, int, int], object]
_report: ContextVar[Report | None] = ContextVar("report", default=None)


@contextmanager
def reported(report: Report) -> Iterator[None]:
    """While it lasts, checkpoints that are read or written tell how far they are."""
    token = _report.set(report)
    try:
        yield
    finally:
        _report.reset(token)


def each(entries: Sequence[Entry], what: str) -> Iterator[Entry]:
    """The entries one by one, reported after each; `what`: is done with them."""
    report = _report.get()
    sizes = [math.prod(entry.shape) for entry in entries]
    done, total = 0, sum(sizes)
    for entry, size in zip(entries, sizes, strict=True):
        yield entry
        done += size
        if report:
            report(what, done, total)


def fill(entry: Entry, source: Tensors) -> bool:
    """Assign a tensor to its variable; a table of many rows some rows at a time.

    A word table is a fifth of a checkpoint, and `assign` would hold it three times. JAX's arrays
    cannot be written to, and are assigned whole.

    Args:
        entry: the variable, and the tensor it is stored in.
        source: the opened file.

    Returns:
        True if all values are finite.

    Raises:
        ArtifactError: the tensor cannot be read, or holds other than floats.
    """
    rest = source.rows(entry.tensor)
    first = next(rest)
    some = first[1]
    if some.dtype.kind not in "fV":  # bfloat16 is of a kind of its own
        raise ArtifactError(
            f"{source.path}: {entry.tensor}: expected floats. Received: {some.dtype}"
        )
    is_whole = some.shape == source.shapes[entry.tensor]
    is_same = entry.leaf.same_rows and str(some.dtype) == entry.variable.dtype
    if is_same and not is_whole and keras.backend.backend() != "jax":
        finite_parts: list[bool] = []

        def checked() -> Iterator[tuple[int, np.ndarray]]:
            for start, rows in itertools.chain([first], rest):
                finite_parts.append(_all_finite(rows))
                yield start, rows

        _write(entry.variable.value, checked())
        return all(finite_parts)
    if not is_whole:
        del rest, first
        some = source.read(entry.tensor)
    entry.variable.assign(entry.leaf.ours(some))
    return _all_finite(some)


def _all_finite(values: np.ndarray) -> bool:
    """Return whether all values are finite: a sum tells it quickly unless it overflows."""
    with np.errstate(all="ignore"):
        total = values.sum(dtype=np.float32 if values.dtype.itemsize < 8 else None)
    return bool(np.isfinite(total) or np.isfinite(values).all())


def _write(value: Any, parts: Iterable[tuple[int, np.ndarray]]) -> None:
    """Assign rows, some at a time, without a copy of the whole."""
    if keras.backend.backend() != "tensorflow":
        for start, rows in parts:
            value.data[start : start + len(rows)] = keras.ops.convert_to_tensor(rows)
        return
    import tensorflow as tf

    # A variable that parts were assigned to is copied ever after when it is read, in every step:
    # so it is given a whole table, and before that gives the memory of the old one back.
    is_one = not tf.distribute.has_strategy()  # which has a variable on every device
    if is_one:
        nothing = tf.zeros((0, *value.shape[1:]), value.dtype)
        tf.raw_ops.AssignVariableOp(resource=value.handle, value=nothing)
    whole = tf.raw_ops.Empty(shape=value.shape, dtype=value.dtype)
    for start, rows in parts:
        numbers = tf.range(start, start + len(rows))
        whole = tf.raw_ops.InplaceUpdate(x=whole, i=numbers, v=rows)
    if is_one:
        tf.raw_ops.AssignVariableOp(resource=value.handle, value=whole)
    else:
        value.assign(whole)


def check(entries: Sequence[Entry]) -> None:
    """Looks at all values, before anything is written.

    Raises:
        NumericError: one of them is not finite.
    """
    for entry in entries:
        for _ in finite_rows(entry.variable):
            pass


def finite(variable: Any) -> np.ndarray:
    """The values of a variable.

    Raises:
        NumericError: one of them is not finite.
    """
    return _finite(variable, variable.value)


def parts(entry: Entry) -> Iterator[tuple[int, np.ndarray]]:
    """A tensor to write, in parts where it is large: first row, rows.

    Raises:
        NumericError: a value is not finite.
    """
    if not entry.leaf.same_rows:
        yield 0, entry.leaf.theirs(finite(entry.variable))
        return
    start = 0
    for rows in finite_rows(entry.variable):
        yield start, rows
        start += len(rows)


def finite_rows(variable: Any) -> Iterator[np.ndarray]:
    """The values of a variable, in parts where it has many rows.

    Raises:
        NumericError: one of them is not finite.
    """
    parts = tensors.row_parts(variable.shape, _FLOAT * math.prod(variable.shape[1:]))
    for part in parts:
        yield _finite(variable, variable.value[part])
    if not parts:
        yield finite(variable)


def _finite(variable: Any, values: Any) -> np.ndarray:
    array = np.asarray(keras.ops.convert_to_numpy(values))
    # Of the standard kinds only floats can be non-finite; "V" are bfloat16 and its kin.
    if array.dtype.kind in "fV" and not np.isfinite(array).all():
        raise NumericError(
            f"{variable.path} is not finite: nothing was written. Such a model answers nothing; "
            "go back to a checkpoint that is good."
        )
    return array
