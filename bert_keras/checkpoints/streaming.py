"""Reading and writing of weights in parts, so that a model is never in memory twice.

The safetensors library writes only arrays that are all in memory, so the format is written here:
eight bytes with the length of a JSON header, the header, then the numbers
(https://github.com/huggingface/safetensors, "Format").
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import keras
import numpy as np

from bert_keras import file_io
from bert_keras.checkpoints import tensors
from bert_keras.checkpoints.name_mapping import Shape, TensorSpec
from bert_keras.checkpoints.tensors import Tensors
from bert_keras.errors import COPY_AGAIN, ArtifactError, NumericError

_KINDS = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "int64": "I64",
    "int32": "I32",
    "int8": "I8",
}
_METADATA = {"format": "pt"}  # transformers expects it


def write_safetensors(path: Path, specs: Iterable[TensorSpec]) -> str:
    """Write variables into a safetensors file.

    Args:
        path: path of the file. It is replaced as a whole, or stays as it was on an error.
        specs: variables with the tensors that store them.

    Returns:
        sha256 of the file.

    Raises:
        NumericError: if a value is not finite.
    """
    specs = list(specs)
    header: dict[str, object] = {"__metadata__": _METADATA}
    end = 0
    for spec in specs:
        dtype = str(spec.variable.dtype)
        width = 2 if dtype == "bfloat16" else np.dtype(dtype).itemsize
        start, end = end, end + width * math.prod(spec.shape)
        header[spec.tensor] = {
            "dtype": _KINDS[dtype],
            "shape": list(spec.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    digest = hashlib.sha256()
    with file_io.new_file(path) as file:
        for part in (len(text).to_bytes(8, "little"), text):
            digest.update(part)
            file.write(part)
        for spec in with_progress(specs, f"writing {path}"):
            for _, array in parts(spec):
                data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
                digest.update(data)
                file.write(data)
    return digest.hexdigest()


# === HDF5 ===


_DEEPEST = 16  # levels of groups
_MOST = 100_000  # groups and datasets
_WRITE_WHOLE = "Write the weights again by Keras, into one file."

# A dataset to write: name, shape, values in parts. A part is (index of its first row, rows).
Dataset = tuple[str, Shape, Iterable[tuple[int, np.ndarray]]]


class HDF5File(tensors.Tensors):
    """The datasets of an HDF5 file.

    Args:
        path: path of the file.
        rename: maps the name of a dataset in the file to the name used by callers.

    Raises:
        ArtifactError: if the file is missing or damaged, or refers to other files by links or
            external data.
    """

    def __init__(self, path: Path, rename: Callable[[str], str] = str):
        import h5py

        self.path = path
        if not path.is_file():
            raise ArtifactError(file_io.missing_file(path))
        try:
            self._file = h5py.File(path, "r")
        except OSError as error:
            raise ArtifactError(f"{path}: not a whole HDF5 file ({error}). {COPY_AGAIN}") from error
        self._found: dict[str, Any] = {}
        self._seen = 0
        try:
            self._collect(self._file, "")
        except ArtifactError:
            self.close()
            raise
        except Exception as error:  # h5py raises many types for a damaged file
            self.close()
            raise ArtifactError(f"{path}: damaged ({error}). {COPY_AGAIN}") from error
        self._names = {rename(name): name for name in self._found}
        self.shapes = {name: self._found[its].shape for name, its in self._names.items()}

    def _part(self, name: str, rows: slice) -> np.ndarray:
        """Read some rows of a dataset, or all of a scalar."""
        try:
            item = self._found[self._names[name]]
            return item[rows] if item.shape else item[()]
        except Exception as error:
            raise ArtifactError(
                f"{self.path}: {name} cannot be read ({error}). {COPY_AGAIN}"
            ) from error

    def rows(self, name: str) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the values of one dataset, a large one in parts: (index of first row, rows)."""
        item = self._found[self._names[name]]
        row = item.dtype.itemsize * math.prod(item.shape[1:])
        for part in tensors.row_parts(item.shape, row) or [slice(None)]:
            yield part.start or 0, self._part(name, part)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _collect(self, group: Any, place: str) -> None:
        """Collect the datasets of a group and of its subgroups in `_found`.

        Args:
            group: group of the file.
            place: its path, which ends in "/"; "" for the root.

        Raises:
            ArtifactError: if a dataset is compressed, lies outside the file or holds no numbers.
        """
        import h5py

        for key in group:
            name = f"{place}{key}"
            self._seen += 1
            if self._seen > _MOST or name.count("/") > _DEEPEST:
                raise ArtifactError(
                    f"{self.path}: {name}: deeper or longer than any weights file. {COPY_AGAIN}"
                )
            if not isinstance(group.get(key, getlink=True), h5py.HardLink):
                raise ArtifactError(f"{self.path}: {name}: a link is not read. {_WRITE_WHOLE}")
            item = group[key]
            if isinstance(item, h5py.Group):
                self._collect(item, f"{name}/")
            elif not isinstance(item, h5py.Dataset) or item.external or item.is_virtual:
                raise ArtifactError(
                    f"{self.path}: {name}: data outside the file are not read. {_WRITE_WHOLE}"
                )
            elif item.dtype.kind not in "fiu":
                raise ArtifactError(
                    f"{self.path}: {name}: expected numbers. Received: {item.dtype}. {COPY_AGAIN}"
                )
            elif (stored := item.id.get_storage_size()) < item.nbytes:
                raise ArtifactError(
                    f"{self.path}: {name}: {item.nbytes} bytes by its shape, {stored} in the file. "
                    f"Compressed data are not read. {_WRITE_WHOLE}"
                )
            else:
                self._found[name] = item


