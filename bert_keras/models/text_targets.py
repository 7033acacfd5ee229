"""Targets and class weights of texts, as callers of `fit` hand them over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_keras.data.columns import labels_of, texts_of, values_of
from bert_keras.data.labels import class_numbers
from bert_keras.errors import DataError

TEXT_PAIR = ("text", "pair")


def text_pair(columns: Sequence[Any]) -> tuple[list[str], list[str] | None]:
    """Return one column of texts, and the second one of pairs or None.

    Raises:
        ValueError: more than two columns.
    """
    if len(columns) > 2:
        raise ValueError(
            "A classifier reads a column of texts, or two of pairs: pass the tuple (texts, pairs). "
            f"Received: {len(columns)} columns"
        )
    texts, *pairs = (texts_of(name, each) for name, each in zip(TEXT_PAIR, columns, strict=False))
    return texts, pairs[0] if pairs else None


def targets_from(y: Any, labels: Sequence[str], problem: str) -> list[Any] | None:
    """Return targets as `data.Texts` takes them.

    Args:
        y: one target for each text: a name or index of a label, several of them, a row of 0 and 1
            for "multi_label", or a number for "regression".
        labels: names of the classes.
        problem: "single_label", "multi_label" or "regression".

    Raises:
        DataError: a target that is missing or out of range; names the row.
    """
    if y is None:
        return None
    if isinstance(y, Mapping) and len(y) == 1:  # {"label": ...}, as for features
        (y,) = y.values()
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


def _flags(y: Any, num_classes: int) -> np.ndarray | None:
    """Return rows of 0 and 1, of one class each; None for other targets."""
    try:
        values = np.asarray(y)
    except ValueError:  # rows of unequal length
        return None
    is_number = values.dtype.kind in "biuf"
    if values.ndim != 2 or values.shape[1] != num_classes or not is_number:
        return None
    return values if np.isin(values, (0, 1)).all() else None


def _names(target: Any, labels: Sequence[str], row: int) -> tuple[str, ...]:
    several = target if isinstance(target, tuple) else (target,)
    numbers = class_numbers(labels)
    for each in several:
        if isinstance(each, int) and each not in numbers:
            raise DataError(
                f"y: row {row} has the label index {each}, and the labels are {min(numbers)} to "
                f"{max(numbers)}."
            )
    return tuple(labels[numbers[each]] if isinstance(each, int) else each for each in several)


def weights_by_name(
    class_weight: Mapping[Any, float] | None,
    labels: Sequence[str],
    numbers: Mapping[int, int] | None = None,
) -> dict[str, float] | None:
    """Return weights of classes by name; keys are names of labels, or whole numbers.

    Args:
        class_weight: by name or number; None for none.
        labels: names of the classes.
        numbers: indices of the classes by the whole numbers that mean them; None for those of
            `class_numbers`, by which targets of text are read too.

    Raises:
        ValueError: no dictionary, or a key that is neither.
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
            f"`class_weight` must have names or indices of the labels {', '.join(labels)}. "
            f"Received: {unknown[0]!r}"
        )
    return {names[key]: float(weight) for key, weight in class_weight.items()}


def tags_of_rows(y: Any, num_classes: int) -> list[list[Any]]:
    """Return the tags of the words of each sentence: names, or indices of labels.

    Raises:
        DataError: an index out of range; names the sentence.
    """
    rows = [labels_of(f"y: row {number}", row) for number, row in enumerate(values_of("y", y))]
    for number, row in enumerate(rows):
        for tag in row:
            if isinstance(tag, int) and not 0 <= tag < num_classes:
                raise DataError(
                    f"y: row {number} has the tag index {tag}, and the labels are 0 to "
                    f"{num_classes - 1}."
                )
    return rows
