"""Supervised examples check that their columns have the same length and valid values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bert_keras.data.examples import (
    Answer,
    Choices,
    Question,
    TaggedWords,
    Texts,
    class_labels,
    class_numbers,
    label_names,
    place_of,
)
from bert_keras.data.text_classification import read_table
from bert_keras.errors import DataError
from tests.data.test_columns import _Series


def test_columns_that_fit() -> None:
    assert len(Texts(["a", "b"])) == 2
    assert len(Texts(["a"], ["b"], [1.5], ["f:1"])) == 1
    assert len(Texts([], targets=[])) == 0
    assert len(TaggedWords([["a", "b"], ["c"]], [["O", "B-X"], ["O"]], ["f:1", "f:4"])) == 2
    assert len(TaggedWords([["a"]])) == 1
    assert len(Choices(["", "b"], [["x", "y"], ["x", "y", "z"]], [1, 2])) == 2
    # Offsets count code points: the emoji counts as one.
    assert Question("1", "Who?", "😀 Ann", (Answer("Ann", 2),)).answers[0].start == 2
    assert Question("1", "Who?", "Ann", is_impossible=True).answers == ()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Texts("ab"), "texts: a sequence of str is needed, not one str"),
        (lambda: Texts(["a"], "b"), "pairs: a sequence of str"),
        (lambda: Texts(["a"], targets="b"), "targets must be a list with one target for each row"),
        (lambda: Texts(["a", None], places=["f:1", "f:7"]), "f:7 is missing"),  # pyright: ignore[reportArgumentType]
        (lambda: Texts(["a", 1]), "texts: row 1 is of type int"),  # pyright: ignore[reportArgumentType]
        (lambda: Texts(["a", "b"], ["c"]), "same length.*2 texts, 1 pairs"),
        (lambda: Texts(["a", "b"], targets=["c"]), "2 texts, 1 targets"),
        (lambda: Texts(["a", "b"], places=["c"]), "2 texts, 1 places"),
        (lambda: TaggedWords([["a"]], []), "1 words, 0 tags"),
        (
            lambda: TaggedWords([["a"], []], places=["f:1", "f:3"]),
            "f:3: a sentence or a word is empty",
        ),
        (lambda: TaggedWords([["a", ""]]), "row 0: a sentence or a word is empty"),
        (lambda: TaggedWords(["ab"]), "row 0: words: a sequence of str"),
        (lambda: TaggedWords([["a", "b"]], [["O"]]), "row 0: .*2 words and 1 tags"),
        (lambda: TaggedWords([["a"]], ["O"]), "row 0: tags: a sequence of str"),
        (lambda: TaggedWords([["a"]], [0]), "row 0: tags: a list, an array"),  # pyright: ignore[reportArgumentType]
        (lambda: TaggedWords([["a"]], [[0]]), "row 0: tags must be names. .* number 0"),  # pyright: ignore[reportArgumentType]
        (lambda: TaggedWords([["a"]], _Series([[1]]), ["f:3"]), "f:3: tags must be names"),  # pyright: ignore[reportArgumentType]
        (lambda: Choices(["a"], [["x"]]), "row 0: a row needs at least two options"),
        (lambda: Choices(["a"], [["x", "y"]], [2], ["f:9"]), "f:9: .*0 to 1.*Received: 2"),
        (lambda: Choices(["a"], [["x", "y"]], [-1]), "0 to 1.*Received: -1"),
        (lambda: Choices(["a"], ["xy"]), "options: a sequence of str"),
        (lambda: Choices(["a"], [["x", "y"]], [0.5]), "index of an option.*Received: 0.5"),  # pyright: ignore[reportArgumentType]
        (lambda: Choices(["a"], [["x", "y"]], [True]), "index of an option.*Received: True"),
        (lambda: TaggedWords([["a", "b"]], [["O", ""]]), "row 0: a tag is empty"),
        (lambda: Question("7", "", "abc", (Answer("b", 2),), place="f"), "f: question '7'.*'c'"),
        (lambda: Question("7", "", "abc", (Answer("c", -1),)), "not at character -1"),
        (lambda: Question("7", "", "abc", (Answer("", 0),)), "the answer '' is not at"),
        (lambda: Question("7", "", "a", (Answer("a", 0),), True), "impossible, but has answers"),
    ],
)
def test_columns_that_do_not(make: Callable[[], object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        make()


# === Names of labels, from texts and from numbers ===


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


def test_places() -> None:
    """An error names the place of an example, or its number if no place is known."""
    assert place_of(["a:1", "a:5"], 1) == "a:5"
    assert place_of((), 1) == "example 1"
