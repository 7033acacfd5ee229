"""Sequence packing: rows hold all examples, never overflow, and are nearly full."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_keras.data.sequence_packing import fill_rows, pack_batch


@settings(max_examples=300, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 40), max_size=200),
    longer=st.integers(0, 60),
    most=st.none() | st.integers(1, 6),
)
def test_no_row_is_overfull_or_empty(lengths: list[int], longer: int, most: int | None) -> None:
    row_length = max(lengths, default=1) + longer
    rows = fill_rows(np.array(lengths, np.int64), row_length, most)
    assert rows.shape == (len(lengths),)
    assert rows.dtype == np.int64
    counts = np.bincount(rows)
    assert counts.all()
    assert np.bincount(rows, weights=lengths).max(initial=0) <= row_length
    assert most is None or counts.max(initial=0) <= most
    np.testing.assert_array_equal(fill_rows(np.array(lengths), row_length, most), rows)


@settings(max_examples=100, deadline=None)
@given(lengths=st.lists(st.integers(1, 40), min_size=1, max_size=200), seed=st.integers(0, 9))
def test_rows_are_a_matter_of_lengths_alone(lengths: list[int], seed: int) -> None:
    """Rows depend on lengths alone: a permutation gives rows with the same lengths.

    Only examples of equal length may change places.
    """
    order = np.random.default_rng(seed).permutation(len(lengths))
    first = fill_rows(np.array(lengths), 64)
    other = fill_rows(np.array(lengths)[order], 64)
    for one, two in ((first, np.array(lengths)), (other, np.array(lengths)[order])):
        sums = np.bincount(one, weights=two)
        np.testing.assert_array_equal(sums, np.bincount(first, weights=lengths))


@pytest.mark.parametrize(
    ("draw", "row_length", "share"),
    [
        (lambda rng: rng.lognormal(2.35, 0.65, 50_000).astype(int).clip(1, 64) + 2, 128, 0.99),
        (lambda rng: rng.integers(3, 129, 50_000), 128, 0.99),
        (lambda rng: rng.lognormal(5, 0.9, 50_000).astype(int).clip(1, 510) + 2, 512, 0.97),
        (lambda rng: rng.integers(60, 61, 50_000), 128, 0.93),
    ],
    ids=["sentences", "uniform", "documents", "alike"],
)
def test_little_is_left_empty(draw, row_length: int, share: float) -> None:
    lengths = draw(np.random.default_rng(0))
    rows = fill_rows(lengths, row_length)
    assert lengths.sum() / row_length / (rows.max() + 1) > share


def test_rows_are_alike() -> None:
    """Long and short examples share rows, so that rows hold similar numbers of examples."""
    lengths = np.random.default_rng(0).lognormal(2.35, 0.65, 50_000).astype(int).clip(1, 64) + 2
    counts = np.bincount(fill_rows(lengths, 128))
    assert counts.std() < 0.2 * counts.mean()


def test_few_examples() -> None:
    assert fill_rows(np.zeros(0, int), 8).tolist() == []
    assert fill_rows(np.array([8]), 8).tolist() == [0]
    assert sorted(fill_rows(np.array([5, 3, 4, 4]), 8).tolist()) == [0, 0, 1, 1]
    assert fill_rows(np.array([1, 1, 1]), 8, 1).tolist() == [0, 1, 2]
    rows = fill_rows(np.array([70_000, 5, 65_531]), 2**17)  # The row length exceeds 16 bits.
    assert np.bincount(rows).tolist() in ([1, 2], [2, 1])


def test_what_cannot_be() -> None:
    """Impossible lengths and options are refused."""
    with pytest.raises(ValueError, match=r"1 to 8 tokens.* Received: an example of 9"):
        fill_rows(np.array([3, 9]), 8)
    with pytest.raises(ValueError, match="Received: an example of 0"):
        fill_rows(np.array([3, 0]), 8)
    with pytest.raises(ValueError, match=r"most_examples must be at least 1\. Received: 0"):
        fill_rows(np.array([3]), 8, 0)


# === Examples in packed rows: each token, label, weight and mask is in its place ===


@pytest.fixture
def batch() -> Any:
    """Return a batch of three examples with 3, 2 and 4 tokens, padded to 5."""
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
    return pack_batch(batch, np.array(rows), pad_id=9, per_token_labels=("tags",), **options)


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
    # The batch keeps three rows, so that the mean over rows equals the mean over examples.
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
    """With one example in a row, packing leaves the batch unchanged."""
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
