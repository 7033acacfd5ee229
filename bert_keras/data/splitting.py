"""Validation split: rows drawn at random, rows of one first text together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bert_keras.data.sampling import Draws, Stream
from bert_keras.errors import DataError


def validation_split(
    count: int, share: float, *, seed: int = 0, firsts: Sequence[str] | None = None
) -> tuple[list[int], list[int]]:
    """Draw the rows to learn from and those to validate on, each in the order of the data.

    Keras takes the last rows instead, which are of one label where a table is sorted.

    Args:
        count: number of rows.
        share: share of the rows to validate on, in (0, 1); at least one row stays on each side.
        seed: of the draw.
        firsts: the first texts of pairs. Rows of one first text stay together: a model that has
            learned from some of them knows half of the others.

    Raises:
        DataError: fewer than two rows.
        ValueError: a share out of range.
    """
    if not 0 < share < 1:
        raise ValueError(f"validation_split must be above 0 and below 1. Received: {share}")
    if count < 2:
        raise DataError(
            f"{count} rows cannot be split: nothing would be left to learn from. Pass validation "
            "data of its own."
        )
    keys = Draws(seed, epoch=1).keys(Stream.PLAN, count)
    if firsts is not None:
        first = {text: row for row, text in reversed(list(enumerate(firsts)))}
        keys = keys[[first[text] for text in firsts]]
    order = np.argsort(keys, kind="stable")
    bounds = 1 + np.flatnonzero(np.diff(keys[order]))  # where another text begins
    wanted = rows_to_learn(count, share)
    size = min(bounds.tolist(), key=lambda bound: abs(bound - wanted), default=wanted)
    learned, validated = (np.sort(part).tolist() for part in (order[:size], order[size:]))
    return learned, validated


def rows_to_learn(count: int, share: float) -> int:
    """Return how many rows are left to learn from: at least one, and one to validate on."""
    return min(max(1, count - max(1, round(count * share))), count - 1)
