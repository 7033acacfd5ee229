"""Conditional random field, compared with an enumeration of all paths."""

from __future__ import annotations

import numpy as np
import pytest

from bert_keras.layers import ConditionalRandomField, log_likelihood
from tests import contracts
from tests.contracts import numpy
from tests.paths import every_path, potentials

COUNTED = np.array([[0, 1, 0, 1, 1], [0] * 5, [1] * 5, [0, 0, 0, 0, 1]]) == 1


def _scores(length: int) -> tuple[np.ndarray]:
    return (np.random.default_rng(length).normal(size=(3, length, 4)).astype("float32"),)


def test_contract(tmp_path):
    contracts.check_layer(ConditionalRandomField, _scores, num_weights=3, directory=tmp_path)


def test_potentials():
    (x,) = _scores(6)
    layer = contracts.as_built(ConditionalRandomField(), x)
    found = numpy(layer(x))
    transition, start, end = (numpy(w) for w in (layer.transition, layer.start, layer.end))
    assert found.shape == (3, 6, 5, 5)
    np.testing.assert_allclose(found[..., :4, :4], x[:, :, None] + transition, rtol=0, atol=1e-6)
    np.testing.assert_allclose(found[..., 4, :4], x + start, rtol=0, atol=1e-6)
    np.testing.assert_array_equal(found[..., :4, 4], np.broadcast_to(end, (3, 6, 4)))
    np.testing.assert_array_equal(found[..., 4, 4], 0.0)


def test_is_float32_throughout():
    (x,) = _scores(6)
    for policy in ("mixed_float16", "mixed_bfloat16"):
        layer = contracts.as_built(ConditionalRandomField(dtype=policy), x)
        expected = numpy(contracts.as_built(ConditionalRandomField(), x)(x))
        np.testing.assert_array_equal(numpy(layer(x)), expected)


@pytest.mark.parametrize("seed", range(3))
def test_likelihood_is_that_of_one_among_all_paths(seed: int):
    values = potentials(4, 5, 3, seed)
    tags = np.random.default_rng(seed).integers(0, 3, (4, 5))
    seen = np.where(COUNTED, tags, -100)  # tags of tokens that are not counted may have any value
    found = numpy(log_likelihood(values, seen, COUNTED))
    for row, counted in enumerate(COUNTED):
        paths = every_path(values[row], counted)
        expected = paths[tuple(tags[row][counted])] - np.logaddexp.reduce(list(paths.values()))
        np.testing.assert_allclose(found[row], expected, rtol=1e-5, atol=1e-5)
    assert found[1] == 0.0


def test_scores_far_apart_stay_exact():
    values = 50.0 * potentials(4, 5, 3)
    tags = np.zeros((4, 5), "int32")
    found = numpy(log_likelihood(values, tags, COUNTED))
    for row, counted in enumerate(COUNTED):
        paths = every_path(values[row].astype("float64"), counted)
        best = max(paths.values())
        expected = paths[(0,) * counted.sum()] - best
        expected -= np.log(sum(np.exp(score - best) for score in paths.values()))
        np.testing.assert_allclose(found[row], expected, rtol=1e-5, atol=1e-3)
