"""Finite numbers that replace minus infinity in masks."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from keras import ops

from bert_keras.kernels import mask_values
from bert_keras.kernels.mask_values import LOG_OF_ZERO, MASKED, beside_scores, lowest
from tests.contracts import numpy


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_it_is_finite_and_leaves_nothing_of_a_key(dtype: str) -> None:
    low = ops.cast(lowest(dtype), dtype)
    assert np.isfinite(numpy(ops.cast(low, "float32")))
    # The value masks a key beside a large bias, and keeps the softmax finite if all keys are
    # masked.
    scores = ops.stack([ops.cast(50.0, dtype), low + ops.cast(50.0, dtype)])
    np.testing.assert_array_equal(numpy(ops.cast(ops.softmax(scores), "float32")), [1, 0])
    assert lowest("float32") == MASKED


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_score_can_be_added_to_half_of_the_smallest_number(dtype: str) -> None:
    low = np.asarray(beside_scores(float(np.finfo(dtype).min)), dtype)
    assert np.isfinite(low + low)
    assert np.exp(low) == 0


_NUMBER = re.compile(r"-1e9|-3e4|-1e4\b|finfo\([^)]*\)\.min")


@pytest.mark.parametrize("folder", ["kernels", "layers", "models"])
def test_every_mask_takes_its_number_from_one_place(folder: str) -> None:
    root = Path(mask_values.__file__).parents[1]
    for path in sorted((root / folder).rglob("*.py")):
        if path.name != "mask_values.py":
            for line in path.read_text(encoding="utf-8").splitlines():
                assert "beside_scores" in line or not _NUMBER.search(line), f"{path}: {line}"


def test_the_exponential_of_the_logarithm_of_zero_is_zero() -> None:
    assert np.exp(LOG_OF_ZERO) == 0
