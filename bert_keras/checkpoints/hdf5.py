"""Keras's weight files, read and written as data: no links, nothing outside the file."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bert_keras.checkpoints import tensors
from bert_keras.checkpoints.format import Shape
from bert_keras.errors import ArtifactError

_DEEPEST = 16  # groups within groups
_MOST = 100_000  # groups and datasets

# To be written: a name, the whole shape, and the values in parts: first row, rows.
Dataset = tuple[str, Shape, Iterable[tuple[int, np.ndarray]]]


class HDF5File(tensors.Tensors):
    """The datasets of an HDF5 file.

    Args:
        path: the file.
        rename: gives the name by which a dataset is asked for.

    Raises:
        ArtifactError: it is missing, not whole, or points elsewhere by links or external data.
    """

    def __init__(self, path: Path, rename: Callable[[str], str] = str):
        import h5py

        self.path = path
        if not path.is_file():
            raise ArtifactError(f"{path}: no such file. The folder is not a checkpoint.")
        try:
            self._file = h5py.File(path, "r")
        except OSError as error:
            raise ArtifactError(f"{path}: not a whole HDF5 file ({error}).") from error
        self._found: dict[str, Any] = {}
        self._seen = 0
        try:
            self._collect(self._file, "")
        except ArtifactError:
            self.close()
            raise
        except Exception as error:  # whatever a damaged file raises
            self.close()
            raise ArtifactError(f"{path}: damaged ({error}).") from error
        self._names = {rename(name): name for name in self._found}
        self.shapes = {name: self._found[its].shape for name, its in self._names.items()}

    def _part(self, name: str, rows: slice) -> np.ndarray:
        try:
            item = self._found[self._names[name]]
            return item[rows] if item.shape else item[()]
        except Exception as error:
            raise ArtifactError(f"{self.path}: {name} cannot be read ({error}).") from error

    def rows(self, name: str) -> Iterator[tuple[int, np.ndarray]]:
        """The values of one dataset, in parts where it is large: first row, rows."""
        item = self._found[self._names[name]]
        row = item.dtype.itemsize * math.prod(item.shape[1:])
        for part in tensors.row_parts(item.shape, row) or [slice(None)]:
            yield part.start or 0, self._part(name, part)

    def close(self) -> None:
        """Lets go of the file."""
        self._file.close()

    def _collect(self, group: Any, place: str) -> None:
        import h5py

        for key in group:
            name = f"{place}{key}"
            self._seen += 1
            if self._seen > _MOST or name.count("/") > _DEEPEST:
                raise ArtifactError(f"{self.path}: {name}: deeper or longer than any weights file.")
            if not isinstance(group.get(key, getlink=True), h5py.HardLink):
                raise ArtifactError(f"{self.path}: {name}: a link, which may lead outside.")
            item = group[key]
            if isinstance(item, h5py.Group):
                self._collect(item, f"{name}/")
            elif not isinstance(item, h5py.Dataset) or item.external or item.is_virtual:
                raise ArtifactError(f"{self.path}: {name}: data that lie outside the file.")
            elif item.dtype.kind not in "fiu":
                raise ArtifactError(f"{self.path}: {name}: not numbers but {item.dtype}.")
            elif (stored := item.id.get_storage_size()) < item.nbytes:
                raise ArtifactError(
                    f"{self.path}: {name}: {item.nbytes} bytes by its shape, {stored} in the file. "
                    "What is compressed or was never written is not read."
                )
            else:
                self._found[name] = item


def write(path: Path, datasets: Iterable[Dataset]) -> None:
    """Writes a file part by part; floats that NumPy has not (bfloat16) as float32."""
    import h5py

    with h5py.File(path, "w") as file:
        for name, shape, parts in datasets:
            for start, rows in parts:
                dtype = np.dtype("float32") if rows.dtype.kind == "V" else rows.dtype
                place = file.require_dataset(name, shape, dtype)
                place[slice(start, start + len(rows)) if shape else ()] = rows.astype(
                    dtype, copy=False
                )
