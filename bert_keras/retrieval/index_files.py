"""Files of an index of vectors: settings, vectors and texts that are read from the disk."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, BinaryIO, overload

import numpy as np
from numpy.lib import format as npy

from bert_keras import file_io
from bert_keras.errors import ArtifactError, UsageError
from bert_keras.retrieval.nearest import COSINE, DOT
from bert_keras.retrieval.quantization import PRECISIONS, UBINARY

SETTINGS, VECTORS, GRAPH = "vector_index.json", "vectors.npy", "graph.usearch"
_TEXTS, _OFFSETS = "texts.jsonl", "offsets.npy"
_FORMAT = 1
_CURE = "Build the index again, or copy its folder again."

# A block of vectors with its texts, or None for vectors alone.
Block = tuple[np.ndarray, Sequence[str] | None]


@dataclass(frozen=True)
class IndexSettings:
    """Content of the file `vector_index.json`.

    Attributes:
        rows: number of vectors.
        size: numbers of a vector before the quantisation.
        precision: name of the number format.
        similarity: "cosine" or "dot".
        model: name of the model that made the vectors; "" if it is not stated.
        options: options of `encode` of the documents; None for vectors of unknown origin.
        texts: True if there is a text for each vector.
        graph_bytes: size of the file with the graph; 0 without a graph.
        graph_precision: number format of the vectors in the graph; "" without a graph.
        format: version of this format.
    """

    rows: int
    size: int
    precision: str
    similarity: str
    model: str
    options: Mapping[str, Any] | None
    texts: bool
    graph_bytes: int = 0
    graph_precision: str = ""
    format: int = _FORMAT

    @classmethod
    def read(cls, folder: Path) -> IndexSettings:
        """Read the settings of an index and check their values.

        Raises:
            ArtifactError: if the folder has no index, one of a newer version, or a damaged one.
        """
        path = folder / SETTINGS
        if not path.is_file():
            raise ArtifactError(
                f"{folder}: not an index, because it has no {SETTINGS}. Name a folder that "
                "`VectorIndex.save` or `index_documents` wrote."
            )
        values = file_io.read_object(path)
        version = values.get("format")
        if type(version) is int and version > _FORMAT:
            raise ArtifactError(
                f"{path}: written by a newer version of bert-keras, in format {version}. Update "
                "bert-keras, or build the index again."
            )
        names = [field.name for field in fields(cls)]
        file_io.refuse_unknown_keys(path, values, names)
        options = values.get("options")
        are_right = {
            "format": type(version) is int and version == _FORMAT,
            "rows": _is_count(values.get("rows"), 1),
            "size": _is_count(values.get("size"), 1),
            "precision": values.get("precision") in PRECISIONS,
            "similarity": values.get("similarity") in (COSINE, DOT),
            "model": isinstance(values.get("model"), str),
            "options": options is None or file_io.is_object(options),
            "texts": isinstance(values.get("texts"), bool),
            "graph_bytes": _is_count(values.get("graph_bytes"), 0),
            "graph_precision": values.get("graph_precision")
            in (PRECISIONS if values.get("graph_bytes") else ("",)),
        }
        for name, is_right in are_right.items():
            if not is_right:
                raise ArtifactError(
                    f"{path}: {name} is missing or wrong. {_CURE} "
                    f"Received: {name}={values.get(name)!r:.100}"
                )
        return cls(**values)


def _is_count(value: Any, least: int) -> bool:
    """Return whether a value is a whole number of at least `least`."""
    return type(value) is int and value >= least


class StoredTexts(Sequence[str]):
    """Texts in a file of JSON strings, one a line, which are read when they are needed.

    Args:
        folder: folder of the index.
        rows: number of texts.

    Raises:
        ArtifactError: if the files are missing or damaged.
    """

    def __init__(self, folder: Path, rows: int):
        self._path = folder / _TEXTS
        self._offsets = read_array(folder / _OFFSETS, np.dtype(np.int64), (rows + 1,))
        size = self._path.stat().st_size if self._path.is_file() else -1
        if (
            self._offsets[0] != 0
            or self._offsets[-1] != size
            or (np.diff(self._offsets) <= 0).any()
        ):
            raise ArtifactError(
                f"{self._path}: missing or damaged, because {_OFFSETS} states "
                f"{int(self._offsets[-1]):,} bytes. {_CURE} Received: "
                f"{'no file' if size < 0 else f'{size:,} bytes'}"
            )
        self._bytes = np.memmap(self._path, np.uint8, mode="r")

    def __len__(self) -> int:
        return len(self._offsets) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[row] for row in range(*index.indices(len(self)))]
        row = range(len(self))[index]  # also for numbers from the end
        line = self._bytes[self._offsets[row] : self._offsets[row + 1]].tobytes()
        text = file_io.decode_json(line, f"{self._path}:{row + 1}")
        if not isinstance(text, str):
            raise ArtifactError(
                f"{self._path}:{row + 1}: not a text. {_CURE} Received: {text!r:.100}"
            )
        return text


def read_array(path: Path, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray:
    """Open a .npy file as a memory-mapped array.

    Args:
        path: path of the file.
        dtype: expected type of its numbers.
        shape: expected shape.

    Raises:
        ArtifactError: if there is no such file, or it is damaged or has another content.
    """
    if not path.is_file():
        raise ArtifactError(f"{path}: no such file, but {SETTINGS} states it. {_CURE}")
    try:
        values: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError, SyntaxError) as error:
        raise ArtifactError(f"{path}: damaged ({error}). {_CURE}") from error
    if values.dtype != dtype or values.shape != shape:
        raise ArtifactError(
            f"{path}: {SETTINGS} states {dtype} of shape {shape}. {_CURE} Received: "
            f"{values.dtype} of shape {values.shape}"
        )
    return values


def stored_dtype(precision: str) -> np.dtype[Any]:
    """Return the dtype of the numbers in `vectors.npy`."""
    return np.dtype(np.uint8 if precision == UBINARY else precision)


def stored_width(size: int, precision: str) -> int:
    """Return the number of columns of `vectors.npy`."""
    return -(-size // 8) if precision == UBINARY else size


def check_folder(folder: Path) -> None:
    """Raise `UsageError` unless a folder is free or has an index, which a new one may replace."""
    if folder.is_dir() and ((folder / SETTINGS).is_file() or not any(folder.iterdir())):
        return
    if folder.exists():
        raise UsageError(
            f"{folder}: exists already and is not an index, so it is not overwritten. Name "
            "another folder."
        )


def write_files(
    folder: Path,
    blocks: Iterable[Block],
    settings: IndexSettings,
    graph: Callable[[Path], object] | None = None,
) -> None:
    """Write the folder of an index; it appears, or replaces an earlier index, when it is complete.

    Args:
        folder: folder to write.
        blocks: vectors in their precision with their texts.
        settings: settings without the right numbers of rows and bytes.
        graph: function that writes the graph to a path; None without a graph.

    Raises:
        UsageError: if the folder exists and is not an index.
        ValueError: if there are no vectors.
    """
    check_folder(folder)
    shape, dtype = (stored_width(settings.size, settings.precision),), np.dtype(np.int64)
    with file_io.new_folder(folder) as new:
        with (new / VECTORS).open("wb") as file:
            vectors = _GrowingArray(file, stored_dtype(settings.precision), shape)
            if settings.texts:
                with (new / _TEXTS).open("wb") as lines, (new / _OFFSETS).open("wb") as places:
                    offsets = _GrowingArray(places, dtype, ())
                    offsets.add(np.zeros(1, np.int64))
                    for block, texts in blocks:
                        ends = _write_lines(lines, texts or ())
                        offsets.add(np.frombuffer(ends, np.int64))
                        vectors.add(block)
                    offsets.end()
            else:
                for block, _ in blocks:
                    vectors.add(block)
            vectors.end()
        if not vectors.rows:
            raise ValueError("An index needs at least one vector. Received: no vectors")
        if graph is not None:
            graph(new / GRAPH)
        size = (new / GRAPH).stat().st_size if graph is not None else 0
        values = {**asdict(settings), "rows": vectors.rows, "graph_bytes": size}
        file_io.write_json(new / SETTINGS, values)


def _write_lines(file: BinaryIO, texts: Iterable[str]) -> array[int]:
    """Write a line for each text, and return where the lines end."""
    ends = array("q")
    for text in texts:
        file.write(json.dumps(text).encode() + b"\n")
        ends.append(file.tell())
    return ends


class _GrowingArray:
    """Writer of a .npy file whose number of rows is known at the end.

    NumPy leaves room in the header for the number of rows.

    Args:
        file: file to write.
        dtype: type of the numbers.
        shape: shape of a row.
    """

    def __init__(self, file: BinaryIO, dtype: np.dtype[Any], shape: tuple[int, ...]):
        self.rows = 0
        self._file, self._dtype, self._shape = file, dtype, shape
        self._write_header()
        self._start = file.tell()

    def add(self, rows: np.ndarray) -> None:
        """Write rows [n, ...] of this shape and type at the end."""
        self._file.write(np.ascontiguousarray(rows, self._dtype).tobytes())
        self.rows += len(rows)

    def end(self) -> None:
        """Write the number of rows into the header."""
        self._file.seek(0)
        self._write_header()
        assert self._file.tell() == self._start  # the header has its first length

    def _write_header(self) -> None:
        shape = (self.rows, *self._shape)
        header = {
            "descr": npy.dtype_to_descr(self._dtype),
            "fortran_order": False,
            "shape": shape,
        }
        npy.write_array_header_1_0(self._file, header)
