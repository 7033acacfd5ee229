"""Reader and writer of TensorFlow checkpoints, with TensorFlow's own operations."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from bert_keras import file_io
from bert_keras.checkpoints import streaming, tensors
from bert_keras.checkpoints.name_mapping import Shape, TensorSpec
from bert_keras.checkpoints.weight_files import in_a_shell
from bert_keras.errors import COPY_AGAIN, ArtifactError

# Names of variables that belong to an optimizer or a training loop, not to the model.
_SLOTS = ("adam_m", "adam_v", "lamb_m", "lamb_v", "Adam", "Adam_1", "Momentum")
_STEPS = {"global_step", "beta1_power", "beta2_power", "good_steps", "bad_steps", "loss_scale"}
# Key of the object graph in an object-based checkpoint, and parts of the keys of an optimizer.
_OBJECTS = "_CHECKPOINTABLE_OBJECT_GRAPH"
_SHARD = 2**23  # bytes: a shard is written as soon as it is larger
_SLOT = "/.OPTIMIZER_SLOT/"
_OPTIMIZER = (_SLOT, "optimizer/")
_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
# End of the name of a variable's moving average, in TensorFlow 1 and in an object-based checkpoint.
_AVERAGE, _AVERAGE_SLOT = "/ExponentialMovingAverage", f"/average{_VALUE}"
# File in which TensorFlow states the newest checkpoint of a folder, and its line with the path.
_STATE = "checkpoint"
_NEWEST = re.compile(r'^model_checkpoint_path:\s*"([^"]*)"', re.MULTILINE)


class Choice(NamedTuple):
    """One checkpoint of a folder.

    Attributes:
        prefix: path of its files without their endings.
        averages: whether the moving averages of its variables are read.
        notes: lines for the user about the choice.
    """

    prefix: Path
    averages: bool = False
    notes: tuple[str, ...] = ()

    def open(self) -> VariableFile:
        """Open the variables; see `VariableFile`."""
        opened = VariableFile(self.prefix, averages=self.averages)
        opened.notes = (*self.notes, *opened.notes)
        return opened


def find(directory: Path, name: str = "", *, averages: bool = False) -> Choice:
    """Choose the checkpoint of a folder.

    Args:
        directory: the folder.
        name: name of one checkpoint, such as "model.ckpt-2000"; "" for the only one or, of several,
            the one that TensorFlow's file `checkpoint` states.
        averages: see `VariableFile`.

    Raises:
        ArtifactError: if there is none, or several and no choice.
    """
    names = sorted((path.stem for path in directory.glob("*.index")), key=file_io.by_number)
    if not names:
        raise ArtifactError(
            f"{directory}: expected one checkpoint, a file that ends in .index and its data. "
            "Received: none"
        )
    if len(names) == 1 and name in ("", names[0]):
        return Choice(directory / names[0], averages)
    state = directory / _STATE
    text = file_io.read_bytes(state, file_io.SMALL) if state.is_file() else b""
    stated = _NEWEST.search(text.decode(errors="replace"))
    chosen = name or (re.split(r"[/\\]", stated[1])[-1] if stated else "")
    if chosen not in names:
        lacking = f"no {chosen}" if chosen else f"no file {_STATE!r} that names one"
        raise ArtifactError(
            f"{directory}: expected one checkpoint. Received: {', '.join(names)}, and {lacking}. "
            f"Name one of them: {directory / names[-1]}"
        )
    others = ", ".join(other for other in names if other != chosen)
    note = f"{directory / chosen}: opened, because the file {_STATE} names it. Others: {others}."
    return Choice(directory / chosen, averages, () if name else (note,))


def is_object_based(prefix: Path) -> bool:
    """Return whether a checkpoint is of TensorFlow 2, with an object graph.

    Args:
        prefix: prefix of the checkpoint. Its index has the key of the graph in plain bytes.
    """
    index = prefix.with_name(f"{prefix.name}.index")
    return _OBJECTS.encode() in file_io.read_bytes(index)


class VariableFile(tensors.Tensors):
    """The variables of a TensorFlow checkpoint, without those of an optimizer.

    In an object-based checkpoint (TensorFlow 2) variables have their own names, not their paths
    through the object graph. Its scalars are left out: they are step counters and switches.

    Args:
        path: prefix of the checkpoint, such as bert_model.ckpt.
        averages: True for the moving averages of the variables that have one.

    Raises:
        ArtifactError: if the checkpoint is damaged, has no averages, or only averages.
        ImportError: if TensorFlow is not installed.
    """

    def __init__(self, path: Path, *, averages: bool = False):
        self.path = path
        tf = tensorflow()
        try:
            self._reader = tf.train.load_checkpoint(str(path))
            self._stored = dict(self._reader.get_variable_to_shape_map())
        except (tf.errors.OpError, ValueError, RuntimeError) as error:
            raise ArtifactError(
                f"{path}: not a whole TensorFlow checkpoint ({error}). {COPY_AGAIN}"
            ) from error
        self._check_bytes()
        names = self._objects() if _OBJECTS in self._stored else self._plain()
        self._names = self._chosen(names, averages)
        self.rename(str)

    def rename(self, rename: Callable[[str], str]) -> None:
        """Change the names under which callers find the variables.

        Variables that would get the same name keep their keys in the file as names.

        Args:
            rename: maps the name in the checkpoint to the new name.
        """
        names = {key: rename(name) for key, name in self._names.items()}
        uses = Counter(names.values())
        self._keys = {name if uses[name] == 1 else key: key for key, name in names.items()}
        self.shapes = {name: tuple(self._stored[key]) for name, key in self._keys.items()}

    def _check_bytes(self) -> None:
        """Check that the data files are large enough for the shapes in the index.

        Raises:
            ArtifactError: if they are smaller.
        """
        kinds = self._reader.get_variable_to_dtype_map()
        widths = {n: 0 if k == tensorflow().string else k.size for n, k in kinds.items()}
        needed = sum(widths[name] * math.prod(shape) for name, shape in self._stored.items())
        stored = sum(p.stat().st_size for p in self.path.parent.glob(f"{self.path.name}.data-*"))
        if needed > stored:
            raise ArtifactError(
                f"{self.path}: the index states {needed} bytes, but the data files have "
                f"{stored}. Download or copy all files of the checkpoint again."
            )

    def rows(self, name: str) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the values of one variable, a large one in parts: (index of first row, rows)."""
        key, shape = self._keys[name], self.shapes[name]
        dtype = self._reader.get_variable_to_dtype_map()[key]
        parts = tensors.row_parts(shape, dtype.size * math.prod(shape[1:]))
        for part in parts:
            try:
                (values,) = tensorflow().raw_ops.RestoreV2(
                    prefix=str(self.path),
                    tensor_names=[key],
                    shape_and_slices=[_slice(shape, part.start, part.stop - part.start)],
                    dtypes=[dtype],
                )
            except Exception as error:
                raise ArtifactError(
                    f"{self.path}: {key} cannot be read ({error}). {COPY_AGAIN}"
                ) from error
            yield part.start, values.numpy()
        if not parts:
            yield 0, self._read(key)

    def _read(self, key: str) -> Any:
        """Return the value that is stored under a key."""
        try:
            return self._reader.get_tensor(key)
        except Exception as error:  # the reader's errors have no common class
            raise ArtifactError(
                f"{self.path}: {key} cannot be read ({error}). {COPY_AGAIN}"
            ) from error

    def _plain(self) -> dict[str, str]:
        """Return the variables of the model: key -> name, which are equal in TensorFlow 1."""
        return {
            key: key
            for key in self._stored
            if key not in _STEPS and key.rpartition("/")[2] not in _SLOTS
        }

    def objects(self) -> Any:
        """Return the object graph of an object-based checkpoint, a message that contains no code.

        Raises:
            ArtifactError: if the checkpoint has no object graph, or a damaged one.
        """
        from tensorflow.core.protobuf import trackable_object_graph_pb2

        if _OBJECTS not in self._stored:
            raise ArtifactError(
                f"{self.path}: has no {_OBJECTS}. It is of TensorFlow 1. Save the model again with "
                "TensorFlow 2, or open the folder of Google's checkpoint of it (bert_config.json)."
            )
        graph = trackable_object_graph_pb2.TrackableObjectGraph()
        content = self._read(_OBJECTS)
        try:
            graph.ParseFromString(content)
        except Exception as error:  # protobuf is TensorFlow's dependency, not ours
            raise ArtifactError(
                f"{self.path}: {_OBJECTS} is damaged ({error}). {COPY_AGAIN}"
            ) from error
        return graph

    def _objects(self) -> dict[str, str]:
        """Return the variables of the model in an object-based checkpoint: key -> name."""
        nodes = self.objects().nodes
        names = {a.checkpoint_key: a.full_name for node in nodes for a in node.attributes}
        variables = {
            key: names.get(key) or key
            for key, shape in self._stored.items()
            if shape and not any(part in key for part in _OPTIMIZER)
        }
        averages = {
            key: f"{variables[owner]}{_AVERAGE}"
            for key in self._stored
            if key.endswith(_AVERAGE_SLOT)
            and (owner := f"{key.partition(_SLOT)[0]}{_VALUE}") in variables
        }
        return variables | averages

    def _chosen(self, names: dict[str, str], averages: bool) -> dict[str, str]:
        """Return the plain variables, or those with their moving averages: key -> name.

        Raises:
            ArtifactError: if the checkpoint lacks what is asked for.
        """
        averaged = {
            key: name.removesuffix(_AVERAGE)
            for key, name in names.items()
            if name.endswith(_AVERAGE)
        }
        plain = {key: name for key, name in names.items() if key not in averaged}
        if averages and not averaged:
            raise ArtifactError(
                f"{self.path}: has no moving averages, whose names end in {_AVERAGE}. Leave "
                "averages=True out."
            )
        owners = set(averaged.values())
        if averages:
            return averaged | {key: name for key, name in plain.items() if name not in owners}
        if alone := sorted(owners.difference(plain.values())):
            raise ArtifactError(
                f"{self.path}: has the moving averages of {len(alone)} variables and not their "
                f"values, such as {alone[0]}{_AVERAGE}. To open the averages: averages=True. "
                + in_a_shell("--averages")
            )
        if averaged:
            self.notes = (
                f"{self.path}: opened without the moving averages that it has of {len(averaged)} "
                f"variables. averages=True opens them. {in_a_shell('--averages')}",
            )
        return plain


