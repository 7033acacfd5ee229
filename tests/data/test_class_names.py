"""Names of labels, from texts and from numbers, and the numbers that stand for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bert_keras.data.class_names import class_labels, class_numbers, label_names
from bert_keras.data.examples import TaggedWords, Texts
from bert_keras.data.text_classification import read_table
from bert_keras.errors import DataError


def _texts(targets: Any) -> Texts:
    size = 0 if targets is None else len(targets)
    return Texts(["a text"] * (size or 1), targets=targets)


def test_names_of_labels_are_sorted() -> None:
    assert label_names(_texts(["b", "a", "b", "c"])) == ["a", "b", "c"]
    assert label_names(_texts([("b", "a"), (), ("c",), ("a",)])) == ["a", "b", "c"]
    words = TaggedWords([["a", "b"], ["c"]], [["I-PER", "B-LOC"], ["O"]])
    assert label_names(words) == ["O", "B-LOC", "I-PER"]
    for nothing in (_texts(None), _texts([(), (), (), ()]), TaggedWords([["a"]])):
        with pytest.raises(DataError, match=r"has a label|has tags"):
            label_names(nothing)


@pytest.mark.parametrize(
    ("targets", "names"),
    [
        ([10, 9, 0, 10], ["0", "9", "10"]),
        (np.array([10, 9, 0]), ["0", "9", "10"]),
        ([1.0, 0.0, 10.0], ["0", "1", "10"]),
        ([True, False], ["0", "1"]),
        ([-1, 1], ["-1", "1"]),
        ([(2, 10), (), 3], ["2", "3", "10"]),
        (["10", "9"], ["10", "9"]),  # Labels that are text keep their text order.
    ],
    ids=repr,
)
def test_whole_numbers_are_named_by_their_digits(targets: Any, names: list[str]) -> None:
    assert label_names(_texts(targets)) == names


def test_names_and_numbers_are_not_mixed() -> None:
    with pytest.raises(DataError, match=r"example 2: all labels must be names.*Received: 1 beside"):
        label_names(_texts(["a", "b", 1]))
    with pytest.raises(DataError, match=r"example 1: all labels must be names.*Received: 'a'"):
        label_names(_texts([(1, 2), ("a",)]))


def test_numbers_with_a_fraction_are_no_classes(tmp_path: Path) -> None:
    scores = [f"{number / 40:.3f}" for number in range(1, 41)]
    table = tmp_path / "a.csv"
    table.write_text("text,label\n" + "".join(f"a text,{score}\n" for score in scores))
    data = read_table(table, text="text", label="label")
    with pytest.raises(DataError) as caught:
        label_names(data)
    lines = str(caught.value).split("\n")
    assert lines[0] == "39 errors:"
    assert lines[1].startswith(f"{table}:2: the label '0.025' is a number with a fraction")
    assert 'problem="regression" (in recipes task=text_regression)' in lines[1]
    with pytest.raises(DataError, match=r"example 1: the label 0\.5 is a number with a fraction"):
        label_names(_texts([1.0, 0.5]))


def test_fractions_beside_names_are_names() -> None:
    """A column with one value that is no number has text labels."""
    assert label_names(_texts(["3.11", "3.12", "other"])) == ["3.11", "3.12", "other"]
    assert label_names(_texts(["1.2.3", "1.2.4"])) == ["1.2.3", "1.2.4"]
    assert label_names(_texts(["1.0", "0.0"])) == ["0.0", "1.0"]


def test_names_become_plain_str() -> None:
    for labels in (["0", "1"], [0, 1], np.array([0, 1]), np.array(["0", "1"]), [False, True]):
        names = class_labels(labels)  # pyright: ignore[reportArgumentType]
        assert names == ["0", "1"]
        assert set(map(type, names)) == {str}


def test_the_classes_that_numbers_mean() -> None:
    """Numbers are label names if all names are numbers, and class indices otherwise."""
    assert class_numbers(["b", "a"]) == {0: 0, 1: 1}
    assert class_numbers(["1", "2", "5"]) == {1: 0, 2: 1, 5: 2}
    assert class_numbers(["1", "b"]) == {0: 0, 1: 1}
