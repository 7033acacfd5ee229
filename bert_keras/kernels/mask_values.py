"""Finite values in place of minus infinity.

A finite value keeps gradients finite, and a row that is all padding averages instead of giving NaN.
"""

from __future__ import annotations

# Added to the attention scores of masked keys, and put in place of masked numbers before a maximum.
# It is far below any score.
MASKED = -1e9

# In place of the logarithm of a probability of zero.
LOG_OF_ZERO = -1e9


def lowest(dtype: str) -> float:
    """Return `MASKED`, or a value that float16 can hold together with a bias."""
    return -3e4 if dtype == "float16" else MASKED


def beside_scores(smallest: float) -> float:
    """Return half of the smallest number of a dtype, to which scores can be added."""
    return smallest * 0.5
