"""Text classification and regression: reading tables of texts, and encoding their targets."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from numbers import Real
from typing import Any, cast

import numpy as np

from bert_keras.data.class_names import class_labels, class_numbers, labels_of_rows
from bert_keras.data.documents import Source, text_value
from bert_keras.data.examples import Texts, place_of
from bert_keras.data.long_texts import encode_long
from bert_keras.data.source_files import ErrorCollector
from bert_keras.data.supervised import SupervisedExamples
from bert_keras.data.table_columns import Column
from bert_keras.data.table_files import read_rows
from bert_keras.errors import DataError
from bert_keras.features import LABEL
from bert_keras.file_io import is_array
from bert_keras.tokenizers import Tokenizer

_SHOWN = 50  # known labels in a message


def read_table(
    path: Source,
    *,
    text: Column,
    pair: Column | None = None,
    label: Column | None = None,
    problem: str = "single_label",
    format: str | None = None,  # noqa: A002
    header: bool = True,
    quoting: bool | None = None,
    separator: str | None = None,
    encoding: str = "utf-8",
    label_separator: str = ",",
    known_labels: Collection[str] | None = None,
) -> Texts:
    """Read texts, or pairs of texts, and their labels or scores from a table.

    Texts stay as they are. A row without text is an error, and so is a blank line before a row to
    predict, because predictions are numbered as rows are. One text of a pair may be empty.

    Args:
        path: the file, see `table_files.read_rows`. All formats but Parquet may be gzipped.
        text: the column of the text: its name, or its number from 0 where `header` is False.
        pair: the column of the second text, or None.
        label: the column of the label, score or labels; None for rows to predict.
        problem: "single_label": one label, kept as text; a whole number or truth value of JSON or
            Parquet becomes its text in JSON ("1", "true"). "regression": a finite number.
            "multi_label": any number of labels, as a list in JSON and Parquet, or as text with
            `label_separator` between them, which is empty for no label. A repeated label counts
            once. White space around labels is removed.
        format: "tsv", "csv", "jsonl", "parquet" or "label_text" (TREC: "label:finer text", with
            the columns "label", "fine" and "text"); None takes it from the ending of the file.
        header: whether the first row of a TSV or CSV file names its columns.
        quoting: whether quotes hold fields together (RFC 4180). None: in CSV yes, in TSV no.
        separator: text between fields. None: a comma in CSV, a tab in TSV.
        encoding: encoding of the file, for text files.
        label_separator: text between the labels of a row.
        known_labels: names of all labels, so that any other label is an error. None allows all.

    Returns:
        The rows in the order of the file, with "file:line" of each as `places`.

    Raises:
        ValueError: arguments that do not fit together.
        DataError: rows that cannot be used. The message has file, line and value of each.
        ImportError: Parquet without pyarrow.
    """
    if problem not in PROBLEMS:
        raise ValueError(f"problem must be one of {tuple(PROBLEMS)}. Received: {problem!r}")
    if problem == "regression" and known_labels is not None:
        raise ValueError(
            "known_labels cannot be used with scores. Received: problem='regression'. "
            "Leave known_labels out."
        )
    if isinstance(known_labels, str) or not label_separator:
        raise ValueError(
            "known_labels must be a list of names, and label_separator at least one character. "
            f"Received: {known_labels=}, {label_separator=}"
        )
    columns = [column for column in (text, pair, label) if column is not None]
    errors = ErrorCollector()
    rows = read_rows(
        path,
        columns,
        errors,
        format=format,
        header=header,
        quoting=quoting,
        separator=separator,
        encoding=encoding,
        blank_lines=label is not None,  # predictions are numbered as rows are
    )
    texts: list[str] = []
    pairs: list[str] = []
    targets: list[Any] = []
    places: list[str] = []
    target_of = _reader_of_targets(problem, label_separator, known_labels)
    with errors.whole():
        for number, values in rows:
            place = f"{path}:{number}"
            with errors.row():
                places.append(place)
                texts.append(text_value(values[0], f"{place}: {text!r}"))
                if pair is not None:
                    pairs.append(text_value(values[1], f"{place}: {pair!r}"))
                if not (texts[-1].strip() or (pair is not None and pairs[-1].strip())):
                    reason = "no text" if pair is None else "neither text nor pair"
                    raise DataError(
                        f"{place}: {reason}. Received: {values!r:.200}. Remove the row."
                    )
                if label is not None:
                    targets.append(target_of(values[-1], f"{place}: {label!r}"))
    return Texts(
        tuple(texts),
        None if pair is None else tuple(pairs),
        None if label is None else tuple(targets),
        tuple(places),
    )


def _reader_of_targets(
    problem: str, separator: str, known: Collection[str] | None
) -> Callable[[Any, str], Any]:
    """Return the function that converts a value in a table to a target.

    Its arguments are the value and, for messages, the place and column ("data.csv:4: 'label'").
    It returns a str, a tuple of str for "multi_label", or a float for "regression". It raises a
    `DataError` for a value that is no such target.

    Args:
        problem: "single_label", "multi_label" or "regression".
        separator: text between the labels of "multi_label".
        known: names of all labels, or None to allow any.
    """
    if problem == "regression":
        return _number

    def single(value: Any, name: str) -> str:
        """Return the label of a row, which must be a known one."""
        label = _label(value, name)
        if known is not None and label not in known:
            shown = ", ".join(map(repr, list(known)[:_SHOWN]))
            more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
            raise DataError(
                f"{name}: unknown label {label!r}. Known: {shown}{more}. Correct the label, or add "
                "it to known_labels."
            )
        return label

    def several(value: Any, name: str) -> tuple[str, ...]:
        """Return the labels of a row, each once, from a list or a text."""
        if isinstance(value, str):
            value = value.split(separator) if value.strip() else []
        if not is_array(value):
            raise DataError(
                f"{name}: several labels must be a list, or text with {separator!r} between them. "
                f"Received: {value!r:.200}"
            )
        return tuple(dict.fromkeys(single(item, name) for item in value))

    return several if problem == "multi_label" else single


def _label(value: Any, name: str) -> str:
    """Return a label in a table as text. `name` is its place and column, for messages.

    A list of one label, as doccano writes it, is that label.
    """
    if is_array(value) and len(value) == 1 and not is_array(value[0]):
        value = value[0]
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str) and not value.strip():
        raise DataError(
            f"{name}: the label is empty. Received: {value!r}. Write a label, or remove the row."
        )
    if not isinstance(value, str):
        raise DataError(
            f"{name}: a label must be text or a whole number. Received: {value!r:.200}. To predict "
            'numbers, use problem="regression" (in recipes task=text_regression); for a list of '
            'labels, use problem="multi_label".'
        )
    return text_value(value, name).strip()


def _number(value: Any, name: str) -> float:
    """Return a score in a table as a finite float. `name` is its place and column."""
    number = math.nan
    is_truth = isinstance(value, bool)
    # float() takes underscores, which no table means.
    if isinstance(value, int | float | str) and not is_truth and "_" not in str(value):
        with suppress(ValueError, OverflowError):
            number = float(value)
    if not math.isfinite(number):
        raise DataError(
            f"{name}: a finite number is needed. Received: {value!r:.200}. "
            "Correct it, or remove the row."
        )
    return number


# === Examples for training ===

_MOST_CLASSES = 2**31  # targets are int32
PROBLEMS = {  # the end of "a target must be ..." in a message
    "single_label": (
        "one label, a name or a whole number; to predict numbers, use "
        'problem="regression" (in recipes task=text_regression)'
    ),
    "multi_label": "a tuple of labels, or one label",
    "regression": "a number",
}


def text_examples(
    tokenizer: Tokenizer,
    examples: Texts,
    *,
    labels: Sequence[str] | None = None,
    problem: str = "single_label",
    class_weights: Mapping[str, float] | None = None,
    max_length: int = 128,
    long_texts: str | None = None,
    stride: int | None = None,
    prefix: int = 0,
    **options: Any,
) -> SupervisedExamples:
    """Encode texts and targets as batches for a `SequenceClassifier`.

    The targets of a batch are {"label": int32 [B]} for "single_label", {"label": float32 [B,
    classes]} of 0 and 1 for "multi_label", and {"label": float32 [B, 1]} for "regression".

    Args:
        tokenizer: the tokenizer of the model.
        examples: texts or pairs with targets.
        labels: the names of the classes in the model's order; None for a regression, or if all
            targets are indices of classes. See `targets_of` for whole numbers.
        problem: "single_label", "multi_label" or "regression".
        class_weights: weight of the examples of a class, by its name; 1 for the others. For
            "single_label" only.
        max_length: maximum number of tokens in a row. Tokens of the longer text are cut.
        long_texts: "windows" to make several rows of a long text instead; see `encode_long`.
        stride: doc stride of the windows.
        prefix: number of tokens of a prompt at the start of each text, for its windows.
        options: options of `SupervisedExamples`.

    Returns:
        The examples. `rows.num_cut` of them is the number of texts that were cut.

    Raises:
        DataError: an unknown label, or no targets. The message names the row.
        ValueError: an unknown problem, or weights for unknown classes.
    """
    targets = targets_of(examples, labels, problem)
    weights = weights_of(targets, labels, class_weights, problem)
    rows = encode_long(
        tokenizer,
        examples.texts,
        examples.pairs,
        max_length=max_length,
        long_texts=long_texts,
        stride=stride,
        prefix=prefix,
    )
    options |= {"weights": weights, "max_length": max_length}
    return SupervisedExamples(rows, {LABEL: targets}, **options)


def weights_of(
    targets: np.ndarray,
    labels: Sequence[str] | None,
    class_weights: Mapping[str, float] | None,
    problem: str,
) -> dict[str, np.ndarray] | None:
    """Return the weight of every example by its class, or None without `class_weights`.

    Args:
        targets: int32 [rows], the class of every row, from `targets_of`.
        labels: the names of the classes in the model's order.
        class_weights: weight by name of the class; classes without one have a weight of 1.
        problem: "single_label", the only one with weights of classes.

    Returns:
        {"label": float32 [rows]}, as `SupervisedExamples` takes it.

    Raises:
        ValueError: weights for unknown classes, or another problem.
    """
    if not class_weights:
        return None
    names = [] if labels is None else class_labels(labels)
    if problem != "single_label" or not names or class_weights.keys() - set(names):
        raise ValueError(
            "class_weights must name `labels` of the problem 'single_label'. Received: "
            f"class_weights={dict(class_weights)}, labels={labels}, problem={problem!r}"
        )
    by_class = np.array([class_weights.get(name, 1.0) for name in names], np.float32)
    return {LABEL: by_class[targets]}


def targets_of(examples: Texts, labels: Sequence[str] | None, problem: str) -> np.ndarray:
    """Return the targets as numbers.

    A whole number as a label is the index of a class, from 0. If all `labels` are whole numbers
    themselves ("1" to "5"), it is the name of a class: the label 1 is then class 0.

    Args:
        examples: texts with targets.
        labels: the names of the classes in the model's order; None for a regression, or if all
            targets are indices of classes.
        problem: "single_label", "multi_label" or "regression".

    Returns:
        int32 [rows], the class of every row, for "single_label"; float32 [rows, classes] of 0 and
        1 for "multi_label"; float32 [rows, 1] for "regression".

    Raises:
        DataError: an unknown label, a target of another kind, or no targets. The message names
            the row.
        ValueError: an unknown problem.
    """
    if problem not in PROBLEMS:
        raise ValueError(f"problem must be one of {', '.join(PROBLEMS)}. Received: {problem!r}")
    if examples.targets is None or not len(examples):
        raise DataError(
            "The examples have no labels to train on or to compare with. Received: "
            f"{len(examples)} texts without targets. Pass `targets`, one for each text."
        )
    errors = ErrorCollector()
    for index, target in enumerate(examples.targets):
        if not _fits(target, problem):
            errors.add(
                DataError(
                    f"{place_of(examples.places, index)}: a target of the problem {problem!r} must "
                    f"be {PROBLEMS[problem]}. Received: {target!r}"
                )
            )
    errors.check()
    if problem == "regression":
        return np.array(examples.targets, np.float32)[:, None]
    rows = labels_of_rows(examples)
    are_numbers = any(isinstance(label, int) for row in rows for label in row)
    if labels is not None:
        names = class_labels(labels)
        numbers = class_numbers(names) if are_numbers else {n: i for i, n in enumerate(names)}
        known = f"The labels are {', '.join(names)}."
        if are_numbers:
            known += f" Whole numbers from {min(numbers)} to {max(numbers)} stand for them."
    elif problem == "single_label" and are_numbers:
        numbers = {label: label for (label,) in rows if 0 <= label < _MOST_CLASSES}
        known = "Without labels=, every label must be the index of a class, from 0."
    else:
        raise DataError(
            "The labels are names, and labels=None does not say which class each of them is. "
            "Pass labels=label_names(examples), or the labels of the model."
        )
    for index, row in enumerate(rows):
        if unknown := [label for label in row if label not in numbers]:
            place = place_of(examples.places, index)
            errors.add(DataError(f"{place}: unknown label {unknown[0]!r}. {known}"))
    errors.check()
    if problem == "single_label":
        return np.array([numbers[label] for (label,) in rows], np.int32)
    targets = np.zeros((len(examples), len(numbers)), np.float32)
    for index, row in enumerate(rows):
        targets[index, [numbers[label] for label in row]] = 1.0
    return targets


def _fits(target: Any, problem: str) -> bool:
    """Return whether a target has the type that the problem needs; see `PROBLEMS`."""
    if problem == "regression":
        return isinstance(target, Real) and math.isfinite(target)
    if isinstance(target, tuple):
        labels = cast("tuple[Any, ...]", target)
        return problem == "multi_label" and all(_fits(label, "single_label") for label in labels)
    return isinstance(target, str | int) or (isinstance(target, float) and target.is_integer())
