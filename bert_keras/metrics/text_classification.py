"""Scores of labels and numbers, computed by scikit-learn and SciPy.

Both come with `pip install "bert-keras[finetune]"` and are imported when a score is computed; an
ImportError says so where they are missing. They warn where a score is not defined, as for
predictions that are all the same; these functions do not: each says what it returns then.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike


def accuracy(true: ArrayLike, predicted: ArrayLike) -> float:
    """The share of rows whose label is right, 0..1.

    Args:
        true: [rows], labels: names or integers.
        predicted: the same.

    Raises:
        ValueError: different lengths, no rows, or labels of different kinds.
    """
    return float(_quietly(_sklearn().accuracy_score, *_labels(true, predicted)))


def f1(
    true: ArrayLike,
    predicted: ArrayLike,
    average: Literal["macro", "micro", "binary"] = "macro",
    positive: Any = 1,
) -> float:
    """The F1 of labels, 0..1; what is divided by 0 is 0, as where nothing is predicted positive.

    Args:
        true: [rows], labels: names or integers.
        predicted: the same.
        average: "macro" is the mean over the labels that occur in `true` or `predicted`, "micro"
            counts all labels together (which is accuracy), "binary" is of the label `positive`.
        positive: the label that "binary" is about, of two.

    Raises:
        ValueError: different lengths, no rows, labels of different kinds, an unknown average; more
            than two labels, or a `positive` that is none of them, for "binary".
    """
    if average not in ("macro", "micro", "binary"):
        raise ValueError(f"average must be 'macro', 'micro' or 'binary', not {average!r}")
    rows = _labels(true, predicted)
    if average == "binary":
        found = np.unique(np.concatenate(rows)).tolist()
        is_other_kind = isinstance(positive, str) != (rows[0].dtype.kind in "US")
        if is_other_kind or len({*found, positive}) > 2:
            raise ValueError(
                f"a binary F1 needs two labels, {positive!r} (positive) one of them; found {found}"
            )
    score = _sklearn().f1_score
    return float(_quietly(score, *rows, average=average, pos_label=positive, zero_division=0.0))


def matthews(true: ArrayLike, predicted: ArrayLike) -> float:
    """Matthews' correlation of labels, of two or more kinds, -1..1; 0.0 where either is constant.

    Args:
        true: [rows], labels: names or integers.
        predicted: the same.

    Raises:
        ValueError: different lengths, no rows, or labels of different kinds.
    """
    return float(_quietly(_sklearn().matthews_corrcoef, *_labels(true, predicted)))


def confusion_matrix(
    true: ArrayLike, predicted: ArrayLike, labels: Sequence[Any] | None = None
) -> np.ndarray:
    """Return counts of predictions for each true label: integers [true label, predicted label].

    Args:
        true: [rows], labels: names or integers.
        predicted: the same.
        labels: the order of rows and columns; all labels that occur. By default these, sorted.

    Raises:
        ValueError: different lengths, no rows, labels of different kinds, or one not in `labels`.
    """
    rows = _labels(true, predicted)
    if labels is not None:
        _require_all(np.unique(np.concatenate(rows)).tolist(), labels)
    return _quietly(_sklearn().confusion_matrix, *rows, labels=labels)


def multi_label_f1(
    true: Any,
    predicted: Any,
    average: Literal["micro", "macro"] = "micro",
    labels: Sequence[str] | None = None,
) -> float:
    """The F1 where a row may have several labels or none, 0..1; what is divided by 0 is 0.

    Args:
        true: for each row the names of its labels; or an array of 0 and 1, [rows, labels].
        predicted: the same.
        average: "micro" counts all labels together, "macro" is the mean over the labels.
        labels: all names, so that "macro" knows of labels that do not occur. By default those that
            do. Not for arrays, which have a column for each.

    Raises:
        ValueError: different lengths or shapes, no rows, an unknown average, or an unknown label.
    """
    if average not in ("micro", "macro"):
        raise ValueError(f"average must be 'micro' or 'macro', not {average!r}")
    if isinstance(true, np.ndarray) != isinstance(predicted, np.ndarray):
        raise ValueError("true and predicted must be of one kind: both arrays, or both names")
    _require_rows(len(true), len(predicted))
    if not isinstance(true, np.ndarray):
        true, predicted = _indicators(true, predicted, labels)
    elif labels is not None:
        raise ValueError("labels are for names; an array has a column for each label")
    if true.ndim != 2 or true.shape != predicted.shape:
        raise ValueError(
            f"arrays must be [rows, labels], both of one shape; found {true.shape} and "
            f"{predicted.shape}"
        )
    if not (np.isin(true, (0, 1)).all() and np.isin(predicted, (0, 1)).all()):
        raise ValueError("arrays must hold 0 and 1 only: compare probabilities with a threshold")
    columns = true.shape[1]
    # scikit-learn takes a single column for one label per row, with a score of its 0 too.
    spare = ((0, 0), (0, max(0, 2 - columns)))
    options = {"labels": list(range(max(1, columns))), "average": average, "zero_division": 0.0}
    rows = (np.pad(each.astype("int64"), spare) for each in (true, predicted))
    return float(_quietly(_sklearn().f1_score, *rows, **options))


def _labels(true: ArrayLike, predicted: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    first, second = (_texts(values) for values in _rows(true, predicted))
    if (first.dtype.kind in "US") != (second.dtype.kind in "US"):
        raise ValueError(f"labels must be of one kind; found {first.dtype} and {second.dtype}")
    return first, second


def _texts(values: np.ndarray) -> np.ndarray:
    """Texts in an array of objects, as pandas has them, as an array of texts."""
    are_texts = values.dtype.kind == "O" and all(isinstance(value, str) for value in values)
    return values.astype(str) if are_texts else values


def _rows(true: ArrayLike, predicted: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    first, second = np.asarray(true), np.asarray(predicted)
    if first.ndim != 1 or second.ndim != 1:
        raise ValueError(f"give one value per row; found shapes {first.shape} and {second.shape}")
    _require_rows(len(first), len(second))
    return first, second


def _require_rows(true: int, predicted: int) -> None:
    if true != predicted:
        raise ValueError(f"{true} true rows, {predicted} predicted ones: the lengths must agree")
    if not true:
        raise ValueError("there are no rows to score")


def _indicators(
    true: Sequence[Sequence[str]],
    predicted: Sequence[Sequence[str]],
    labels: Sequence[str] | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Names of labels as 0 and 1, [rows, labels]."""
    for row in (*true, *predicted):
        if isinstance(row, str) or not all(isinstance(name, str) for name in row):
            raise ValueError(
                f"each row must be the names of its labels, not {row!r}; 0 and 1 go into an array"
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
    if unknown := [name for name in occurring if name not in set(labels)]:
        raise ValueError(f"label {unknown[0]!r} is none of the labels given: {list(labels)}")


def _quietly(score: Callable[..., Any], *values: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return score(*values, **options)


def _library(package: str, module: str, name: str) -> Any:
    try:
        return getattr(importlib.import_module(package), module)
    except ImportError as error:
        raise ImportError(f'this score needs {name}: pip install "bert-keras[finetune]"') from error


_sklearn = partial(_library, "sklearn", "metrics", "scikit-learn")
_stats = partial(_library, "scipy", "stats", "SciPy")
