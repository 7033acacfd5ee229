"""Accuracy, F1, Matthews correlation and confusion matrix of labels, computed by scikit-learn.

scikit-learn comes with `pip install "bert-keras[finetune]"` and is imported when a score is
computed. It warns if a score is not defined, for example if all predictions are equal. These
functions do not warn; their docstrings state the value that they return then.
"""

# A caller without a type checker may pass anything: arguments are checked when it runs.
# pyright: reportUnnecessaryIsInstance=false

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike


def accuracy(true: ArrayLike, predicted: ArrayLike) -> float:
    """Return the share of rows with the correct label, from 0 to 1.

    Args:
        true: labels [rows], names or integers.
        predicted: labels [rows] of the same type.

    Raises:
        ValueError: if the lengths or types differ, or there are no rows.
    """
    return float(quietly(_sklearn().accuracy_score, *_labels(true, predicted)))


def f1(
    true: ArrayLike,
    predicted: ArrayLike,
    average: Literal["macro", "micro", "binary"] = "macro",
    positive: Any = 1,
) -> float:
    """Return the F1 of labels, from 0 to 1. A label that is never predicted has precision 0.

    Args:
        true: labels [rows], names or integers.
        predicted: labels [rows] of the same type.
        average: "macro" is the mean over the labels that occur in `true` or `predicted`. "micro"
            counts all labels together, which equals accuracy. "binary" is the F1 of `positive`.
        positive: the positive label of the two labels of "binary".

    Raises:
        ValueError: if the lengths or types differ, there are no rows, or `average` is unknown; for
            "binary" also if there are more than two labels, or `positive` is not one of them.
    """
    if average not in ("macro", "micro", "binary"):
        raise ValueError(
            f"`average` must be 'macro', 'micro' or 'binary'. Received: average={average!r}"
        )
    rows = _labels(true, predicted)
    if average == "binary":
        labels = np.unique(np.concatenate(rows)).tolist()
        is_other_kind = isinstance(positive, str) != (rows[0].dtype.kind in "US")
        if is_other_kind or len({*labels, positive}) > 2:
            raise ValueError(
                f"average='binary' needs two labels, of which `positive` is one. Received: labels "
                f"{labels}, positive={positive!r}. Use average='macro' for more labels."
            )
    score = _sklearn().f1_score
    return float(quietly(score, *rows, average=average, pos_label=positive, zero_division=0.0))


def matthews(true: ArrayLike, predicted: ArrayLike) -> float:
    """Return Matthews' correlation of two or more labels, from -1 to 1; 0 if a column is constant.

    Args:
        true: labels [rows], names or integers.
        predicted: labels [rows] of the same type.

    Raises:
        ValueError: if the lengths or types differ, or there are no rows.
    """
    return float(quietly(_sklearn().matthews_corrcoef, *_labels(true, predicted)))


def confusion_matrix(
    true: ArrayLike, predicted: ArrayLike, labels: Sequence[Any] | None = None
) -> np.ndarray:
    """Return counts of predictions for each true label: integers [true label, predicted label].

    Args:
        true: labels [rows], names or integers.
        predicted: labels [rows] of the same type.
        labels: order of rows and columns, with all labels that occur. By default the labels that
            occur, sorted.

    Raises:
        ValueError: if the lengths or types differ, there are no rows, or `labels` lacks a label.
    """
    rows = _labels(true, predicted)
    if labels is not None:
        _require_all(np.unique(np.concatenate(rows)).tolist(), labels)
    return quietly(_sklearn().confusion_matrix, *rows, labels=labels)


def multi_label_f1(
    true: Any,
    predicted: Any,
    average: Literal["micro", "macro"] = "micro",
    labels: Sequence[str] | None = None,
) -> float:
    """Return the F1, from 0 to 1, of rows that may have several labels or none.

    A label that is never predicted has precision 0.

    Args:
        true: the names of the labels of each row; or an array of 0 and 1, [rows, labels].
        predicted: the same for the predicted labels.
        average: "micro" counts all labels together, "macro" is the mean over the labels.
        labels: all names, so that "macro" includes labels that do not occur. By default only names
            that occur. Not for arrays, which have a column for each label.

    Raises:
        ValueError: if the lengths or shapes differ, there are no rows, or a label or `average` is
            unknown.
    """
    if average not in ("micro", "macro"):
        raise ValueError(f"`average` must be 'micro' or 'macro'. Received: average={average!r}")
    if isinstance(true, np.ndarray) != isinstance(predicted, np.ndarray):
        raise ValueError(
            "`true` and `predicted` must both be arrays, or both lists of names. "
            f"Received: {type(true).__name__} and {type(predicted).__name__}"
        )
    _require_rows(len(true), len(predicted))
    arrays: tuple[np.ndarray, np.ndarray] = (true, predicted)
    if not isinstance(true, np.ndarray):
        arrays = _indicators(true, predicted, labels)
    elif labels is not None:
        raise ValueError(
            "`labels` are for lists of names. An array has a column for each label: leave them out."
        )
    shape = arrays[0].shape
    if len(shape) != 2 or shape != arrays[1].shape:
        raise ValueError(
            "`true` and `predicted` must be arrays [rows, labels], both of one shape. Received: "
            f"shapes {shape} and {arrays[1].shape}"
        )
    if not all(np.isin(array, (0, 1)).all() for array in arrays):
        raise ValueError(
            "`true` and `predicted` must hold 0 and 1 only. Compare probabilities with a "
            "threshold, such as `probabilities >= 0.5`."
        )
    columns = shape[1]
    # scikit-learn reads a single column as labels 0 and 1. A second column of zeros prevents that.
    spare = ((0, 0), (0, max(0, 2 - columns)))
    options = {"labels": list(range(max(1, columns))), "average": average, "zero_division": 0.0}
    rows = (np.pad(array.astype("int64"), spare) for array in arrays)
    return float(quietly(_sklearn().f1_score, *rows, **options))


