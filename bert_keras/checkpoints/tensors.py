"""Readers of safetensors files, and of several files as one; checks of names and shapes."""

from __future__ import annotations

import abc
import heapq
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, Self

import numpy as np
from safetensors import SafetensorError, safe_open

from bert_keras import file_io
from bert_keras.checkpoints.manifest import check_header
from bert_keras.errors import COPY_AGAIN, ArtifactError

PART = 2**23  # bytes: a larger tensor is read and written in parts
_MOST_CLOSEST = 5  # missing names for which a message shows the closest name of the file
_PEFT = ".base_layer."  # in the names of layers that PEFT adapts
_CANDIDATES = 50  # names with most words in common, among which the closest one is searched
_UNUSED = 0.3  # by how much an unused name counts as more similar
_WORD = re.compile(r"[^./_]+")


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
        notes: lines for the user about how the file was read, such as a prefix that was removed.
    """

    path: Path
    shapes: dict[str, tuple[int, ...]]
    notes: tuple[str, ...] = ()

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


class RenamedTensors(Tensors):
    """The tensors of an opened file under other names. No value is copied.

    Args:
        source: the opened file, which is closed with this object.
        rename: maps the name of a tensor in `source` to the name used by callers.
        note: line for the user about the names.

    Raises:
        ArtifactError: if two tensors get the same name.
    """

    def __init__(self, source: Tensors, rename: Callable[[str], str], note: str):
        self.path, self._source = source.path, source
        self.notes = (*source.notes, note)
        self._names = renamed(source.path, source.shapes, rename)
        self.shapes = {name: source.shapes[its_name] for name, its_name in self._names.items()}

    def rows(self, name: str) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the values of one tensor, a large one in parts: (index of first row, rows)."""
        return self._source.rows(self._names[name])

    def close(self) -> None:
        """Close the file."""
        self._source.close()


class ShardedTensors(Tensors):
    """Several files with an index that states the file of each tensor.

    Args:
        path: path of the index, a JSON file. Its files lie in the same folder.
        rename: see `TensorFile`.
        open_file: function that opens one file.
        ending: ending of the names of the files.

    Raises:
        ArtifactError: if the index is damaged, names a file outside the folder, or a tensor is not
            in the file that it names.
    """

    def __init__(
        self,
        path: Path,
        rename: Callable[[str], str] = str,
        open_file: Callable[[Path], Tensors] = TensorFile,
        ending: str = ".safetensors",
    ):
        self.path = path
        places = file_io.read_object(path).get("weight_map")
        names = list(places.values()) if isinstance(places, dict) else []
        if not isinstance(places, dict) or not all(_is_beside(name, ending) for name in names):
            raise ArtifactError(
                f"{path}: weight_map must give each tensor a {ending} file of this folder. "
                f"Received: {str(places)[:200]}"
            )
        for name in sorted(set(names)):
            if not path.with_name(name).is_file():
                raise ArtifactError(
                    f"{path.with_name(name)}: no such file, although {path.name} states it. "
                    f"{COPY_AGAIN}"
                )
        self._files = {name: open_file(path.with_name(name)) for name in {*names}}
        names = renamed(path, places, rename)
        self._places = {name: (stored, places[stored]) for name, stored in names.items()}
        self.shapes = {}
        for tensor, (stored, name) in self._places.items():
            if stored not in self._files[name].shapes:
                raise ArtifactError(
                    f"{path.with_name(name)}: has no {stored}, although {path.name} states it "
                    f"{_beside(stored, self._files[name].shapes)}. {COPY_AGAIN}"
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
        self.notes = tuple(note for part in parts for note in part.notes)
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


def _is_beside(name: Any, ending: str) -> bool:
    """Return whether a value is the name of a file with this ending, without a folder."""
    pattern = r"[\w-][\w.-]*" + re.escape(ending)
    return isinstance(name, str) and re.fullmatch(pattern, name) is not None


def check(
    path: Path,
    found: Mapping[str, tuple[int, ...]],
    expected: Mapping[str, tuple[int, ...]],
    missing_allowed: Iterable[str] = (),
    unused_allowed: Iterable[str] = (),
    hint: str = "",
    names: Collection[str] = (),
) -> None:
    """Compare the names and shapes of a file's tensors with those that a model needs.

    Args:
        path: path of the file.
        found: shapes in the file, by tensor name.
        expected: shapes that the model needs, by tensor name.
        missing_allowed: names of tensors that the file may lack.
        unused_allowed: names of tensors that the model may leave unused.
        hint: advice at the end of the message.
        names: all names in the file, if `found` has only some of them.

    Raises:
        ArtifactError: if a tensor is missing, unused, or of another shape. All are listed, and the
            first ones that are missing with the closest name in the file.
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
            ("Missing in the file", with_closest(missing, names or found, expected)),
            ("Not used by the model", unused),
            ("Of another shape", wrong),
        )
        if names
    ]
    if problems:
        if any(_PEFT in name for name in unused):
            hint = "Adapters of PEFT wrap these layers: merge them with PEFT's `merge_and_unload`."
        problems += [hint] if hint else []
        raise ArtifactError(f"{path} does not fit the model.\n" + "\n".join(problems))


def with_closest(
    missing: Sequence[str], names: Collection[str], used: Collection[str] = ()
) -> list[str]:
    """Return missing names for a message, the first ones with the closest name in the file.

    Args:
        missing: names that the file lacks.
        names: names that the file has.
        used: names that the model uses. One that it does not use is preferred.
    """
    few = [f"{name} {_beside(name, names, used)}" for name in missing[:_MOST_CLOSEST]]
    return [*few, *missing[_MOST_CLOSEST:]]


def _beside(name: str, names: Collection[str], used: Collection[str] = ()) -> str:
    """Return the name in the file that is closest to a missing one, in brackets."""
    words = set(_WORD.findall(name))

    def in_common(other: str) -> int:
        """Return how many words a name shares with the missing one, and 1 more if it is unused."""
        return len(words.intersection(_WORD.findall(other))) + (other not in used)

    def likeness(other: str) -> float:
        """Return the similarity to the missing name, from 0 to 1, and more for an unused name."""
        matcher = SequenceMatcher(None, name, other, autojunk=False)
        return matcher.ratio() + _UNUSED * (other not in used)

    candidates = heapq.nlargest(_CANDIDATES, sorted(names), key=in_common)
    if not candidates:
        return "(the file has no tensors)"
    return f"(closest in the file: {max(candidates, key=likeness)})"
