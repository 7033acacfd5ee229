"""The best tags and their chances, against all paths one by one."""

from __future__ import annotations

import numpy as np
import pytest

from bert_keras import viterbi
from tests.paths import every_path, potentials

# One token, gaps, nothing, everything.
COUNTED = np.array([[0, 0, 1, 0, 0], [0, 1, 0, 1, 1], [0] * 5, [1] * 5])


@pytest.mark.parametrize("seed", range(5))
def test_decode_finds_the_best_of_all_paths(seed: int):
    values = potentials(4, 5, 3, seed)
    found = viterbi.decode(values, COUNTED)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found < 0, COUNTED == 0)
    for row, counted in enumerate(COUNTED == 1):
        paths = every_path(values[row], counted)
        assert tuple(found[row][counted]) == max(paths, key=lambda tags: paths[tags])


def test_marginals_are_sums_over_all_paths():
    values = potentials(4, 5, 3)
    found = viterbi.marginals(values, COUNTED)
    expected = np.zeros((4, 5, 3))
    for row, counted in enumerate(COUNTED == 1):
        paths = every_path(values[row], counted)
        total = np.logaddexp.reduce(list(paths.values()))
        for tags, score in paths.items():
            for place, tag in zip(np.flatnonzero(counted), tags, strict=True):
                expected[row, place, tag] += np.exp(score - total)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_allclose(found.sum(-1), COUNTED, atol=1e-6)


def test_tags_that_a_field_forbids():
    """Minus infinity is a score: here tag 0 may follow nothing but tag 1."""
    values = potentials(1, 5, 3)
    values[:, :, [0, 2, 3], 0] = -np.inf
    tags = viterbi.decode(values, np.ones((1, 5)))[0]
    assert not any(b == 0 and a != 1 for a, b in zip([3, *tags], tags, strict=False))
    assert np.isfinite(viterbi.marginals(values, np.ones((1, 5)))).all()


def test_shapes_that_do_not_fit():
    with pytest.raises(ValueError, match=r"one value for each token\. .*\(4, 5, 4, 4\) and \(4, 6"):
        viterbi.decode(potentials(4, 5, 3), np.ones((4, 6)))
