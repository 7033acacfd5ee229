"""Correlation of predicted scores with true ones (Pearson, Spearman), by SciPy.

Both come with `pip install "bert-keras[finetune]"` and are imported when a score is computed; an
ImportError says so where they are missing. They warn where a score is not defined, as for
predictions that are all the same; these functions do not: each says what it returns then.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from bert_keras.metrics.text_classification import _quietly, _rows, _stats


def pearson(true: ArrayLike, predicted: ArrayLike) -> float:
    """Pearson's correlation of numbers, -1..1; nan where either is constant or not finite.

    Args:
        true: [rows], numbers, at least 2.
        predicted: the same.

    Raises:
        ValueError: different lengths, fewer than 2 rows, or no numbers.
    """
    return _correlation("pearsonr", true, predicted)


def spearman(true: ArrayLike, predicted: ArrayLike) -> float:
    """Spearman's correlation of the ranks of numbers, -1..1; nan as for `pearson`.

    Args:
        true: [rows], numbers, at least 2.
        predicted: the same.

    Raises:
        ValueError: different lengths, fewer than 2 rows, or no numbers.
    """
    return _correlation("spearmanr", true, predicted)


def _correlation(name: str, true: ArrayLike, predicted: ArrayLike) -> float:
    first, second = _rows(true, predicted)
    if not (np.issubdtype(first.dtype, np.number) and np.issubdtype(second.dtype, np.number)):
        raise ValueError(f"correlations are of numbers; found {first.dtype} and {second.dtype}")
    if len(first) < 2:
        raise ValueError("a correlation needs at least 2 rows")
    score = getattr(_stats(), name)
    # SciPy's releases differ in what they do with infinities.
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        return float("nan")
    return float(_quietly(score, first.astype("float64"), second.astype("float64"))[0])
