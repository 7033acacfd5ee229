"""Correlation of predicted scores with true ones (Pearson, Spearman), computed by SciPy.

SciPy comes with `pip install "bert-keras[finetune]"` and is imported when a score is computed. It
warns if a score is not defined, for example if all predictions are equal. These functions do not
warn; their docstrings state the value that they return then.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from bert_keras.metrics.text_classification import quietly, scipy_stats, two_columns


def pearson(true: ArrayLike, predicted: ArrayLike) -> float:
    """Return Pearson's correlation, from -1 to 1; nan if a column is constant or not finite.

    Args:
        true: numbers [rows], at least 2.
        predicted: numbers [rows].

    Raises:
        ValueError: if the lengths differ, there are fewer than 2 rows, or values are no numbers.
        ImportError: if SciPy is not installed.
    """
    return _correlation("pearsonr", true, predicted)


def spearman(true: ArrayLike, predicted: ArrayLike) -> float:
    """Return Spearman's rank correlation, from -1 to 1; nan if a column is constant or not finite.

    Args:
        true: numbers [rows], at least 2.
        predicted: numbers [rows].

    Raises:
        ValueError: if the lengths differ, there are fewer than 2 rows, or values are no numbers.
        ImportError: if SciPy is not installed.
    """
    return _correlation("spearmanr", true, predicted)


def _correlation(name: str, true: ArrayLike, predicted: ArrayLike) -> float:
    """Check two columns and return the correlation that SciPy's function `name` computes."""
    first, second = two_columns(true, predicted)
    if not (np.issubdtype(first.dtype, np.number) and np.issubdtype(second.dtype, np.number)):
        raise ValueError(
            "`true` and `predicted` must be numbers. "
            f"Received: arrays of {first.dtype} and {second.dtype}"
        )
    if len(first) < 2:
        raise ValueError(f"A correlation needs at least 2 rows. Received: {len(first)}")
    score = getattr(scipy_stats(), name)
    # SciPy's versions treat infinities differently.
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        return float("nan")
    return float(quietly(score, first.astype("float64"), second.astype("float64"))[0])
