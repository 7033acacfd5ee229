"""Columns of texts, labels and words from any container, with one message for all bad rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from numbers import Integral, Real
from typing import Any, TypeGuard, cast

import numpy as np

from bert_keras.data.source_files import ErrorCollector
from bert_keras.data.table_columns import from_arrow_stream
from bert_keras.errors import DataError

# Lists, tuples, generators, NumPy arrays, and the columns of pandas, polars, pyarrow and Hugging
# Face's `datasets` become plain Python values. None of these libraries is imported: their objects
# are recognised by the module of their class, and read by their own methods. Columns of other
# libraries are read by their Arrow stream.


_LIBRARIES = frozenset({"cudf", "datasets", "modin", "pandas", "polars", "pyarrow"})
_MISSING = frozenset({"NAType", "NaTType"})  # of pandas
_TO_LIST = ("to_pylist", "tolist", "to_list")  # pyarrow; NumPy, pandas and tensors; polars
_SHOWN = 100  # characters of a value in a message


def is_text(x: Any) -> bool:
    """Return whether `x` is text: a str, or a column of texts or of lists of words.

    No value is computed or consumed: generators, other iterators, tensors and `tf.data` pipelines
    are no text here. A column is judged by its first value that is not missing.
    """
    if isinstance(x, str | bytes):
        return True
    if _is_array(x):
        return x.dtype.kind in "UST" or (x.dtype.kind == "O" and _first_is_text(x.flat))
    if _is_table(x):
        return False
    if hasattr(x, "__iter__") and (isinstance(x, Sequence) or _is_foreign(x)):
        return _first_is_text(cast("Iterable[Any]", x))
    return False


def is_all_str(column: Any) -> bool:
    """Return whether a column is a list or a tuple of nothing but plain str."""
    return type(column) in (list, tuple) and set(map(type, column)) <= {str}


def texts_of(name: str, column: Any, places: Sequence[str] = ()) -> list[str]:
    """Return a column as a list of plain str; a plain list is returned as it is.

    Args:
        name: name of the column, for messages.
        column: any iterable of str. Bytes are decoded as UTF-8.
        places: "file:line" of every row, for messages; () names rows by their number from 0.

    Raises:
        DataError: `column` is one str or no column, or rows are missing or not str. The message
            names these rows.
    """
    return _converted(_text, name, column, places, "text")


def words_of_rows(name: str, column: Any, places: Sequence[str] = ()) -> list[list[str]]:
    """Return a column of lists of words, tags or options as lists of plain str.

    Args:
        name: name of the column, for messages.
        column: any iterable of rows, each an iterable of str as `texts_of` takes it.
        places: "file:line" of every row, for messages; () names rows by their number from 0.

    Raises:
        DataError: `column` is one str or no column, or rows hold something other than str. The
            message names these rows.
    """
    errors = ErrorCollector()
    rows: list[list[str]] = []
    row_name = _row_names(places)
    for number, row in enumerate(values_of(name, column)):
        if is_all_str(row):
            rows.append(list(row))
            continue
        with errors.row():
            name_of_row = f"{row_name(number)}: {name}"
            words = values_of(name_of_row, row)
            rows.append(_convert_all(_text, name_of_row, words, "item {}".format, errors))
    errors.check()
    return rows


def labels_of(name: str, column: Any, places: Sequence[str] = ()) -> list[Any]:
    """Return a column of labels or numbers as a list of plain Python values.

    Args:
        name: name of the column, for messages.
        column: any iterable of str, int, bool or float, of Python or NumPy; or of lists, sets or
            arrays of these, which become tuples. A set is sorted.
        places: "file:line" of every row, for messages; () names rows by their number from 0.

    Raises:
        DataError: `column` is one str or no column, or rows are missing or cannot be labels. The
            message names these rows.
    """
    return _converted(_label, name, column, places, "label")


def _converted(
    convert: Callable[[Any], Any], name: str, column: Any, places: Sequence[str], kind: str
) -> list[Any]:
    """Convert every value of a column; return a list of plain str as it is, without a copy.

    Args:
        convert: converts one value; raises `_Unfit` for a value that the column cannot hold.
        name: name of the column, for messages.
        column: the column, in any container.
        places: "file:line" of every row, or ().
        kind: what one value is, for messages: "text" or "label".
    """
    if is_all_str(column):
        return cast("list[Any]", column) if isinstance(column, list) else list(column)
    errors = ErrorCollector()
    values = values_of(name, column, kind)
    converted = _convert_all(convert, name, values, _row_names(places), errors)
    errors.check()
    return converted


def _convert_all(
    convert: Callable[[Any], Any],
    name: str,
    values: Iterable[Any],
    row_name: Callable[[int], str],
    errors: ErrorCollector,
) -> list[Any]:
    """Convert values. Leave out those that raise `_Unfit`, and add an error for each of them."""
    converted: list[Any] = []
    for number, value in enumerate(values):
        try:
            converted.append(convert(value))
        except _Unfit as reason:
            shown = f"{value!r:.{_SHOWN}}"
            errors.add(DataError(f"{name}: {row_name(number)} {reason.message(shown)}"))
    return converted


def _row_names(places: Sequence[str]) -> Callable[[int], str]:
    """Return a function from a row's number to its name in messages ("data.csv:4" or "row 3")."""
    return lambda row: places[row] if row < len(places) else f"row {row}"


