"""Batches of a bounded size for functions that take any number of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

_MOST_NUMBERS = 2**24  # maximum number of numbers in the outputs of all rows of a request
_Run = Callable[[Mapping[str, Any]], dict[str, np.ndarray]]


def in_batches(run: _Run, size: int) -> _Run:
    """Return a function that runs `run` on at most `size` rows at once, which bounds its memory.

    It raises `ValueError` if the inputs have different numbers of rows, or if the outputs of all
    rows would be too large for one answer.
    """

    def run_batches(columns: Mapping[str, Any]) -> dict[str, np.ndarray]:
        counts = {name: len(values) for name, values in columns.items()}
        count = max(counts.values())
        if min(counts.values()) < count:
            received = ", ".join(f"{name} {number}" for name, number in counts.items())
            raise ValueError(f"The inputs must have equally many rows. Received: {received}.")
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
