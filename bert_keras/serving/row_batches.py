"""Runs a function of many rows on a few rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

_MOST_NUMBERS = 2**24  # of the outputs of all rows, which become one answer
_Run = Callable[[Mapping[str, Any]], dict[str, np.ndarray]]


def in_batches(run: _Run, size: int) -> _Run:
    """Return a function that runs at most `size` rows at once, so that its memory is bounded.

    It raises `ValueError` if the outputs of all rows would be too large for an answer.
    """

    def run_batches(columns: Mapping[str, Any]) -> dict[str, np.ndarray]:
        count = len(next(iter(columns.values())))
        batches: list[dict[str, np.ndarray]] = []
        for start in range(0, count, size):
            rows = {name: values[start : start + size] for name, values in columns.items()}
            batches.append(run(rows))
            numbers = sum(values.size for values in batches[0].values()) * max(1, count / size)
            if numbers > _MOST_NUMBERS:
                raise ValueError(
                    f"The outputs would have {numbers:,.0f} numbers, but an answer may have "
                    f"{_MOST_NUMBERS:,}. Send fewer or shorter rows."
                )
        return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}

    return run_batches
