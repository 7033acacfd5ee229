"""Columns of tables: their names, and Parquet files, folders of `datasets` and Arrow streams."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

from bert_keras import file_io
from bert_keras.errors import DataError, UsageError
from bert_keras.file_io import is_array, is_object

Column = str | int
Row = tuple[int, list[Any]]

_INSTALL = 'Install with: pip install "bert-keras[finetune]"'


# === Names of columns ===

# Usual names of texts or words, and of spans or tags. The first that a row has is read.
TEXT_KEYS = ("text", "words", "tokens", "sentence")
ENTITY_KEYS = ("entities", "spans", "ner_tags", "tags", "labels", "label")


def matching_names(name: str, names: Iterable[Any]) -> list[str]:
    """Return the names that are equal but for case, width, white space and Unicode form.

    "label" matches "Label" and " LABEL". A name with an accent matches its decomposed form, as some
    programs on macOS write it.
    """
    wanted = _normalised(name)
    return [other for other in names if isinstance(other, str) and _normalised(other) == wanted]


def _normalised(name: str) -> str:
    """Return a name without differences of case, width, outer white space and Unicode form."""
    return unicodedata.normalize("NFKC", name).casefold().strip()


def chosen_key(
    kind: str, name: str | None, usual: Sequence[str], names: Iterable[str], place: str
) -> str:
    """Return the key or column that is named, or the first of the usual ones that is there.

    Raises:
        DataError: there is none, or several match.
    """
    names = list(names)
    if name in names:
        return f"{name}"
    for wanted in usual if name is None else (name,):
        if len(similar := matching_names(wanted, names)) == 1:
            return similar[0]
    asked = " or ".join(map(repr, usual)) if name is None else repr(name)
    is_text = usual is not ENTITY_KEYS
    argument, recipe = ("text", "text") if is_text else ("entities", "label")
    raise DataError(
        f"{place}: no {kind} {asked}. Received: the {kind}s {names!r:.500}. Name one of these: "
        f"{argument}={kind.upper()} in Python, {recipe}={kind.upper()} in recipes."
    )


def column_position(place: str, column: Column, names: list[str] | None, width: int) -> int:
    """Return the index of a column, from 0.

    Args:
        place: file and line of the header or the first row, for messages.
        column: name or number of the column; a negative number counts from the end. If no column
            has the name, one that `matching_names` finds is taken.
        names: names of all columns; None for a file without a header.
        width: number of columns.

    Raises:
        ValueError: a name for a file without a header.
        DataError: no such column, or several columns with this name.
    """
    if names is None or isinstance(column, int):
        if isinstance(column, str) and not column.removeprefix("-").isdecimal():
            raise ValueError(
                f"Without a header, columns are numbers from 0. Received: {column!r}. "
                "Pass a number, or header=True."
            )
        if not -width <= int(column) < width:
            raise DataError(
                f"{place}: no column {column}. Received: {width} columns, counted from 0. Pass a "
                f"number from 0 to {width - 1}."
            )
        return int(column) % width
    similar = [column] * names.count(column) or matching_names(column, names)
    if len(similar) != 1:
        raise DataError(
            f"{place}: {'several columns' if similar else 'no column'} {column!r}. "
            f"Received: {names!r:.500}. Name the columns as the file does (in recipes text=COLUMN "
            "label=COLUMN); for a file without a header, pass header=false (--no-header) and the "
            "number of the column, from 0."
        )
    return names.index(similar[0])


# === Parquet files ===


def arrow_library(place: str, *modules: str) -> Any:
    """Import pyarrow and modules of it, and return pyarrow.

    Raises:
        ImportError: it is not installed. The message begins with `place`.
    """
    import importlib

    try:
        return [importlib.import_module(name) for name in (*modules, "pyarrow")][-1]
    except ImportError as error:
        raise ImportError(f"{place} needs pyarrow. {_INSTALL}") from error


def parquet_rows(
    file: Path, columns: Sequence[Column], *, named_classes: bool = False
) -> Iterator[Row]:
    """Yield the row number and the values of some columns of a Parquet file.

    See `table_files.read_rows`.

    Args:
        file: the file.
        columns: names or numbers of columns.
        named_classes: whether class numbers of `datasets` become the names in the file's schema.
    """
    arrow = arrow_library(f"{file}: a Parquet file", "pyarrow.parquet")
    number = 0
    try:
        with arrow.parquet.ParquetFile(file) as table:
            names = table.schema_arrow.names
            wanted = [names[column_position(f"{file}", c, names, len(names))] for c in columns]
            schema = table.schema_arrow
            readers = [_Names.of(schema, name) if named_classes else None for name in wanted]
            for batch in table.iter_batches(columns=list(dict.fromkeys(wanted))):
                values = [batch.column(name).to_pylist() for name in wanted]
                for row in zip(*values, strict=True):
                    number += 1
                    yield number, _named(row, readers, f"{file}:{number}")
    except (arrow.ArrowException, OSError) as error:
        reason = f"{error}".rstrip(".")
        raise DataError(
            f"{file}: cannot be read as Parquet after row {number}: {reason}. Write the file "
            "again, or pass its format."
        ) from error


class _Names:
    """Names of the classes in a column of `datasets`.

    Args:
        column: name of the column, for messages.
        names: names of the classes, by number.
    """

    def __init__(self, column: str, names: Sequence[str]):
        self._column, self._names = column, names

    @classmethod
    def of(cls, schema: Any, column: str) -> _Names | None:
        """Return the names that the schema of an Arrow table has; None if it has none."""
        metadata: Any = cast("dict[bytes, bytes]", schema.metadata or {}).get(b"huggingface")
        if metadata is None:
            return None
        stored: Any = file_io.parse_json(metadata, Path(f"features of {column!r}"))
        for key in ("info", "features", column):
            stored = stored.get(key) if is_object(stored) else None
        while inner := _inner_feature(stored):
            stored = inner
        names: Any = stored.get("names") if is_object(stored) else None
        if not is_array(names):
            return None
        return cls(column, [str(name) for name in names])

    def read(self, value: Any, place: str) -> Any:
        """Return the name of a class number, or the names of a list of them."""
        if is_array(value):
            return [self.read(item, place) for item in value]
        if type(value) is not int:
            return value
        if not 0 <= value < len(self._names):
            raise DataError(
                f"{place}: {self._column!r} must be a class number from 0 to "
                f"{len(self._names) - 1}. Received: {value}, perhaps of a row without a label. "
                "Remove the row, or choose a split with labels."
            )
        return self._names[value]


def _inner_feature(feature: Any) -> Any:
    """Return the feature of the items of a list, from that of the list; None for no list."""
    if is_array(feature):
        return feature[0] if feature else None
    return feature.get("feature") if is_object(feature) else None


def _named(row: Iterable[Any], readers: Sequence[_Names | None], place: str) -> list[Any]:
    """Return the values of a row, with names in place of class numbers."""
    return [
        value if reader is None else reader.read(value, place)
        for value, reader in zip(row, readers, strict=True)
    ]


# === Folders of `datasets` ===


_STATE, _SPLITS = "state.json", "dataset_dict.json"


def is_dataset_folder(path: Path) -> bool:
    """Return whether `Dataset.save_to_disk` or `DatasetDict.save_to_disk` wrote the folder."""
    return (path / _STATE).is_file() or (path / _SPLITS).is_file()


def splits_of(folder: Path) -> list[str]:
    """Return the names of the splits in the folder of a `DatasetDict`; [] for another folder."""
    if not (folder / _SPLITS).is_file():
        return []
    splits: Any = file_io.read_object(folder / _SPLITS).get("splits")
    return [split for split in splits if isinstance(split, str)] if is_array(splits) else []


def split_folder(folder: Path, *usual: str) -> Path:
    """Return the folder of a split in the folder of a `DatasetDict`; another path as it is.

    Args:
        folder: any path.
        usual: names of splits; the first that the folder has is chosen. A single split is chosen
            without a name.

    Raises:
        UsageError: the folder has several splits, but none of these.
    """
    splits = splits_of(folder)
    chosen = splits if len(splits) == 1 else [split for split in usual if split in splits]
    if splits and not chosen:
        raise UsageError(
            f"{folder}: a `DatasetDict` of the splits {', '.join(splits)}. Name the folder of one "
            f"of them: {folder / splits[0]}"
        )
    return folder / chosen[0] if chosen else folder


def dataset_rows(folder: Path, columns: Sequence[Column]) -> Iterator[Row]:
    """Yield the row number and the values of some columns of a folder of `datasets`.

    The folder is that of a `Dataset`, or of a `DatasetDict` with one split. Class numbers become
    their names.

    Raises:
        UsageError: the folder has several splits.
        DataError: another folder, no such column, a class number without a name, or damaged files.
        ImportError: pyarrow is not installed.
    """
    folder = split_folder(folder)
    number = 0
    with ExitStack() as stack:
        for file, reader in _streams(folder, stack):
            names = reader.schema.names
            wanted = [names[column_position(f"{folder}", c, names, len(names))] for c in columns]
            readers = [_Names.of(reader.schema, name) for name in wanted]
            try:
                for batch in reader:
                    values = [batch.column(name).to_pylist() for name in wanted]
                    for row in zip(*values, strict=True):
                        number += 1
                        yield number, _named(row, readers, f"{folder}:{number}")
            except (arrow_library(f"{folder}").ArrowException, OSError) as error:
                raise DataError(
                    f"{file}: damaged after row {number}: {error}. Save the dataset again."
                ) from error


def _streams(folder: Path, stack: ExitStack) -> Iterator[tuple[Path, Any]]:
    """Yield the Arrow files of a dataset, and readers of their batches."""
    arrow = arrow_library(f"{folder}: a folder of `datasets`", "pyarrow.ipc")
    state = file_io.read_object(folder / _STATE) if (folder / _STATE).is_file() else {}
    files: Any = state.get("_data_files")
    entries: list[Any] = files if is_array(files) else []
    names = [entry.get("filename") if is_object(entry) else None for entry in entries]
    if not names or state.get("_indices_files"):
        raise DataError(
            f"{folder}: not a folder of rows. Pass a file, or a folder that "
            "`datasets.Dataset.save_to_disk` has written."
        )
    for name in names:
        file = folder / str(name)
        if not isinstance(name, str) or Path(name).name != name or not file.is_file():
            raise DataError(f"{file}: no such file of the dataset. Save the dataset again.")
        try:
            source = stack.enter_context(arrow.memory_map(f"{file}"))
            yield file, stack.enter_context(arrow.ipc.open_stream(source))
        except (arrow.ArrowException, OSError) as error:
            raise DataError(f"{file}: damaged: {error}. Save the dataset again.") from error


def names_of_columns(path: Path) -> list[str]:
    """Return the names of the columns of a Parquet file or of a folder of `datasets`."""
    if not path.is_dir():
        arrow = arrow_library(f"{path}: a Parquet file", "pyarrow.parquet")
        try:
            return arrow.parquet.read_schema(path).names
        except (arrow.ArrowException, OSError) as error:
            raise DataError(f"{path}: cannot be read as Parquet: {error}.") from error
    with ExitStack() as stack:
        return next(_streams(split_folder(path), stack))[1].schema.names


# === Arrow streams ===


def from_arrow_stream(value: Any) -> Any:
    """Return a table or column that only exports an Arrow stream as an object of pyarrow.

    Data frames and columns of polars and other libraries have `__arrow_c_stream__` or `to_arrow`.

    Returns:
        A `pyarrow.Table` or `pyarrow.ChunkedArray`; any other value as it is.
    """
    exports = hasattr(value, "__arrow_c_stream__") or hasattr(value, "to_arrow")
    if isinstance(value, Mapping) or not exports:
        return cast("Any", value)

    arrow = arrow_library(f"A {type(value).__name__}")
    if not hasattr(value, "__arrow_c_stream__"):
        return value.to_arrow()
    column = arrow.chunked_array(value)
    if not arrow.types.is_struct(column.type):
        return column
    fields = cast("list[str]", [field.name for field in column.type])
    batches = [arrow.RecordBatch.from_struct_array(chunk) for chunk in column.chunks]
    return arrow.Table.from_batches(batches) if batches else arrow.table({f: [] for f in fields})
