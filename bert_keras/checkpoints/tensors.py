"""Reading and writing files of tensors, with errors that name file and tensor."""

from __future__ import annotations

import abc
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Self

import keras
import numpy as np
from safetensors import SafetensorError, safe_open

from bert_keras import strict_json
from bert_keras.checkpoints.manifest import WEIGHTS, check_header
from bert_keras.errors import ArtifactError, NumericError

_MAPPED = 2**25  # bytes that are read before the file is opened anew
INDEX, PICKLE = f"{WEIGHTS}.index.json", "pytorch_model.bin"
FILES = (WEIGHTS, INDEX, PICKLE)  # in the order they are looked for


class Tensors(abc.ABC):
    """Tensors by name, opened for reading: shapes first, values one by one.

    Attributes:
        path: the file, or the one that names the files.
        shapes: by the names that tensors are asked for.
    """

    path: Path
    shapes: dict[str, tuple[int, ...]]

    @abc.abstractmethod
    def read(self, name: str) -> np.ndarray:
        """The values of one tensor."""

    def close(self) -> None:  # noqa: B027
        """Lets go of the files, if any are held."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class TensorFile(Tensors):
    """A safetensors file.

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
        self._open()
        check_header(path)
        stored = self._file.keys()
        self._names = {rename(name): name for name in stored}
        self.shapes = {
            name: tuple(self._file.get_slice(its_name).get_shape())
            for name, its_name in self._names.items()
        }

    def read(self, name: str) -> np.ndarray:
        """The values of one tensor."""
        if self._read > _MAPPED:  # lets go of what was read, which stays mapped otherwise
            self.close()
            self._open()
        try:
            array = self._file.get_tensor(self._names[name])
        except (SafetensorError, TypeError, AttributeError) as error:  # a kind NumPy has not
            raise ArtifactError(f"{self.path}: {name} cannot be read ({error}).") from error
        self._read += array.nbytes
        return array

    def _open(self) -> None:
        try:
            self._file = safe_open(self.path, framework="np")
        except (SafetensorError, OSError) as error:
            raise ArtifactError(f"{self.path}: not a whole safetensors file ({error}).") from error
        self._read = 0

    def close(self) -> None:
        """Lets go of the file."""
        self._file.__exit__(None, None, None)


class ShardedTensors(Tensors):
    """Safetensors files that an index names: which tensor is in which.

    Args:
        path: the index, a JSON file; its files lie beside it.
        rename: as for `TensorFile`.

    Raises:
        ArtifactError: no index, a file outside the folder, or a tensor that is not where it says.
    """

    def __init__(self, path: Path, rename: Callable[[str], str] = str):
        self.path = path
        places = strict_json.read_object(path).get("weight_map")
        if not isinstance(places, dict) or not all(map(_is_beside, places.values())):
            raise ArtifactError(
                f"{path}: weight_map must give each tensor a .safetensors file of this folder. "
                f"Received: {str(places)[:200]}"
            )
        self._files = {
            name: TensorFile(path.with_name(name)) for name in sorted(set(places.values()))
        }
        self._places = {rename(tensor): (tensor, name) for tensor, name in places.items()}
        self.shapes = {}
        for tensor, (stored, name) in self._places.items():
            if stored not in self._files[name].shapes:
                raise ArtifactError(
                    f"{path.with_name(name)}: has no {stored}, which the index says."
                )
            self.shapes[tensor] = self._files[name].shapes[stored]

    def read(self, name: str) -> np.ndarray:
        """The values of one tensor."""
        stored, file = self._places[name]
        return self._files[file].read(stored)

    def close(self) -> None:
        """Lets go of all files."""
        for file in self._files.values():
            file.close()


class PickledTensors(Tensors):
    """A pytorch_model.bin, by PyTorch's reader that makes nothing but tensors.

    Args:
        path: the file.
        rename: as for `TensorFile`.

    Raises:
        ArtifactError: it holds something else.
        ImportError: PyTorch is not installed.
    """

    def __init__(self, path: Path, rename: Callable[[str], str] = str):
        import torch

        self.path = path
        try:
            loaded = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # whatever a damaged or hostile pickle raises
            raise ArtifactError(
                f"{path}: PyTorch does not read it as mere weights ({str(error)[:300]})."
            ) from error
        if not isinstance(loaded, dict) or not all(map(torch.is_tensor, loaded.values())):
            raise ArtifactError(f"{path}: not a dictionary of tensors.")
        self._tensors = {rename(name): tensor for name, tensor in loaded.items()}
        self.shapes = {name: tuple(tensor.shape) for name, tensor in self._tensors.items()}

    def read(self, name: str) -> np.ndarray:
        """The values of one tensor."""
        tensor = self._tensors[name]
        return (tensor.float() if tensor.is_floating_point() else tensor).numpy()


def find(directory: Path, *, allow_pickle: bool = False) -> Path:
    """The file with a folder's weights, or with the index of its files.

    Raises:
        ArtifactError: none, or a pickle that was not asked for.
    """
    for name in (WEIGHTS, INDEX):
        if (directory / name).is_file():
            return directory / name
    pickle = directory / PICKLE
    if not pickle.is_file():
        raise ArtifactError(f"{directory / WEIGHTS}: no such file. The folder is not a checkpoint.")
    if not allow_pickle:
        raise ArtifactError(
            f"{pickle}: a pickle, which can run code when it is read. Take a {WEIGHTS} where there "
            "is one, or read it with PyTorch's `weights_only`: allow_pickle=True."
        )
    return pickle


def open_tensors(path: Path, rename: Callable[[str], str] = str) -> Tensors:
    """Opens what `find` found."""
    if path.name == INDEX:
        return ShardedTensors(path, rename)
    return (PickledTensors if path.name == PICKLE else TensorFile)(path, rename)


def _is_beside(name: Any) -> bool:
    return isinstance(name, str) and re.fullmatch(r"[\w-][\w.-]*\.safetensors", name) is not None


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
