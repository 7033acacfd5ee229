"""Labels of examples: their names, and whole numbers as labels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from bert_keras.data.columns import labels_of
from bert_keras.data.examples import TaggedWords, Texts
from bert_keras.data.faults import Faults
from bert_keras.errors import DataError

OUTSIDE = "O"

_INTEGER = re.compile("[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def label_names(examples: Texts | TaggedWords) -> list[str]:
    """Return the names of all labels, sorted; of tags with "O" first.

    Whole numbers are named by their digits ("0", "1", "10") and sorted as numbers. Truth values
    are 0 and 1.

    Raises:
        DataError: there are none, names and numbers are mixed, or the labels are numbers with a
            fraction, as in a regression.
    """
    if isinstance(examples, TaggedWords):
        tags = {tag for tags in examples.tags or () for tag in tags}
        if not tags:
            raise DataError("No sentence has tags.")
        return [OUTSIDE, *sorted(tags - {OUTSIDE})]
    rows = labels_of_rows(examples)
    labels = {label for row in rows for label in row}
    if not labels:
        raise DataError("No example has a label, so that there is nothing to learn.")
    if all(isinstance(label, str) and _NUMBER.fullmatch(label) for label in labels):
        _refuse_fractions(examples, rows)
    return list(map(str, sorted(labels)))


def names_of(labels: Sequence[Any]) -> list[str]:
    """Return names of classes as plain str; whole numbers are named by their digits."""
    return [str(_whole(label)) for label in labels_of("labels", labels)]


def class_numbers(names: Sequence[str]) -> dict[int, int]:
    """Return the classes that whole numbers mean as labels, by these numbers.

    A number is the index of a class. Where all names are whole numbers ("1" to "5"), it is the
    class of that name: so the labels of `label_names` mean the same classes as its examples.
    """
    if all(map(_INTEGER.fullmatch, names)):
        return {int(name): number for number, name in enumerate(names)}
    return {number: number for number in range(len(names))}


def labels_of_rows(examples: Texts) -> list[tuple[Any, ...]]:
    """Return the labels of every row: all of them str, or all of them int.

    Raises:
        DataError: names and numbers are mixed, a number has a fraction, or a row has a number
            twice.
    """
    faults = Faults()
    rows: list[tuple[Any, ...]] = []
    kind: type | None = None
    for index, target in enumerate(examples.targets or ()):
        row = tuple(map(_whole, target if isinstance(target, tuple) else (target,)))
        rows.append(row)
        with faults.row():
            place = place_of(examples.places, index)
            for label in row:
                if isinstance(label, float):
                    raise _fraction(place, label)
                kind = kind or type(label)
                if type(label) is not kind:
                    raise DataError(
                        f"{place}: all labels must be names, or all of them whole numbers. "
                        f"Received: {label!r} beside labels of type {kind.__name__}."
                    )
            if kind is int and len(set(row)) < len(row):
                raise DataError(
                    f"{place}: a label is said twice. Received: {target!r}. Give the numbers of "
                    "the labels that a row has, not 0 or 1 for every class."
                )
    faults.check()
    return rows


def place_of(places: Sequence[str], index: int) -> str:
    """Return the name of an example for messages."""
    return places[index] if places else f"example {index}"


def _whole(label: Any) -> Any:
    """A truth value or a whole float as an int; any other label itself."""
    is_whole = isinstance(label, float) and label.is_integer()
    return int(label) if is_whole or isinstance(label, bool) else label


def _refuse_fractions(examples: Texts, rows: Sequence[tuple[Any, ...]]) -> None:
    """Refuse the numbers with a fraction among labels in text that are all numbers.

    Raises:
        DataError: there is one.
    """
    faults = Faults()
    for index, row in enumerate(rows):
        if fractions := [label for label in row if not float(label).is_integer()]:
            faults.add(_fraction(place_of(examples.places, index), fractions[0]))
    faults.check()


def _fraction(place: str, label: Any) -> DataError:
    return DataError(
        f"{place}: the label {label!r} is a number with a fraction: to predict numbers, use "
        'problem="regression" (in recipes task=text_regression); to keep such labels as names of '
        "classes, write them as text and name all of them in labels=."
    )
