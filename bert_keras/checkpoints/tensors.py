"""Readers of weights files (safetensors, PyTorch), whose errors name the file and the tensor."""

from __future__ import annotations

import abc
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from safetensors import SafetensorError, safe_open

from bert_keras import file_io
from bert_keras.checkpoints.manifest import WEIGHTS, check_header
from bert_keras.errors import COPY_AGAIN, ArtifactError

PART = 2**23  # bytes: a larger tensor is read and written in parts
INDEX, PICKLE = f"{WEIGHTS}.index.json", "pytorch_model.bin"
FILES = (WEIGHTS, INDEX, PICKLE)  # `find` takes the first one that exists


def row_parts(shape: Sequence[int], row: int) -> list[slice]:
    """Return slices of rows that split a tensor into parts of at most `PART` bytes.

    Args:
        shape: shape of the tensor.
        row: bytes of one row.

    Returns:
        The slices; [] if the tensor is small enough for one part.
    """
    if len(shape) < 2 or 0 in shape:
        return []
    count = max(1, PART // max(1, row))
    starts = range(0, shape[0], count)
    return [slice(start, min(start + count, shape[0])) for start in starts] if starts[1:] else []


class Tensors(abc.ABC):
    """The tensors of an opened weights file. Shapes are known at once, values are read on demand.

    Attributes:
        path: path of the file, or of the index of several files.
        shapes: shape of each tensor, by name.
    """

    path: Path
    shapes: dict[str, tuple[int, ...]]

    @abc.abstractmethod
    def rows(self, name: str) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the values of one tensor, a large one in parts: (index of first row, rows).

        Raises:
            ArtifactError: if they cannot be read.
        """

    def read(self, name: str) -> np.ndarray:
        """Return all values of one tensor."""
        array = None
        for start, values in self.rows(name):
            if values.shape == self.shapes[name]:
                return values
            array = np.empty(self.shapes[name], values.dtype) if array is None else array
            array[start : start + len(values)] = values
        assert array is not None
        return array

    def close(self) -> None:  # noqa: B027
        """Close the files, if any are open."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class TensorFile(Tensors):
    """A safetensors file.

    Args:
        path: path of the file.
        rename: maps the name of a tensor in the file to the name used by callers.

    Raises:
        ArtifactError: if the file is missing or damaged.
    """

    def __init__(self, path: Path, rename: Callable[[str], str] = str):
        self.path = path
        if not path.is_file():
            raise ArtifactError(file_io.missing_file(path))
        self._open()
        check_header(path)
        stored = self._file.keys()
        self._names = renamed(path, stored, rename)
        self.shapes = {
            name: tuple(self._file.get_slice(its_name).get_shape())
            for name, its_name in self._names.items()
        }

    def rows(self, name: str) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the values of one tensor, a large one in parts: (index of first row, rows)."""
        shape = self.shapes[name]
        try:
            row = self._part(name, slice(0, 1)).nbytes if shape else 0
            for part in row_parts(shape, row) or [slice(None)]:
                yield part.start or 0, self._part(name, part)
        except (SafetensorError, TypeError, AttributeError) as error:  # a type that NumPy lacks
            raise ArtifactError(
                f"{self.path}: {name} cannot be read ({error}). {COPY_AGAIN}"
            ) from error

    def _part(self, name: str, rows: slice) -> np.ndarray:
        """Read some rows of a tensor, or all of it."""
        if self._read > PART:  # pages that were read stay in memory until the file is closed
            self.close()
            self._open()
        its_name = self._names[name]
        whole = rows == slice(None)
        array = self._file.get_tensor(its_name) if whole else self._file.get_slice(its_name)[rows]
        self._read += array.nbytes
        return array

    def _open(self) -> None:
        """Open the file and start to count the bytes that are read."""
        try:
            self._file = safe_open(self.path, framework="np")
        except (SafetensorError, OSError) as error:
            raise ArtifactError(
                f"{self.path}: not a whole safetensors file ({error}). {COPY_AGAIN}"
            ) from error
        self._read = 0

    def close(self) -> None:
        """Close the file."""
        self._file.__exit__(None, None, None)


def renamed(path: Path, stored: Iterable[str], rename: Callable[[str], str]) -> dict[str, str]:
    """Return the name used by callers -> the name in the file, for all tensors of a file.

    Args:
        path: path of the file, for messages.
        stored: names in the file.
        rename: maps a name in the file to the name used by callers.

    Raises:
        ArtifactError: if two tensors get the same name.
    """
    names = {rename(name): name for name in stored}
    if lost := set(stored).difference(names.values()):
        name = min(lost)
        raise ArtifactError(
            f"{path}: {name} and {names[rename(name)]} are the same tensor under an old and a new "
            "name. Remove one."
        )
    return names


class ShardedTensors(Tensors):
    """Several safetensors files with an index that states the file of each tensor.

    Args:
        path: path of the index, a JSON file. Its files lie in the same folder.
        rename: see `TensorFile`.

    Raises:
        ArtifactError: if the index is damaged, names a file outside the folder, or a tensor is not
            in the file that it names.
    """

    def __init__(self, path: Path, rename: Callable[[str], str] = str):
        self.path = path
        places = file_io.read_object(path).get("weight_map")
        if not isinstance(places, dict) or not all(map(_is_beside, places.values())):
            raise ArtifactError(
                f"{path}: weight_map must give each tensor a .safetensors file of this folder. "
                f"Received: {str(places)[:200]}"
            )
        self._files = {
            name: TensorFile(path.with_name(name)) for name in sorted(set(places.values()))
        }
        names = renamed(path, places, rename)
        self._places = {name: (stored, places[stored]) for name, stored in names.items()}
        self.shapes = {}
        for tensor, (stored, name) in self._places.items():
            if stored not in self._files[name].shapes:
                raise ArtifactError(
                    f"{path.with_name(name)}: has no {stored}, although {path.name} states it. "
                    f"{COPY_AGAIN}"
                )
            self.shapes[tensor] = self._files[name].shapes[stored]

    def rows(self, name: str) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the values of one tensor, a large one in parts: (index of first row, rows)."""
        stored, file = self._places[name]
        return self._files[file].rows(stored)

    def close(self) -> None:
        """Close all files."""
        for file in self._files.values():
            file.close()


class JoinedFiles(Tensors):
    """The tensors of several opened files as one collection.

    Args:
        path: path that stands for all files in messages.
        parts: opened files.

    Raises:
        ArtifactError: if two files have a tensor of the same name.
    """

    def __init__(self, path: Path, parts: Sequence[Tensors]):
        self.path, self._parts = path, tuple(parts)
        self._owners: dict[str, Tensors] = {}
        self.shapes = {}
        for part in parts:
            if twice := sorted(set(part.shapes) & set(self.shapes)):
                owner = self._owners[twice[0]].path
                raise ArtifactError(f"{part.path}: {twice[0]} is in {owner} too. Remove one.")
            self._owners |= dict.fromkeys(part.shapes, part)
            self.shapes |= part.shapes

    def rows(self, name: str) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the values of one tensor, a large one in parts: (index of first row, rows)."""
        return self._owners[name].rows(name)

    def close(self) -> None:
        """Close all files."""
        for part in self._parts:
            part.close()


def find(directory: Path, *, allow_pickle: bool = False) -> Path:
    """Return the path of a folder's weights file, or of the index of several files.

    Args:
        directory: the folder.
        allow_pickle: whether a `pytorch_model.bin` may be taken if there is no safetensors file.

    Raises:
        ArtifactError: if there is no weights file, or only a pickle that is not allowed.
    """
    for name in (WEIGHTS, INDEX):
        if (directory / name).is_file():
            return directory / name
    pickle = directory / PICKLE
    if not pickle.is_file():
        raise ArtifactError(
            f"{file_io.missing_file(directory / WEIGHTS)} A repository that has only a {PICKLE} "
            "opens with allow_pickle=True."
        )
    if not allow_pickle:
        raise ArtifactError(
            f"{pickle}: a pickle, which can run code when it is read. Take a {WEIGHTS} where there "
            "is one, or read it with PyTorch's `weights_only`: allow_pickle=True."
        )
    return pickle


def open_tensors(path: Path, rename: Callable[[str], str] = str) -> Tensors:
    """Open a weights file that `find` returned; `TensorFile` describes `rename`."""
    if path.name == INDEX:
        return ShardedTensors(path, rename)
    if path.name == PICKLE:
        return PickledTensors(path, rename)
    return TensorFile(path, rename)


def _is_beside(name: Any) -> bool:
    """Return whether a value is the name of a safetensors file without a folder."""
    return isinstance(name, str) and re.fullmatch(r"[\w-][\w.-]*\.safetensors", name) is not None


def check(
    path: Path,
    found: Mapping[str, tuple[int, ...]],
    expected: Mapping[str, tuple[int, ...]],
    missing_allowed: Iterable[str] = (),
    unused_allowed: Iterable[str] = (),
    hint: str = "",
) -> None:
    """Compare the names and shapes of a file's tensors with those that a model needs.

    Args:
        path: path of the file.
        found: shapes in the file, by tensor name.
        expected: shapes that the model needs, by tensor name.
        missing_allowed: names of tensors that the file may lack.
        unused_allowed: names of tensors that the model may leave unused.
        hint: advice at the end of the message.

    Raises:
        ArtifactError: if a tensor is missing, unused, or of another shape. All are listed.
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
        problems += [hint] if hint else []
        raise ArtifactError(f"{path} does not fit the model.\n" + "\n".join(problems))


# === pytorch_model.bin ===


class PickledTensors(Tensors):
    """The tensors of a pytorch_model.bin, all read into memory when it is opened.

    PyTorch reads the file with `weights_only`, which runs no code of the file.

    Args:
        path: path of the file.
        rename: maps the name of a tensor in the file to the name used by callers.

    Raises:
        ArtifactError: if PyTorch cannot read the file, it is not a dictionary of whole, dense
            tensors, or two tensors get the same name.
        ImportError: if PyTorch is not installed.
    """

    def __init__(self, path: Path, rename: Callable[[str], str] = str):
        import torch

        self.path = path
        try:
            loaded = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # a damaged or hostile pickle can raise any type
            raise ArtifactError(
                f"{path}: PyTorch cannot read it as weights alone ({str(error)[:300]}). Use a "
                f"{WEIGHTS}, or save the state_dict of the model again."
            ) from error
        if not isinstance(loaded, dict) or not all(map(torch.is_tensor, loaded.values())):
            raise ArtifactError(
                f"{path}: not a dictionary of tensors. Save the state_dict of the model."
            )
        for name, tensor in loaded.items():
            is_dense = tensor.layout == torch.strided and tensor.device.type == "cpu"
            # A damaged file may declare a shape that needs more bytes than the file holds.
            if (
                not isinstance(name, str)
                or not is_dense
                or tensor.untyped_storage().nbytes() < tensor.numel() * tensor.element_size()
            ):
                raise ArtifactError(f"{path}: {name}: not a whole, dense tensor. {COPY_AGAIN}")
        names = renamed(path, loaded, rename)
        self._tensors = {name: loaded[stored].detach() for name, stored in names.items()}
        self.shapes = {name: tuple(tensor.shape) for name, tensor in self._tensors.items()}

    def rows(self, name: str) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the values of one tensor as one part, because they are in memory already."""
        tensor = self._tensors[name]
        yield 0, (tensor.float() if tensor.is_floating_point() else tensor).numpy()
