"""Names of labels: those in examples, those of a model, and numbers that stand for them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from numbers import Integral
from typing import Any, cast

from bert_keras.data.columns import labels_of
from bert_keras.data.examples import OUTSIDE, TaggedWords, Texts, place_of
from bert_keras.data.source_files import ErrorCollector
from bert_keras.errors import DataError

_INTEGER = re.compile("[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def label_names(examples: Texts | TaggedWords) -> list[str]:
    """Return the names of all labels in the examples, sorted; for tags, "O" comes first.

    Whole numbers are named by their digits ("0", "1", "10") and sorted as numbers. False and True
    are 0 and 1.

    Raises:
        DataError: no example has a label, names and numbers are mixed, or labels are numbers with
            a fraction, as in a regression.
    """
    if isinstance(examples, TaggedWords):
        tags = {tag for tags in examples.tags or () for tag in tags}
        if not tags:
            raise DataError(
                f"No sentence has tags. Received: {len(examples)} sentences. Pass `tags`, one for "
                "each word, to train on."
            )
        return [OUTSIDE, *sorted(tags - {OUTSIDE})]
    rows = labels_of_rows(examples)
    labels = {label for row in rows for label in row}
    if not labels:
        raise DataError(
            f"No example has a label. Received: {len(examples)} examples. Pass `targets`, one "
            "label for each text, to train on."
        )
    if all(isinstance(label, str) and _NUMBER.fullmatch(label) for label in labels):
        _refuse_fractions(examples, rows)
    return list(map(str, sorted(labels)))


def class_labels(labels: Sequence[Any]) -> list[str]:
    """Return the names of classes as plain str. The name of a whole number is its digits."""
    return [str(_whole(label)) for label in labels_of("labels", labels)]


def class_numbers(names: Sequence[str]) -> dict[int, int]:
    """Return the index of the class for each whole number that may be a label.

    A number is the index of a class, unless all names are whole numbers: for the names "1" to "5"
    the label 1 is class 0. So labels that `label_names` named keep their classes.
    """
    if all(map(_INTEGER.fullmatch, names)):
        return {int(name): number for number, name in enumerate(names)}
    return {number: number for number in range(len(names))}


def labels_of_rows(examples: Texts) -> list[tuple[Any, ...]]:
    """Return the labels of every row as a tuple: all labels are str, or all are int.

    Raises:
        DataError: names and numbers are mixed, a number has a fraction, or a row has the same
            number twice.
    """
    errors = ErrorCollector()
    rows: list[tuple[Any, ...]] = []
    kind: type[Any] | None = None
    for index, target in enumerate(examples.targets or ()):
        row = tuple(map(_whole, target if isinstance(target, tuple) else (target,)))
        rows.append(row)
        with errors.row():
            place = place_of(examples.places, index)
            for label in row:
                if isinstance(label, float):
                    raise _fraction(place, label)
                kind = kind or cast("type[Any]", type(label))
                if type(label) is not kind:
                    raise DataError(
                        f"{place}: all labels must be names, or all of them whole numbers. "
                        f"Received: {label!r} beside labels of type {kind.__name__}."
                    )
            if kind is int and len(set(row)) < len(row):
                raise DataError(
                    f"{place}: a row must name each label once. Received: {target!r}. Pass the "
                    "numbers of the labels that the row has, not a 0 or 1 for every class."
                )
    errors.check()
    return rows


def _whole(label: Any) -> Any:
    """Return a bool or a whole float as an int, and any other label as it is."""
    is_whole = isinstance(label, float) and label.is_integer()
    return int(label) if is_whole or isinstance(label, bool) else label


def _refuse_fractions(examples: Texts, rows: Sequence[tuple[Any, ...]]) -> None:
    """Raise a `DataError` for labels such as "0.5": texts that are all numbers, with a fraction.

    A file of scores has these. As labels they would be a class for every score.
    """
    errors = ErrorCollector()
    for index, row in enumerate(rows):
        if fractions := [label for label in row if not float(label).is_integer()]:
            errors.add(_fraction(place_of(examples.places, index), fractions[0]))
    errors.check()


def _fraction(place: str, label: Any) -> DataError:
    """Return the error of a label that is a number with a fraction."""
    return DataError(
        f"{place}: the label {label!r} is a number with a fraction: to predict numbers, use "
        'problem="regression" (in recipes task=text_regression); to keep such labels as names of '
        "classes, write them as text and name all of them in labels=."
    )


# === Names of classes ===


def class_names(num_classes: int | None, labels: Sequence[str] | None) -> list[str]:
    """Return the names of the classes as plain str; `labels` alone imply their number.

    Without `labels` the names are "LABEL_0", "LABEL_1" and so on. Whole numbers as labels are named
    by their digits ("0", "1").

    Raises:
        ValueError: neither is given, the two contradict each other, or two names are the same.
    """
    if isinstance(labels, str):
        raise ValueError(f"`labels` must be a list of names. Received: labels={labels!r:.100}")
    if num_classes is None:
        if labels is None:
            raise ValueError("Pass `labels` or `num_classes`. Received: neither.")
        num_classes = len(labels)
    is_count = not isinstance(num_classes, bool) and isinstance(num_classes, Integral)
    if not is_count or num_classes < 1:
        raise ValueError(
            f"`num_classes` must be an integer of at least 1. Received: {num_classes=!r:.100}"
        )
    if labels is None:
        return [f"LABEL_{i}" for i in range(num_classes)]
    names = [_name(label) for label in labels]
    if len(names) != num_classes or len(set(names)) != num_classes or None in names:
        raise ValueError(
            f"`labels` must be {num_classes} different names, one for each class. "
            f"Received: labels={labels!r}"
        )
    return [name for name in names if name is not None]


def _name(label: Any) -> str | None:
    """Return a str or a whole number as plain str, and None for any other value."""
    if isinstance(label, str):
        return str.__str__(label)  # the text itself, of NumPy's str too
    is_whole = not isinstance(label, bool) and isinstance(label, Integral)
    return str(int(label)) if is_whole else None
