"""Targets of texts, as callers of `fit` and `evaluate` pass them."""

# A caller without a type checker may pass anything: arguments are checked when it runs.
# pyright: reportUnnecessaryIsInstance=false

from __future__ import annotations

import re
import types
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from bert_keras.data.class_names import class_numbers
from bert_keras.data.columns import labels_of, values_of
from bert_keras.errors import DataError


def targets_from(y: Any, labels: Sequence[str], problem: str) -> list[Any] | None:
    """Return targets as `data.Texts` takes them: names of labels, or numbers.

    Args:
        y: one target for each text. "single_label": a name or index of a label. "multi_label": a
            tuple of these, or a row of 0 and 1 with one entry for each label. "regression": a
            number. None for no targets.
        labels: names of the classes.
        problem: "single_label", "multi_label" or "regression".

    Returns:
        A list with a name, a tuple of names, or a number for each text.

    Raises:
        DataError: a target is missing or out of range; the message names the row.
    """
    if y is None:
        return None
    if isinstance(y, Mapping) and len(columns := cast("Mapping[str, Any]", y)) == 1:
        (y,) = columns.values()  # {"label": ...}, as for features
    if problem == "multi_label" and (rows := _flags(y, len(labels))) is not None:
        return [tuple(labels[index] for index in np.flatnonzero(row).tolist()) for row in rows]
    targets = labels_of("y", y)
    if problem == "regression":
        return targets
    if problem == "single_label":
        return [
            _names(target, labels, row)[0] if isinstance(target, int) else target
            for row, target in enumerate(targets)
        ]
    return [_names(target, labels, row) for row, target in enumerate(targets)]


_UNNAMED = re.compile(r"LABEL_\d+|\d+")  # names of classes that stand for their numbers


def named_targets(y: Any, labels: Sequence[str] | None) -> Any:
    """Return a column of class numbers of `datasets` as names of labels; other targets as they are.

    A `ClassLabel` has an order of its own, which need not be that of the labels of the task.

    Args:
        y: targets as `fit` takes them.
        labels: names of the classes of the task; None for a task without classes.

    Raises:
        DataError: the names of the column are not those of the labels, or a number has no name.
    """
    if not labels:
        return y
    if isinstance(y, Mapping) and len(columns := cast("Mapping[str, Any]", y)) == 1:
        return named_targets(next(iter(columns.values())), labels)
    feature: Any = getattr(cast("Any", y), "features", None)
    while (inner := getattr(feature, "feature", None)) is not None:
        feature = inner
    names: Any = getattr(feature, "names", None)
    if not isinstance(names, list) or all(map(_UNNAMED.fullmatch, labels)):
        return cast("Any", y)
    names = cast("list[str]", names)
    known = {label.casefold(): label for label in labels}
    if names != [*labels] and (unknown := [n for n in names if n.casefold() not in known]):
        raise DataError(
            f"y: a column of class numbers with the names {', '.join(names):.200}, and the labels "
            f"of the task are {', '.join(labels):.200}. {unknown[0]!r} is no label. Make the task "
            "with labels=y.features.names, or pass names of labels as `y`."
        )
    own = [name if name in labels else known[name.casefold()] for name in names]

    def named(value: Any, row: int) -> Any:
        """Return the name of a class number, or the names of a list of them."""
        if isinstance(value, tuple):
            return tuple(named(item, row) for item in cast("tuple[Any, ...]", value))
        if not isinstance(value, int):
            return value
        if not 0 <= value < len(own):
            raise DataError(
                f"y: row {row} has the class number {value}, and the column has the names of 0 to "
                f"{len(own) - 1}. Remove rows without a label."
            )
        return own[value]

    return [named(value, row) for row, value in enumerate(labels_of("y", y))]


def _flags(y: Any, num_classes: int) -> np.ndarray | None:
    """Return targets [texts, num_classes] of 0 and 1 as an array; None for other targets."""
    try:
        values = np.asarray(y)
    except ValueError:  # rows of unequal length
        return None
    is_number = values.dtype.kind in "biuf"
    if values.ndim != 2 or values.shape[1] != num_classes or not is_number:
        return None
    return values if np.isin(values, (0, 1)).all() else None


def _names(target: Any, labels: Sequence[str], row: int) -> tuple[str, ...]:
    """Return the label names of a target: of a name, an index, or a tuple of these.

    Args:
        target: the target of one text.
        labels: names of the classes.
        row: number of the text, for messages.
    """
    values = cast("tuple[Any, ...]", target if isinstance(target, tuple) else (target,))
    indices = class_numbers(labels)
    for value in values:
        if isinstance(value, int) and value not in indices:
            raise DataError(
                f"y: row {row} has the label index {value}, and the labels are {min(indices)} to "
                f"{max(indices)}. Correct the row, or make the task with more labels."
            )
    return tuple(labels[indices[value]] if isinstance(value, int) else value for value in values)


def weights_by_name(
    class_weight: Mapping[Any, float] | None,
    labels: Sequence[str],
    numbers: Mapping[int, int] | None = None,
) -> dict[str, float] | None:
    """Return the weights of classes by the names of their labels.

    Args:
        class_weight: weights by name, or by the number that stands for a class in the targets;
            None for none.
        labels: names of the classes.
        numbers: index of a class by the number that stands for it. None for the numbers of
            `class_numbers`, which are those in targets of text: with the labels "1", "2" and "3"
            the number 1 is the first class.

    Raises:
        ValueError: `class_weight` is no dictionary, or a key is no label.
    """
    if class_weight is None:
        return None
    if not isinstance(class_weight, Mapping):
        raise ValueError(
            "`class_weight` must be a dictionary from labels to weights, such as "
            f"{{{labels[0]!r}: 2.0}}. Received: class_weight={class_weight!r:.100}"
        )
    numbers = class_numbers(labels) if numbers is None else numbers
    names: dict[Any, str] = {number: labels[index] for number, index in numbers.items()}
    names |= {name: name for name in labels}
    if unknown := [key for key in class_weight if key not in names]:
        raise ValueError(
            f"`class_weight` must have names or indices of the labels {', '.join(labels)} as keys. "
            f"Received: {unknown[0]!r}"
        )
    return {names[key]: float(weight) for key, weight in class_weight.items()}


def tags_of_rows(y: Any, num_classes: int) -> list[list[Any]]:
    """Return the tags of the words of each sentence, as names or indices of labels.

    Args:
        y: for each sentence a list with the tag of each word.
        num_classes: number of labels.

    Raises:
        DataError: an index is out of range; the message names the sentence.
    """
    rows = [labels_of(f"y: row {number}", row) for number, row in enumerate(values_of("y", y))]
    for number, row in enumerate(rows):
        for tag in row:
            if isinstance(tag, int) and not 0 <= tag < num_classes:
                raise DataError(
                    f"y: row {number} has the tag index {tag}, and the labels are 0 to "
                    f"{num_classes - 1}. Correct the row, or make the task with more labels."
                )
    return rows


def refuse_generator(x: Any, y: Any) -> None:
    """Raise `ValueError` for targets beside a generator, which Keras would ignore silently."""
    if isinstance(x, types.GeneratorType) and y is not None:
        raise ValueError(
            "`y` is not read where `x` is a generator, which must yield batches of features with "
            "their targets. Pass text as a list, such as `list(texts)`."
        )