def _labels(true: ArrayLike, predicted: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return two columns of labels as arrays [rows], both of names or both of integers."""
    first, second = (_texts(values) for values in two_columns(true, predicted))
    if (first.dtype.kind in "US") != (second.dtype.kind in "US"):
        raise ValueError(
            "`true` and `predicted` must both be names, or both integers. "
            f"Received: arrays of {first.dtype} and {second.dtype}"
        )
    return first, second


def _texts(values: np.ndarray) -> np.ndarray:
    """Convert an array of objects that are all strings, as pandas has them, to a string array."""
    are_texts = values.dtype.kind == "O" and all(isinstance(value, str) for value in values)
    return values.astype(str) if are_texts else values


def two_columns(true: ArrayLike, predicted: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return two columns as arrays [rows] of the same length, which is not 0."""
    first, second = np.asarray(true), np.asarray(predicted)
    if first.ndim != 1 or second.ndim != 1:
        raise ValueError(
            "`true` and `predicted` must have one value per row. "
            f"Received: shapes {first.shape} and {second.shape}"
        )
    _require_rows(len(first), len(second))
    return first, second


def _require_rows(true: int, predicted: int) -> None:
    """Raise `ValueError` unless two numbers of rows are equal and not 0."""
    if true != predicted:
        raise ValueError(
            "`true` and `predicted` must have equally many rows. "
            f"Received: {true} true rows, {predicted} predicted ones"
        )
    if not true:
        raise ValueError("`true` and `predicted` have no rows. A score needs at least one.")


def _indicators(
    true: Sequence[Sequence[str]],
    predicted: Sequence[Sequence[str]],
    labels: Sequence[str] | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Convert the names of each row's labels to arrays of 0 and 1, int64 [rows, labels]."""
    for row in (*true, *predicted):
        if isinstance(row, str) or not all(isinstance(name, str) for name in row):
            raise ValueError(
                f"Each row must be a list of the names of its labels. Received: {row!r:.200}. "
                "For 0 and 1 pass arrays."
            )
    occurring = sorted({name for row in (*true, *predicted) for name in row})
    columns = occurring if labels is None else list(labels)
    _require_all(occurring, columns)
    first, second = (
        np.array([[name in row for name in columns] for row in rows], "int64").reshape(
            len(rows), len(columns)
        )
        for rows in (true, predicted)
    )
    return first, second


def _require_all(occurring: Sequence[Any], labels: Sequence[Any]) -> None:
    """Raise `ValueError` if a label that occurs is not among `labels`."""
    if unknown := [name for name in occurring if name not in set(labels)]:
        raise ValueError(
            f"`labels` lacks {unknown[0]!r}, which occurs in `true` or `predicted`. "
            f"Received: labels={list(labels)}. Add it to `labels`."
        )


class Calibration(NamedTuple):
    """Probabilities of answers beside the share of right answers, in bins of equal width.

    Attributes:
        confidence: mean probability of the answers in each bin: float64 [bins]; NaN without any.
        accuracy: share of the answers in each bin that are right; NaN without any.
        counts: number of answers in each bin: int64 [bins].
        error: expected calibration error, from 0 to 1.
    """

    confidence: np.ndarray
    accuracy: np.ndarray
    counts: np.ndarray
    error: float


def calibration(confidence: ArrayLike, is_right: ArrayLike, bins: int = 10) -> Calibration:
    """Compare probabilities of answers with the share of right answers (Guo et al., 2017, §2).

    The expected calibration error is the mean, over all answers, of the difference between the
    share of right answers in a bin and the mean probability in it.

    Args:
        confidence: probability that the model gives to each of its answers, from 0 to 1: [answers].
        is_right: True for each right answer: [answers].
        bins: number of bins, which divide 0 to 1 equally.

    Raises:
        ValueError: if the lengths differ, there are no answers, or a probability is out of range.
    """
    scores = np.asarray(confidence, np.float64)
    right = np.asarray(is_right, np.float64)
    if scores.ndim != 1 or scores.shape != right.shape or not len(scores):
        raise ValueError(
            "Every answer needs one probability. "
            f"Received: arrays {list(scores.shape)} and {list(right.shape)}"
        )
    # A softmax in float32 may exceed 1 by its rounding.
    if not ((scores >= 0) & (scores <= 1 + 1e-5)).all():
        raise ValueError(
            "A probability must be from 0 to 1. "
            f"Received: values from {scores.min():g} to {scores.max():g}"
        )
    number = np.minimum((scores * bins).astype(np.int64), bins - 1)
    counts = np.bincount(number, minlength=bins)
    some = np.where(counts, counts, np.nan)
    mean = np.bincount(number, scores, minlength=bins) / some
    share = np.bincount(number, right, minlength=bins) / some
    error = float(np.nansum(counts * np.abs(share - mean)) / len(scores))
    return Calibration(mean, share, counts, error)


def quietly(score: Callable[..., Any], *values: Any, **options: Any) -> Any:
    """Call a score function of a library without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return score(*values, **options)


def _library(package: str, module: str, name: str) -> Any:
    """Import a module of an optional library called `name`.

    Raises:
        ImportError: if the library is not installed.
    """
    try:
        importlib.import_module(package)
        return importlib.import_module(f"{package}.{module}")  # older packages do not import it
    except ImportError as error:
        raise ImportError(f'This score needs {name}: pip install "bert-keras[finetune]"') from error


_sklearn = partial(_library, "sklearn", "metrics", "scikit-learn")
scipy_stats = partial(_library, "scipy", "stats", "SciPy")