def write(path: Path, specs: Iterable[TensorSpec]) -> None:
    """Write a checkpoint in shards, so that only one shard is in memory at a time.

    TensorFlow's own writer would hold every variable twice.

    Args:
        path: prefix of the checkpoint, such as bert_model.ckpt.
        specs: variables with the tensors that store them.

    Raises:
        NumericError: if a value is not finite.
    """
    tf = tensorflow()
    shards: list[str] = []
    pieces: list[tuple[str, str, np.ndarray]] = []  # name of a variable, slice of it, values

    def save() -> None:
        """Write the pieces as a new shard."""
        shards.append(f"{path}.part-{len(shards)}")
        names, slices, arrays = zip(*pieces, strict=True) if pieces else ((), (), ())
        tf.raw_ops.SaveV2(
            prefix=shards[-1], tensor_names=names, shape_and_slices=slices, tensors=arrays
        )
        pieces.clear()

    for spec in specs:
        for start, rows in streaming.parts(spec):
            pieces.append((spec.tensor, _slice(spec.shape, start, len(rows)), rows))
            if sum(array.nbytes for _, _, array in pieces) > _SHARD:
                save()
    if pieces or not shards:
        save()
    tf.raw_ops.MergeV2Checkpoints(
        checkpoint_prefixes=shards, destination_prefix=str(path), delete_old_dirs=False
    )


def _slice(shape: Shape, start: int, count: int) -> str:
    """Return TensorFlow's text for `count` rows of a variable from row `start`; "" for all."""
    if count == shape[0]:
        return ""
    sizes = " ".join(map(str, shape))
    return f"{sizes} {start},{count}" + ":-" * (len(shape) - 1)


def tensorflow() -> ModuleType:
    """Import TensorFlow.

    Raises:
        ImportError: if it is not installed.
    """
    try:
        import tensorflow as tf
    except ImportError as error:
        raise ImportError(
            "TensorFlow checkpoints need TensorFlow. "
            'Install with: pip install "bert-keras[tensorflow]"'
        ) from error
    return tf
