"""Scores of all tag sequences of a short text, to verify the recursions of a CRF."""

from __future__ import annotations

import itertools

import numpy as np


def potentials(batch: int, length: int, classes: int, seed: int = 0) -> np.ndarray:
    """Return random CRF potentials, with the same end scores at every token."""
    generator = np.random.default_rng(seed)
    values = generator.normal(0, 2, (batch, length, classes + 1, classes + 1)).astype("float32")
    values[:, :, :, -1] = generator.normal(0, 2, classes + 1)
    values[:, :, -1, -1] = 0.0
    return values


def every_path(values: np.ndarray, counted: np.ndarray) -> dict[tuple[int, ...], float]:
    """Return the score of each tag sequence for the counted tokens of one text.

    Args:
        values: float [length, states, states]; the last state stands for the ends of the text.
        counted: bool [length].
    """
    places, outside = np.flatnonzero(counted), len(values[0]) - 1
    found = {}
    for tags in itertools.product(range(outside), repeat=len(places)):
        before = (outside, *tags)
        score = sum(values[t, i, j] for t, i, j in zip(places, before, tags, strict=False))
        found[tags] = float(score + values[0, before[-1], outside])
    return found
