"""Columns of text, as callers of `fit`, `evaluate` and `predict` pass them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bert_keras import escaping
from bert_keras.data.columns import is_text, texts_of, values_of
from bert_keras.data.table_columns import from_arrow_stream
from bert_keras.errors import CoverageWarning
from bert_keras.models.input_data import is_a
from bert_keras.task_names import FINETUNING
from bert_keras.tokenizers import Tokenizer

TEXT_PAIR = ("text", "pair")
# Names of the columns of examples of several texts. Texts after the second are wrong answers.
TEXT_GROUP = (*TEXT_PAIR, "negative", *(f"negative_{number}" for number in range(2, 100)))


def text_pair(columns: Sequence[Any]) -> tuple[list[str], list[str] | None]:
    """Return the first texts, and the second texts of pairs; None for texts without pairs.

    Args:
        columns: one column of texts, or two of the same length.

    Raises:
        ValueError: more than two columns.
    """
    if len(columns) > 2:
        raise ValueError(
            "A classifier reads a column of texts, or two of pairs: pass the tuple (texts, pairs). "
            f"Received: {len(columns)} columns"
        )
    named = zip(TEXT_PAIR, columns, strict=False)
    texts, *pairs = (texts_of(name, column) for name, column in named)
    return texts, pairs[0] if pairs else None


# Usual names of columns of targets. Such a column is never read as a text.
_TEXTS = frozenset({"sentence", "text", "texts", "words"})
_TARGETS = frozenset({"answer", "answers", "class", "label", "labels", "tags", "target", "y"})


class TextColumns(NamedTuple):
    """Columns of text, and the targets and weights of their dataset.

    Attributes:
        columns: one for each input of the task, as the caller passed them.
        y: the targets in a `tf.data.Dataset` of strings; None elsewhere.
        sample_weight: the sample weights in such a dataset; None elsewhere.
    """

    columns: tuple[Any, ...]
    y: Any = None
    sample_weight: Any = None

    def with_targets(self, y: Any, sample_weight: Any) -> TextColumns:
        """Return the columns with targets and weights of their dataset or of the arguments.

        Raises:
            ValueError: both the dataset and the arguments have targets or weights.
        """
        for name, in_dataset, argument in (
            ("y", self.y, y),
            ("sample_weight", self.sample_weight, sample_weight),
        ):
            if in_dataset is not None and argument is not None:
                raise ValueError(
                    f"The dataset in `x` has a part that is read as `{name}`, and `{name}` is "
                    "passed too. Leave one of them out."
                )
        return TextColumns(
            self.columns,
            self.y if y is None else y,
            self.sample_weight if sample_weight is None else sample_weight,
        )

    def rows(self, numbers: Sequence[int]) -> TextColumns:
        """Return the rows of the given numbers, of columns, targets and weights."""
        selected = tuple(_take(column, numbers) for column in self.columns)
        return TextColumns(selected, _take(self.y, numbers), _take(self.sample_weight, numbers))


def _take(values: Any, numbers: Sequence[int]) -> Any:
    """Return the rows of the given numbers, of a column, an array or a dictionary of these."""
    if values is None:
        return None
    if isinstance(values, Mapping):
        return {name: _take(column, numbers) for name, column in values.items()}
    if isinstance(values, np.ndarray):
        return values[list(numbers)]
    rows = values_of("x or y", values)
    return [rows[number] for number in numbers]


def find_text(x: Any, names: Sequence[str]) -> TextColumns | None:
    """Return the columns of text in the `x` of `fit`; None where it is features or batches.

    Args:
        x: a column of text; a tuple of columns, where the task reads several; a dictionary, data
            frame, Arrow table or `datasets.Dataset` of columns; or a `tf.data.Dataset` of strings,
            of (string, target) or of (string, target, weight), in batches or not, whose strings
            may be tuples or dictionaries as well.
        names: names of the columns that the task reads, in its order.

    Raises:
        ValueError: an empty list, rows of several texts in place of columns, a table of text
            with columns that the task does not read, several splits of a dataset, or a loader of
            batches of strings.
    """
    if isinstance(x, list | tuple) and not x:
        raise ValueError(
            f"No texts. Received: an empty {type(x).__name__} as `x`. Pass one text at least."
        )
    if is_a("tensorflow", "data.Dataset", x):
        return _read_dataset(x, names) if _is_of_strings(x) else None
    _refuse_loader(x)
    if not hasattr(x, "iloc") and not hasattr(x, "column_names"):  # polars and others
        x = from_arrow_stream(x)
    if hasattr(x, "columns") and hasattr(x, "iloc"):  # a pandas DataFrame
        x = {str(name): x[name] for name in x.columns}  # pyright: ignore[reportAttributeAccessIssue]
    elif isinstance(getattr(x, "column_names", None), list):  # a table of Arrow or datasets
        x = {str(name): x[name] for name in x.column_names}  # pyright: ignore[reportAttributeAccessIssue]
    if isinstance(x, Mapping):
        _refuse_splits(x)
        are_text = [is_text(column) for column in x.values()]
        if not any(are_text) or not (all(are_text) or {*_TEXTS, *names} & {*x}):
            return None
        if not all(are_text):
            raise ValueError(_columns_message(x, names))
        return TextColumns(tuple(x[name] for name in _order(x, names)))
    if len(names) > 1 and _is_rows(x):
        raise ValueError(
            f"The task reads `x` as columns, {' and '.join(names)}, not as rows with one entry of "
            f"each. Pass `tuple(zip(*rows))`. Received: a {type(x).__name__} of rows"
        )
    if isinstance(x, tuple) and min(len(x), len(names)) > 1 and all(map(_is_column, x)):
        return TextColumns(x)
    return TextColumns((x,)) if is_text(x) else None


def _order(table: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """Return the names of a table's columns in the order in which the task reads them.

    A table may have the task's own names, such as "question" and "context", in any order. Or all
    its columns have other names; then their order in the table counts.

    Args:
        table: columns of text by name.
        names: names of the columns that the task reads.

    Raises:
        ValueError: the table has both kinds of names, too many columns, or a column of targets.
    """
    known = [name for name in names if name in table]
    others = [name for name in table if name not in names]
    if (known and others) or len(others) > len(names) or _TARGETS & set(map(str.lower, others)):
        raise ValueError(_columns_message(table, names))
    return known or others


def _columns_message(table: Mapping[str, Any], names: Sequence[str]) -> str:
    """Return the message about a table with other columns than those of text."""
    return (
        f"The table has the columns {', '.join(map(str, table))}, and the task reads "
        f"{', '.join(names)}. Pass the columns of text alone as `x`, such as table[['text']] or "
        "table['text'], and targets as `y`, such as table['label']."
    )


def _refuse_splits(table: Mapping[Any, Any]) -> None:
    """Raise `ValueError` for a `datasets.DatasetDict`: tables by the name of the split."""
    for split, part in table.items():
        columns = getattr(part, "column_names", None)
        if isinstance(columns, list):
            raise ValueError(
                f"`x` has several datasets, {', '.join(map(repr, table))}. Pass columns of one "
                f"of them, of {', '.join(map(repr, columns))}: x=data[{split!r}]['text'], "
                f"y=data[{split!r}]['label']."
            )


# Classes of loaders and datasets whose rows have numbers, and the modules that have them.
_LOADERS = (
    ("torch", "utils.data.DataLoader"),
    ("torch", "utils.data.Dataset"),
    ("grain", "DataLoader"),
    ("grain", "MapDataset"),
)


def _refuse_loader(x: Any) -> None:
    """Raise `ValueError` for a loader of batches of strings, of PyTorch or grain.

    Its first row is read if rows have numbers, so that nothing is consumed.
    """
    if not any(is_a(module, name, x) for module, name in _LOADERS):
        return
    is_loader = hasattr(x, "dataset")
    try:
        row: Any = (x.dataset if is_loader else x)[0]
    except Exception:  # rows without numbers, or none: Keras reads them
        return
    first = next(iter(row.values()), None) if isinstance(row, Mapping) else row
    while isinstance(first, tuple | list) and first:
        first = first[0]
    if not isinstance(first, str | bytes):
        return
    columns = "texts = list(rows)"
    if isinstance(row, tuple | list):
        columns = "texts, labels = zip(*rows)"
    elif isinstance(row, Mapping):
        columns = f"texts = [row[{next(iter(row))!r}] for row in rows]"
    rows = "rows = x.dataset" if is_loader else "rows = x"
    size = getattr(x, "batch_size", None) or FINETUNING.batch_size
    raise ValueError(
        f"`x` is a {type(x).__name__} of strings. A task tokenizes its texts once, and makes "
        f"batches of similar length itself. Pass texts and labels as lists: {rows}; {columns}; "
        f"fit(texts, labels, batch_size={size})."
    )


def _is_rows(x: Any) -> bool:
    """Return whether `x` is a list of rows such as (text, pair), in place of two columns."""
    if isinstance(x, np.ndarray):
        return x.ndim > 1 and is_text(x)
    first = x[0] if isinstance(x, list) and x else None
    return isinstance(first, tuple | list) and bool(first) and isinstance(first[0], str)


def _is_column(value: Any) -> bool:
    """Return whether a value is a column of texts; a single str is not."""
    return not isinstance(value, str) and is_text(value)


def _is_of_strings(dataset: Any) -> bool:
    """Return whether all inputs of a `tf.data.Dataset` are strings."""
    import tensorflow as tf

    leaves = tf.nest.flatten(_parts(dataset.element_spec)[0])
    return bool(leaves) and all(getattr(leaf, "dtype", None) == tf.string for leaf in leaves)


def _parts(element: Any) -> tuple[Any, Any, Any]:
    """Return (x, y, sample_weight) of an element or element spec, None for parts it lacks.

    Keras reads elements in the same way: x, (x, y) or (x, y, sample_weight).
    """
    if not isinstance(element, tuple):
        return element, None, None
    x, y, weight, *_ = (*element, None, None)
    return x, y, weight


def _read_dataset(dataset: Any, names: Sequence[str]) -> TextColumns:
    """Read all elements of a `tf.data.Dataset` of strings into lists, one entry for each text.

    Args:
        dataset: elements x, (x, y) or (x, y, sample_weight), in batches or not.
        names: names of the columns that the task reads.
    """
    x_spec, y_spec, weight_spec = _parts(dataset.element_spec)
    if isinstance(x_spec, Mapping):
        keys: list[Any] = _order(x_spec, names)
    else:
        keys = list(range(len(x_spec))) if isinstance(x_spec, tuple) else []
    first: Any = x_spec[keys[0]] if keys else x_spec
    is_batched = first.shape.rank > 0
    columns: list[list[Any]] = [[] for _ in keys or [None]]
    targets: list[Any] = []
    weights: list[Any] = []
    for element in dataset.as_numpy_iterator():
        x, y, weight = _parts(element)
        parts = [x[key] for key in keys] if keys else [x]
        for values, part in [
            *zip(columns, parts, strict=True),
            (targets, _only(y)),
            (weights, _only(weight)),
        ]:
            if part is not None:
                values += list(part) if is_batched else [part]
    return TextColumns(
        tuple(_decoded(column) for column in columns),
        None if y_spec is None else _decoded(targets),
        None if weight_spec is None else weights,
    )


def _only(values: Any) -> Any:
    """Return the one entry of a dictionary, such as {"label": ...}; other values as they are."""
    if not isinstance(values, Mapping):
        return values
    if len(values) != 1:
        raise ValueError(
            "Targets and sample weights in a dataset of texts must be one column. "
            f"Received: {len(values)}, {', '.join(map(str, values))}. Keep one of them."
        )
    return next(iter(values.values()))


def _decoded(values: Sequence[Any]) -> list[Any]:
    """Return values with bytes, TensorFlow's strings, decoded to str."""
    return [value.decode() if isinstance(value, bytes) else value for value in values]


# === Text that is [UNK] ===


_SAMPLE = 1_000  # texts of a column whose words are counted


def report_coverage(
    tokenizer: Tokenizer, columns: Sequence[Any], token_ids: np.ndarray, verbose: Any
) -> None:
    """Say which share of the texts is [UNK], if it is not negligible.

    Args:
        tokenizer: the tokenizer.
        columns: columns of texts, or of lists of words or options.
        token_ids: ids of all texts, by which most texts are found to need no report.
        verbose: `verbose` of `fit`; 0 prints nothing.

    Warns:
        CoverageWarning: if words are longer than WordPiece reads. Other words that are [UNK] are
            reported by a printed line.
    """
    if not np.any(token_ids == tokenizer.unk_id):
        return
    texts: list[str] = []
    for column in columns:
        values = values_of("text", column)
        rows = np.linspace(0, len(values) - 1, min(len(values), _SAMPLE)).astype(int)
        for value in (values[row] for row in rows):
            texts += [value] if isinstance(value, str) else map(str, value)
    coverage = tokenizer.coverage(texts)
    if not (message := coverage.message()):
        return
    if coverage.is_long:
        warnings.warn(message, CoverageWarning, stacklevel=3)
    elif verbose != 0:
        escaping.print_line(message)
