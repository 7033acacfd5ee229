"""Tables of texts with labels, scores or several labels: TSV, CSV, JSON lines, Parquet."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

from bert_keras.data.examples import Texts
from bert_keras.data.faults import Faults
from bert_keras.data.record_files import Column
from bert_keras.data.table_rows import read_rows
from bert_keras.data.text_files import Source, text_value
from bert_keras.errors import DataError

PROBLEMS = ("single_label", "multi_label", "regression")

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
    """Reads texts, or pairs of texts, and what is to be predicted of them.

    Texts stay as they are. A row without any text, in the pair neither, is refused: remove it; so
    is a blank line among rows to predict. One side of a pair may be empty.

    Args:
        path: the file, see `table_rows.read_rows`; gzipped or not, but for Parquet.
        text: the column of the text: its name, or its number from 0 where `header` is False.
        pair: the column of the second text, or None.
        label: the column of the label, score or labels; None for rows to predict.
        problem: "single_label": one label, kept as text; a whole number or truth value of JSON or
            Parquet becomes the text JSON has for it ("1", "true"). "regression": a finite number.
            "multi_label": any number of labels, a list in JSON and Parquet, or text with
            `label_separator` between them, empty for none; one that is said twice counts once.
            White space around labels in text is left out.
        format: "tsv", "csv", "jsonl", "parquet" or "label_text" (TREC: "label:finer text", with
            the columns "label", "fine" and "text"); None takes it from the ending of the file.
        header: whether the first row of a TSV or CSV file names its columns.
        quoting: whether quotes hold fields together (RFC 4180); None: in CSV yes, in TSV no.
        separator: what stands between fields; None: a comma in CSV, a tab in TSV.
        encoding: of text files.
        label_separator: what stands between several labels.
        known_labels: if given, all other labels are refused.

    Raises:
        ValueError: arguments that do not fit together.
        DataError: rows that cannot be used: names file, line and what was found, of each.
        ImportError: Parquet without pyarrow.
    """
    if problem not in PROBLEMS:
        raise ValueError(f"problem must be one of {PROBLEMS}. Received: {problem!r}")
    if problem == "regression" and known_labels is not None:
        raise ValueError("known_labels are for labels. Received: problem='regression'")
    if isinstance(known_labels, str) or not label_separator:
        raise ValueError(
            "known_labels must be several, label_separator one character or more. Received: "
            f"{known_labels!r}, {label_separator!r}"
        )
    columns = [column for column in (text, pair, label) if column is not None]
    faults = Faults()
    rows = read_rows(
        path,
        columns,
        faults,
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
    with faults.whole():
        for number, values in rows:
            place = f"{path}:{number}"
            with faults.row():
                places.append(place)
                texts.append(text_value(values[0], f"{place}: {text!r}"))
                if pair is not None:
                    pairs.append(text_value(values[1], f"{place}: {pair!r}"))
                if not (texts[-1].strip() or (pair is not None and pairs[-1].strip())):
                    found = "no text" if pair is None else "neither text nor pair"
                    raise DataError(f"{place}: {found}. Received: {values!r:.200}. Remove the row.")
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
    """The function that makes a target of (value, place and column)."""
    if problem == "regression":
        return _number

    def single(value: Any, what: str) -> str:
        name = _label(value, what)
        if known is not None and name not in known:
            shown = ", ".join(map(repr, list(known)[:_SHOWN]))
            more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
            raise DataError(f"{what}: unknown label {name!r}. Known: {shown}{more}.")
        return name

    def several(value: Any, what: str) -> tuple[str, ...]:
        if isinstance(value, str):
            value = value.split(separator) if value.strip() else []
        if not isinstance(value, list):
            raise DataError(f"{what}: several labels are a list or text. Received: {value!r:.200}")
        return tuple(dict.fromkeys(single(item, what) for item in value))

    return several if problem == "multi_label" else single


def _label(value: Any, what: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str) and not value.strip():
        raise DataError(f"{what}: no label. Received: {value!r}")
    if not isinstance(value, str):
        raise DataError(
            f"{what}: a label is text or a whole number. Received: {value!r:.200}. Numbers are for "
            "regression (the task of scores), lists for several labels (multi_label)."
        )
    return text_value(value, what).strip()


def _number(value: Any, what: str) -> float:
    number = math.nan
    is_truth = isinstance(value, bool)
    # float() takes underscores, which no table means.
    if isinstance(value, int | float | str) and not is_truth and "_" not in str(value):
        with suppress(ValueError, OverflowError):
            number = float(value)
    if not math.isfinite(number):
        raise DataError(f"{what}: a finite number is needed. Received: {value!r:.200}")
    return number
