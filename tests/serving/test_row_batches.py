"""A function of many rows, run on a few rows at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bert_keras.serving import row_batches
from bert_keras.serving.row_batches import in_batches


def test_rows_run_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []

    def run(columns: Any) -> dict[str, np.ndarray]:
        sizes.append(len(columns["x"]))
        return {"double": 2 * np.array(columns["x"]), "sum": columns["x"] + columns["y"]}

    x, y = np.arange(7), np.arange(7) + 100
    found = in_batches(run, 3)({"x": x, "y": y})
    assert sizes == [3, 3, 1]
    np.testing.assert_array_equal(found["double"], 2 * x)
    np.testing.assert_array_equal(found["sum"], x + y)
    monkeypatch.setattr(row_batches, "_MOST_NUMBERS", 13)
    with pytest.raises(ValueError, match="14 numbers"):
        in_batches(run, 3)({"x": x, "y": y})
    assert sizes == [3, 3, 1, 3]  # it is refused after the first batch
    with pytest.raises(ValueError, match=r"equally many rows\. Received: x 7, y 1"):
        in_batches(run, 3)({"x": x, "y": y[:1]})
    assert len(sizes) == 4