def write_hdf5(path: Path, datasets: Iterable[Dataset]) -> None:
    """Write an HDF5 file part by part. Types that NumPy lacks (bfloat16) are written as float32."""
    import h5py

    with h5py.File(path, "w") as file:
        for name, shape, parts in datasets:
            for start, rows in parts:
                dtype = np.dtype("float32") if rows.dtype.kind == "V" else rows.dtype
                place = file.require_dataset(name, shape, dtype)
                place[slice(start, start + len(rows)) if shape else ()] = rows.astype(
                    dtype, copy=False
                )


# === Variables ===


_FLOAT = 4  # bytes of a float32

# Progress callback: report(description, numbers done so far, total of numbers).
Report = Callable[[str, int, int], object]
_report: ContextVar[Report | None] = ContextVar("report", default=None)


@contextmanager
def reported(report: Report) -> Iterator[None]:
    """Call `report` with the progress of all checkpoints read or written within this context."""
    token = _report.set(report)
    try:
        yield
    finally:
        _report.reset(token)


def with_progress(specs: Sequence[TensorSpec], description: str) -> Iterator[TensorSpec]:
    """Yield the tensor specs one by one, and report after each how many weights are done.

    Args:
        specs: variables with their tensors. Progress goes to the callback of `reported`.
        description: description of the work for the report, such as "reading model.safetensors".
    """
    report = _report.get()
    sizes = [math.prod(spec.shape) for spec in specs]
    done, total = 0, sum(sizes)
    for spec, size in zip(specs, sizes, strict=True):
        yield spec
        done += size
        if report:
            report(description, done, total)


def fill(spec: TensorSpec, source: Tensors) -> bool:
    """Assign a tensor to its variable. A large table is assigned in parts of some rows.

    The token embedding table is a fifth of a checkpoint, and `assign` would hold it three times.
    JAX's arrays are immutable, so they are assigned as a whole.

    Args:
        spec: variable with the tensor that stores it.
        source: opened file.

    Returns:
        True if all values are finite.

    Raises:
        ArtifactError: if the tensor cannot be read, or does not hold floats.
    """
    rest = source.rows(spec.tensor)
    first = next(rest)
    some = first[1]
    if some.dtype.kind not in "fV":  # NumPy gives bfloat16 the kind "V"
        raise ArtifactError(
            f"{source.path}: {spec.tensor}: expected floats. Received: {some.dtype}. Quantised "
            "files of other libraries cannot be read: take the checkpoint in float32 or float16."
        )
    is_whole = some.shape == source.shapes[spec.tensor]
    is_same = spec.layout.same_rows and str(some.dtype) == spec.variable.dtype
    if is_same and not is_whole and keras.backend.backend() != "jax":
        finite_parts: list[bool] = []

        def checked() -> Iterator[tuple[int, np.ndarray]]:
            """Yield all parts and record in `finite_parts` whether each is finite."""
            for start, rows in itertools.chain([first], rest):
                finite_parts.append(_all_finite(rows))
                yield start, rows

        _assign_rows(spec.variable.value, checked())
        return all(finite_parts)
    if not is_whole:
        del rest, first
        some = source.read(spec.tensor)
    spec.variable.assign(spec.layout.to_keras_layout(some))
    return _all_finite(some)


