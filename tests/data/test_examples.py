"""Supervised examples check that their columns have the same length and valid values."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bert_keras.data.examples import (
    Answer,
    Choices,
    Question,
    TaggedWords,
    Texts,
    place_of,
)
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


def test_places() -> None:
    """An error names the place of an example, or its number if no place is known."""
    assert place_of(["a:1", "a:5"], 1) == "a:5"
    assert place_of((), 1) == "example 1"
