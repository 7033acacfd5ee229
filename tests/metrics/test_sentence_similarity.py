"""Correlations of scores, compared with second formulas."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_keras import metrics


@settings(deadline=None, derandomize=True, max_examples=200)
@given(
    st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=2, max_size=10).filter(
        lambda rows: all(len(set(column)) > 1 for column in zip(*rows, strict=True))
    )
)
def test_correlations_by_second_formulas(rows: list[tuple[int, int]]) -> None:
    true, guess = np.array(rows, float).T
    assert metrics.pearson(true, guess) == pytest.approx(np.corrcoef(true, guess)[0, 1], abs=1e-9)
    # A rank is the mean of the positions that equal values share.
    ranks = [
        [(each < x).sum() + ((each == x).sum() + 1) / 2 for x in each] for each in (true, guess)
    ]
    assert metrics.spearman(true, guess) == pytest.approx(np.corrcoef(ranks)[0, 1], abs=1e-9)


@pytest.mark.parametrize("score", [metrics.pearson, metrics.spearman])
@pytest.mark.parametrize("odd", [[2.0, 2.0, 2.0], [1.0, np.nan, 2.0], [1.0, np.inf, 2.0]])
def test_correlations_that_are_not_defined(score: Callable[..., float], odd: list[float]) -> None:
    """An undefined correlation is NaN, without a warning.

    Warnings are errors in these tests.
    """
    assert math.isnan(score(odd, [1.0, 2.0, 3.0]))
    assert math.isnan(score([1.0, 2.0, 3.0], odd))