def _all_finite(values: np.ndarray) -> bool:
    """Return whether all values are finite.

    A finite sum proves it without a second array. Only a sum that overflows needs the slow check.
    """
    with np.errstate(all="ignore"):
        total = values.sum(dtype=np.float32 if values.dtype.itemsize < 8 else None)
    return bool(np.isfinite(total) or np.isfinite(values).all())


def _assign_rows(value: Any, parts: Iterable[tuple[int, np.ndarray]]) -> None:
    """Assign parts of rows to a backend's variable without a copy of the whole table.

    Args:
        value: the backend's tensor or variable of a Keras variable.
        parts: parts of its values: (index of first row, rows).
    """
    if keras.backend.backend() != "tensorflow":
        for start, rows in parts:
            value.data[start : start + len(rows)] = keras.ops.convert_to_tensor(rows)
        return
    import tensorflow as tf

    # TensorFlow copies a variable at every later read once parts were assigned to it. So the table
    # is built first and assigned as a whole, after the memory of the old table is released.
    is_one = not tf.distribute.has_strategy()  # a strategy has one variable on every device
    if is_one:
        nothing = tf.zeros((0, *value.shape[1:]), value.dtype)
        tf.raw_ops.AssignVariableOp(resource=value.handle, value=nothing)
    whole = tf.raw_ops.Empty(shape=value.shape, dtype=value.dtype)
    for start, rows in parts:
        numbers = tf.range(start, start + len(rows))
        whole = tf.raw_ops.InplaceUpdate(x=whole, i=numbers, v=rows)
    if is_one:
        tf.raw_ops.AssignVariableOp(resource=value.handle, value=whole)
    else:
        value.assign(whole)


def check(specs: Sequence[TensorSpec]) -> None:
    """Check all values before anything is written.

    Raises:
        NumericError: if a value is not finite.
    """
    for spec in specs:
        for _ in finite_rows(spec.variable):
            pass


def finite(variable: Any) -> np.ndarray:
    """Return the values of a variable.

    Raises:
        NumericError: if a value is not finite.
    """
    return _finite(variable, variable.value)


def parts(spec: TensorSpec) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the values of a tensor to write, a large one in parts: (index of first row, rows).

    Raises:
        NumericError: if a value is not finite.
    """
    if not spec.layout.same_rows:
        yield 0, spec.layout.to_checkpoint_layout(finite(spec.variable))
        return
    start = 0
    for rows in finite_rows(spec.variable):
        yield start, rows
        start += len(rows)


def finite_rows(variable: Any) -> Iterator[np.ndarray]:
    """Yield the values of a variable, a large one in parts of some rows.

    Raises:
        NumericError: if a value is not finite.
    """
    parts = tensors.row_parts(variable.shape, _FLOAT * math.prod(variable.shape[1:]))
    for part in parts:
        yield _finite(variable, variable.value[part])
    if not parts:
        yield finite(variable)


def _finite(variable: Any, values: Any) -> np.ndarray:
    """Return values of a variable as a NumPy array.

    Raises:
        NumericError: if a value is not finite.
    """
    array = np.asarray(keras.ops.convert_to_numpy(values))
    # Only floats can be non-finite. NumPy gives bfloat16 and similar types the kind "V".
    if array.dtype.kind in "fV" and not np.isfinite(array).all():
        raise NumericError(
            f"{variable.path} has values that are not finite: nothing was written. The outputs of "
            "such a model are useless. Go back to an earlier checkpoint."
        )
    return array
