"""Examples of a batch side by side: every token, label, weight and mask finds its place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bert_keras.data.packed_batch import pack_batch


@pytest.fixture
def batch() -> Any:
    """Three examples of 3, 2 and 4 tokens, padded to 5."""
    lengths = np.array([[3], [2], [4]])
    mask = (np.arange(5) < lengths).astype("int32")
    tokens = (10 * np.arange(1, 4)[:, None] + np.arange(5)).astype("int32")
    x = {
        "token_ids": np.where(mask, tokens, 9).astype("int32"),
        "segment_ids": mask * (np.arange(5) > 1).astype("int32"),
        "padding_mask": mask,
        "mask_positions": np.array([[1, 0], [0, 1], [3, 0]], "int32"),
    }
    y = {
        "mlm": np.array([[7, 0], [5, 6], [8, 0]], "int32"),
        "label": np.array([[1, 2], [3, 4], [5, 6]], "float32"),
        "tags": tokens + 1,
    }
    weights = {
        "mlm": np.array([[1, 0], [1, 1], [1, 0]], "float32"),
        "label": np.array([1, 0.5, 2], "float32"),
        "tags": mask * np.float32(0.5),
    }
    return x, y, weights


def _packed(batch: Any, rows: list[int], **options: Any) -> Any:
    options = {"shape": (3, 6), "max_examples": 3, "max_predictions": 4, **options}
    return pack_batch(batch, np.array(rows), pad_id=9, token_names=("tags",), **options)


def test_everything_finds_its_place(batch: Any) -> None:
    x, y, weights = _packed(batch, [0, 0, 1])
    nothing = [0] * 6
    assert {name: values.tolist() for name, values in x.items()} == {
        "token_ids": [[10, 11, 12, 20, 21, 9], [30, 31, 32, 33, 9, 9], [9] * 6],
        "segment_ids": [[0, 0, 1, 0, 0, 0], [0, 0, 1, 1, 0, 0], nothing],
        "position_ids": [[0, 1, 2, 0, 1, 0], [0, 1, 2, 3, 0, 0], nothing],
        "example_ids": [[1, 1, 1, 2, 2, 0], [1, 1, 1, 1, 0, 0], nothing],
        "first_positions": [[0, 3, 0], [0, 0, 0], [0, 0, 0]],
        "mask_positions": [[1, 3, 4, 0], [3, 0, 0, 0], [0] * 4],
    }
    assert y["mlm"].tolist() == [[7, 5, 6, 0], [8, 0, 0, 0], [0] * 4]
    assert y["label"].tolist() == [
        [[1, 2], [3, 4], [0, 0]],
        [[5, 6], [0, 0], [0, 0]],
        [[0, 0]] * 3,
    ]
    assert y["tags"].tolist() == [[11, 12, 13, 21, 22, 0], [31, 32, 33, 34, 0, 0], nothing]
    assert weights["mlm"].tolist() == [[1, 1, 1, 0], [1, 0, 0, 0], [0] * 4]
    assert weights["label"].tolist() == [[1, 0.5, 0], [2, 0, 0], [0] * 3]
    # Three rows of three examples: the mean over the rows is that over the examples.
    assert weights["tags"].tolist() == [[0.5] * 5 + [0], [0.5] * 4 + [0, 0], nothing]


def test_weights_of_tokens_count_rows_per_example(batch: Any) -> None:
    _, _, weights = _packed(batch, [0, 0, 1], shape=(2, 6))
    assert weights["tags"].max() == np.float32(0.5 * 2 / 3)
    assert weights["label"].max() == 2


def test_types_stay(batch: Any) -> None:
    for part, packed in zip(batch, _packed(batch, [0, 1, 2]), strict=True):
        for name, values in packed.items():
            assert values.dtype == part.get(name, np.zeros(0, "int32")).dtype


def test_an_example_a_row_is_the_batch(batch: Any) -> None:
    x, y, weights = _packed(batch, [0, 1, 2], shape=(3, 5), max_examples=1, max_predictions=2)
    for name in ("token_ids", "segment_ids", "mask_positions"):
        np.testing.assert_array_equal(x[name], batch[0][name])
    np.testing.assert_array_equal(x["example_ids"], batch[0]["padding_mask"])
    np.testing.assert_array_equal(y["mlm"], batch[1]["mlm"])
    np.testing.assert_array_equal(y["label"][:, 0], batch[1]["label"])
    np.testing.assert_array_equal(weights["tags"], batch[2]["tags"])


def test_without_segments_and_masks(batch: Any) -> None:
    x, y, weights = batch
    for part, name in ((x, "segment_ids"), (x, "mask_positions"), (y, "mlm"), (weights, "mlm")):
        del part[name]
    packed_x, packed_y, packed_weights = _packed(batch, [0, 0, 1])
    assert sorted(packed_x) == ["example_ids", "first_positions", "position_ids", "token_ids"]
    assert sorted(packed_y) == sorted(packed_weights) == ["label", "tags"]
