"""Values added to the attention scores of masked keys."""

from __future__ import annotations

import numpy as np
import pytest
from keras import ops

from bert_keras.kernels.mask_values import MASKED, lowest
from tests.contracts import numpy


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_it_is_finite_and_leaves_nothing_of_a_key(dtype: str) -> None:
    low = ops.cast(lowest(dtype), dtype)
    assert np.isfinite(numpy(ops.cast(low, "float32")))
    # Beside a bias as large as biases get, and where all keys are masked.
    scores = ops.stack([ops.cast(50.0, dtype), low + ops.cast(50.0, dtype)])
    np.testing.assert_array_equal(numpy(ops.cast(ops.softmax(scores), "float32")), [1, 0])
    assert lowest("float32") == MASKED
