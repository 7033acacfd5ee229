"""Reading and writing safetensors files, with errors that name file and tensor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import keras
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from bert_keras.errors import ArtifactError, NumericError


class TensorFile:
    """A safetensors file, opened for reading: shapes first, values one by one.

    Args:
        path: the file.
        rename: gives the name by which a tensor of the file is asked for.

    Raises:
        ArtifactError: the file is missing, or is not a whole safetensors file.
    """

    def __init__(self, path: Path, rename: Callable[[str], str] = str):
        self.path = path
        if not path.is_file():
            raise ArtifactError(f"{path}: no such file. The folder is not a checkpoint.")
        try:
            self._file = safe_open(path, framework="np")
        except (SafetensorError, OSError) as error:
            raise ArtifactError(f"{path}: not a whole safetensors file ({error}).") from error
        stored = self._file.keys()
        self._names = {rename(name): name for name in stored}
        self.shapes = {
            name: tuple(self._file.get_slice(its_name).get_shape())
            for name, its_name in self._names.items()
        }

    def read(self, name: str) -> np.ndarray:
        """The values of one tensor."""
        return self._file.get_tensor(self._names[name])

    def __enter__(self) -> TensorFile:
        self._file.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.__exit__(kind, error, traceback)


def finite(variable: Any) -> np.ndarray:
    """The values of a variable.

    Raises:
        NumericError: one of them is not finite.
    """
    array = np.asarray(keras.ops.convert_to_numpy(variable.value))
    # Of the standard kinds only floats can be non-finite; "V" are bfloat16 and its kin.
    if array.dtype.kind in "fV" and not np.isfinite(array).all():
        raise NumericError(
            f"{variable.path} is not finite: nothing was written. Such a model answers nothing; "
            "go back to a checkpoint that is good."
        )
    return array


def serialized(tensors: Mapping[str, np.ndarray]) -> bytes:
    """The bytes of a safetensors file with these tensors.

    The metadata is what Hugging Face's library looks for.
    """
    return save(dict(tensors), metadata={"format": "pt"})


def check(
    path: Path,
    found: Mapping[str, tuple[int, ...]],
    expected: Mapping[str, tuple[int, ...]],
    missing_allowed: Iterable[str] = (),
    unused_allowed: Iterable[str] = (),
) -> None:
    """Compares the names and shapes of a file with those a model needs, both ways.

    Raises:
        ArtifactError: a tensor is missing, is not used, or has another shape; all are listed.
    """
    missing = sorted(set(expected) - set(found) - set(missing_allowed))
    unused = sorted(set(found) - set(expected) - set(unused_allowed))
    wrong = [
        f"{name}: expected {list(expected[name])}, found {list(found[name])}"
        for name in sorted(set(expected) & set(found))
        if expected[name] != found[name]
    ]
    problems = [
        f"{title}:\n  " + "\n  ".join(names)
        for title, names in (
            ("Missing in the file", missing),
            ("Not used by the model", unused),
            ("Of another shape", wrong),
        )
        if names
    ]
    if problems:
        raise ArtifactError(f"{path} does not fit the model.\n" + "\n".join(problems))
