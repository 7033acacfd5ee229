"""Targets and class weights in the forms that callers pass to `fit`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bert_keras.errors import DataError
from bert_keras.models.text_targets import (
    named_targets,
    tags_of_rows,
    targets_from,
    weights_by_name,
)

LABELS = ["bad", "good", "so"]


@pytest.mark.parametrize(
    "y",
    [
        ["good", "bad"],
        np.array(["good", "bad"]),
        [1, 0],
        np.array([1, 0]),
        {"label": np.array([1, 0], np.int32)},
    ],
)
def test_single_labels_are_names(y: Any) -> None:
    assert targets_from(y, LABELS, "single_label") == ["good", "bad"]


@pytest.mark.parametrize(
    "y",
    [
        [("good", "so"), ()],
        [["good", "so"], []],
        [[0, 1, 1], [0, 0, 0]],
        np.array([[0.0, 1.0, 1.0], [0.0, 0.0, 0.0]]),
        [(1, 2), ()],
    ],
)
def test_several_labels_are_tuples_of_names(y: Any) -> None:
    assert targets_from(y, LABELS, "multi_label") == [("good", "so"), ()]


def test_numbers_stay_numbers() -> None:
    assert targets_from(np.array([0.5, 2.0]), ["LABEL_0"], "regression") == [0.5, 2.0]
    assert targets_from(None, LABELS, "single_label") is None


def test_indices_out_of_range_are_named() -> None:
    with pytest.raises(DataError, match="row 1 has the label index 3"):
        targets_from([0, 3], LABELS, "single_label")
    with pytest.raises(DataError, match="row 0 has the tag index -1"):
        tags_of_rows([[-1, 0]], 3)
    with pytest.raises(DataError, match="y: row 1: a list, an array"):
        tags_of_rows([[0], 1], 3)
    assert tags_of_rows([["O"], np.array([1, 2])], 3) == [["O"], [1, 2]]


def test_class_weights_have_names_or_indices() -> None:
    assert weights_by_name(None, LABELS) is None
    assert weights_by_name({0: 2, "good": 3}, LABELS) == {"bad": 2.0, "good": 3.0}
    for key in (3, "other"):
        with pytest.raises(ValueError, match="names or indices of the labels bad, good, so"):
            weights_by_name({key: 1.0}, LABELS)
    with pytest.raises(ValueError, match=r"a dictionary .* \{'bad': 2.0\}. Received: .*'balanced'"):
        weights_by_name("balanced", LABELS)  # pyright: ignore[reportArgumentType]


def test_rows_of_indices_are_no_flags() -> None:
    """In multi-label targets, rows of 0 and 1 are label indices, not flags."""
    assert targets_from([(0, 1), (1, 0)], LABELS, "multi_label") == [
        ("bad", "good"),
        ("good", "bad"),
    ]
    assert targets_from([(0, 1, 2), (1, 0, 2)], LABELS, "multi_label") == [
        ("bad", "good", "so"),
        ("good", "bad", "so"),
    ]


def test_an_index_below_zero_is_no_label_from_the_end() -> None:
    """A negative label index is refused."""
    for y, problem in (([-1], "single_label"), ([(0, -1)], "multi_label")):
        with pytest.raises(DataError, match="row 0 has the label index -1"):
            targets_from(y, LABELS, problem)


def test_whole_numbers_as_names_mean_the_same_classes_everywhere() -> None:
    """An integer means the label with this name, in targets and in class weights.

    `text_examples` has the same rule. If the labels are "1" to "3", the number 3 is the last one.
    """
    stars = ["1", "2", "3"]
    assert targets_from([3, 1], stars, "single_label") == ["3", "1"]
    assert weights_by_name({3: 2.0}, stars) == {"3": 2.0}
    with pytest.raises(DataError, match="row 0 has the label index 0, and the labels are 1 to 3"):
        targets_from([0], stars, "single_label")


class _Column(list[Any]):
    """Stand-in for a column of `datasets` with class numbers."""

    def __init__(self, values: list[Any], names: list[str], depth: int = 0):
        super().__init__(values)
        feature = SimpleNamespace(names=names)
        for _ in range(depth):
            feature = SimpleNamespace(feature=feature)
        self.features = feature


def test_class_numbers_of_a_column_are_read_by_their_names() -> None:
    column = _Column([0, 1], ["neg", "POS"])
    assert named_targets(column, ["pos", "neg"]) == ["neg", "pos"]
    assert named_targets({"label": column}, ["pos", "neg"]) == ["neg", "pos"]
    assert named_targets(_Column([[1], [0, 1]], ["a", "b"], 1), ["b", "a"]) == [("b",), ("a", "b")]
    for labels in (["LABEL_0", "LABEL_1"], ["0", "1"], None):
        assert named_targets(column, labels) is column
    assert named_targets([0, 1], ["pos", "neg"]) == [0, 1]
    with pytest.raises(DataError, match=r"names neg, POS, .* are bad, good\. 'neg' is no label"):
        named_targets(column, ["bad", "good"])
    with pytest.raises(DataError, match=r"row 1 has the class number -1"):
        named_targets(_Column([0, -1], ["neg", "pos"]), ["pos", "neg"])


def test_a_column_of_datasets() -> None:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features({"label": datasets.ClassLabel(names=["neg", "pos"])})
    data = datasets.Dataset.from_dict({"label": [0, 1, 1]}, features=features)
    assert named_targets(data["label"], ["pos", "neg"]) == ["neg", "pos", "pos"]
