"""Choices as rows."""

from __future__ import annotations

import keras
import numpy as np

from bert_keras.layers import MergeChoices, SplitChoices
from tests.contracts import numpy

IDS = np.arange(24).reshape(2, 3, 4).astype("int32")


def test_there_and_back() -> None:
    merged = numpy(MergeChoices()(IDS))
    np.testing.assert_array_equal(merged, IDS.reshape(6, 4))
    scores = merged[:, :1].astype("float32")
    np.testing.assert_array_equal(numpy(SplitChoices()(scores, IDS)), IDS[:, :, 0])


def test_symbols() -> None:
    ids = keras.Input((None, None), dtype="int32")
    merged = MergeChoices()(ids)
    assert (merged.shape, merged.dtype) == ((None, None), "int32")
    scores = SplitChoices()(keras.Input((1,)), ids)
    assert (scores.shape, scores.dtype) == ((None, None), "float32")
