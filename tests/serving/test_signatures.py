"""Rows of outputs: a few at a time, and padding that comes off and on again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bert_keras.serving import signatures
from bert_keras.serving.signatures import in_batches, joined_rows, without_padding


def words(*texts: str) -> np.ndarray:
    return np.array([*texts], object)


ENTITIES: dict[str, Any] = {
    "label": words("PER", ""),
    "text": words("Ada", ""),
    "start": np.array([3, 0], np.int32),
    "end": np.array([6, 0], np.int32),
    "score": np.array([0.5, 0.0], np.float32),
    "count": np.int32(1),
}
MASKS: dict[str, Any] = {
    "tokens": np.array([["a", "b"], ["", ""]], object),
    "token_ids": np.array([[5, 6], [9, 9]], np.int32),
    "scores": np.array([[0.5, 0.25], [0, 0]], np.float32),
    "mask_count": np.int32(1),
}
VECTORS: dict[str, Any] = {
    "sequence_output": np.array([[1.0, 2.0], [0.0, 0.0]], np.float32),
    "token_ids": np.array([7, 9], np.int32),
    "padding_mask": np.array([1, 0], np.int32),
    "sentence_vector": np.array([1.0, 2.0], np.float32),
}


@pytest.mark.parametrize("row", [ENTITIES, MASKS, VECTORS])
def test_padding_comes_off_and_on_again(row: dict[str, Any]) -> None:
    short = without_padding(row)
    longest = {n: x for n, x in row.items() if np.ndim(x) and n not in ("sentence_vector",)}
    assert all(len(short[name]) == 1 for name in longest)
    other = {name: np.concatenate([x, x]) for name, x in short.items() if name in longest}
    joined = joined_rows([short, {**short, **other}], pad_id=9)
    for name, values in longest.items():
        np.testing.assert_array_equal(joined[name][0], values)
        assert joined[name].dtype == values.dtype
    counts = [name for name in row if name not in longest and name != "sentence_vector"]
    assert [joined[name].tolist() for name in counts] == [[1, 1]] * len(counts)


def test_labels_have_no_padding() -> None:
    row = {"labels": words("a", "b"), "count": np.int32(1)}  # how many are above a threshold
    assert without_padding(row) == row


def test_scalars_keep_their_type() -> None:
    joined = joined_rows([{"label": "a", "score": np.float32(0.5)}] * 2)
    assert joined["label"].dtype == object
    assert joined["score"].dtype == np.float32


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
    monkeypatch.setattr(signatures, "_MOST_NUMBERS", 13)
    with pytest.raises(ValueError, match="14 numbers"):
        in_batches(run, 3)({"x": x, "y": y})
    assert sizes == [3, 3, 1, 3]  # it is refused after the first batch
    with pytest.raises(ValueError, match=r"equally many rows\. Received: x 7, y 1"):
        in_batches(run, 3)({"x": x, "y": y[:1]})
    assert len(sizes) == 4