class _Unfit(Exception):  # noqa: N818
    """Error of a value that a column cannot hold.

    Args:
        reason: end of a sentence that begins with the name of the row, such as "is missing".
        remedy: sentence that tells the user what to do.
    """

    def __init__(self, reason: str, remedy: str):
        super().__init__(reason)
        self.reason, self.remedy = reason, remedy

    def message(self, value: str) -> str:
        """Return the message after the name of the row. `value` is the shown value."""
        return f"{self.reason}. Received: {value}. {self.remedy}"


def values_of(name: str, column: Any, kind: str = "text") -> list[Any]:
    """Return all values of a column as a list, converted as the column's own library does it.

    Args:
        name: name of the column, for messages.
        column: a list, an array, a column of another library, or another iterable with an order.
        kind: what one value is, for messages: "text" or "label".

    Raises:
        DataError: `column` is one str, a table, or something without an order, such as a set.
    """
    if _is_array(column) and not column.ndim:
        column = column.item()
    if not _is_foreign(column):  # those libraries have methods of their own
        column = from_arrow_stream(column)
    if isinstance(column, str | bytes):
        raise DataError(
            f"{name}: a sequence of str is needed, not one str. Received: {column!r:.{_SHOWN}}. "
            f"Pass a list: [{kind}]."
        )
    if _is_table(column):
        raise DataError(
            f"{name}: one column is needed, not a table. Received: {type(column).__name__} with "
            f"{list(_names_of_table(column))!r:.{_SHOWN}}. Pass one of its columns: table[name]."
        )
    if isinstance(column, AbstractSet) or not hasattr(column, "__iter__"):
        raise DataError(
            f"{name}: a list, an array or another column with an order is needed. "
            f"Received: {column!r:.{_SHOWN}}. Pass a list: [{kind}]."
        )
    if isinstance(column, list | tuple):
        return list(cast("Sequence[Any]", column))
    for method in _TO_LIST:
        if convert := getattr(column, method, None):
            return convert()
    if _is_foreign(column) and isinstance(column, Sequence):
        rows = cast("Sequence[Any]", column)
        # A slice reads a column of a `datasets.Dataset` at once, and not row by row.
        return values_of(name, rows[:], kind)
    if to_numpy := getattr(column, "numpy", None):  # an eager tensor of TensorFlow
        return values_of(name, to_numpy(), kind)
    return list(column)


def _is_array(value: Any) -> TypeGuard[np.ndarray]:
    return isinstance(value, np.ndarray)


def _text(value: Any) -> str:
    """Return a str, or bytes of UTF-8, as plain str. Raise `_Unfit` for any other value."""
    if isinstance(value, str):
        return str.__str__(value)  # the text itself, of NumPy's str and of an enumeration too
    if isinstance(value, bytes):
        return _decoded(value)
    _require_value(value)
    kind = type(value).__name__
    cure = "Convert it to str, or drop the row."
    if kind in ("list", "tuple"):
        cure = "Pass the texts in one flat list; a DataLoader gives lists of texts or rows."
    raise _Unfit(f"is of type {kind}, not str", cure)


def _label(value: Any) -> Any:
    """Return a label as plain str, bool, int or float, or several labels as a tuple of these."""
    if getattr(value, "shape", None) == () and hasattr(value, "__array__"):
        # A scalar of NumPy, or a tensor of one number; tensors of TensorFlow have no `item`.
        value = value.item() if hasattr(value, "item") else np.asarray(value).item()
    if isinstance(value, str | bytes):
        return _text(value)
    _require_value(value)
    if isinstance(value, bool):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    if isinstance(value, AbstractSet):
        items = cast("AbstractSet[Any]", value)
        return tuple(sorted(map(_label, items), key=lambda label: (type(label).__name__, label)))
    if isinstance(value, list | tuple | np.ndarray) or _is_foreign(value):
        return tuple(map(_label, values_of("labels", value)))
    raise _Unfit(
        f"is of type {type(value).__name__}, which cannot be a label",
        "Pass a str or a number for a row of one label, and a list of them for several labels.",
    )


def _decoded(value: bytes) -> str:
    """Return bytes of UTF-8 as str. Raise `_Unfit` for other bytes."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _Unfit(f"is not UTF-8 ({error.reason})", "Decode the column to str first.") from None


def _require_value(value: Any) -> None:
    """Raise `_Unfit` for a missing value."""
    if _is_missing(value):
        raise _Unfit("is missing", "Drop the rows without a value, or fill them.")


def _is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN, or pandas' NA or NaT."""
    if value is None or type(value).__name__ in _MISSING:
        return True
    return isinstance(value, Real) and value != value  # NaN is not itself


def _first_is_text(values: Iterable[Any]) -> bool:
    """Return whether the first value that is not missing is text."""
    for value in values:
        plain = value.as_py() if hasattr(value, "as_py") else value  # a scalar of pyarrow
        if not _is_missing(plain):
            return is_text(plain)
    return False


def _is_foreign(x: Any) -> bool:
    """Return whether an object is of one of `_LIBRARIES`, which are never imported here."""
    return any(base.__module__.partition(".")[0] in _LIBRARIES for base in type(x).__mro__)


def _is_table(x: Any) -> bool:
    """Return whether an object has several columns: a mapping, or a data frame."""
    if isinstance(x, Mapping):
        return True
    return _is_foreign(x) and (hasattr(x, "columns") or hasattr(x, "column_names"))


def _names_of_table(table: Any) -> Iterable[Any]:
    """Return the names of the columns of a mapping or a data frame."""
    if isinstance(table, Mapping):
        return cast("Mapping[Any, Any]", table)
    names = getattr(table, "column_names", None)
    return table.columns if names is None else names
