"""Values added to attention scores of masked keys ("minus infinity")."""

from __future__ import annotations

# Far below any score, yet finite: a row that is all padding averages instead of giving NaN.
MASKED = -1e9


def lowest(dtype: str) -> float:
    """`MASKED`, or what float16 has of it beside a bias."""
    return -3e4 if dtype == "float16" else MASKED
