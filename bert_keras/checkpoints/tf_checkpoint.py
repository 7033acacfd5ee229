"""The variables in a TensorFlow checkpoint, by TensorFlow's own reader."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from bert_keras.checkpoints import streaming, tensors
from bert_keras.checkpoints.name_mapping import Shape, TensorSpec
from bert_keras.errors import ArtifactError

# What an optimizer and a training loop leave beside the weights.
_SLOTS = ("adam_m", "adam_v", "lamb_m", "lamb_v", "Adam", "Adam_1", "Momentum")
_STEPS = {"global_step", "beta1_power", "beta2_power", "good_steps", "bad_steps", "loss_scale"}


# Where an object-based checkpoint keeps its objects, and what the keys of an optimizer look like.
_OBJECTS = "_CHECKPOINTABLE_OBJECT_GRAPH"
_SHARD = 2**23  # bytes: as much, and one part more, is in a file of several
_OPTIMIZER = (".OPTIMIZER_SLOT", "optimizer/")


class VariableFile(tensors.Tensors):
    """The variables of a TensorFlow checkpoint, without those of an optimizer.

    In an object-based one (TensorFlow 2) a variable is asked for by its own name, not by the way to
    it through the objects, and scalars are passed over: they count steps or switch something.

    Args:
        path: its prefix, such as bert_model.ckpt.

    Raises:
        ArtifactError: it is not whole.
        ImportError: TensorFlow is not installed.
    """

    def __init__(self, path: Path):
        self.path = path
        tf = tensorflow()
        try:
            self._reader = tf.train.load_checkpoint(str(path))
            self._stored = dict(self._reader.get_variable_to_shape_map())
        except (tf.errors.OpError, ValueError, RuntimeError) as error:
            raise ArtifactError(f"{path}: not a whole TensorFlow checkpoint ({error}).") from error
        self._check_bytes()
        self._names = self._objects() if _OBJECTS in self._stored else self._plain()
        self.rename(str)

    def rename(self, rename: Callable[[str], str]) -> None:
        """Gives every variable another name to be asked for by.

        Where two have the same one, they are known by their keys in the file instead.

        Args:
            rename: from the name that the checkpoint has.
        """
        names = {key: rename(name) for key, name in self._names.items()}
        uses = Counter(names.values())
        self._keys = {name if uses[name] == 1 else key: key for key, name in names.items()}
        self.shapes = {name: tuple(self._stored[key]) for name, key in self._keys.items()}

    def _check_bytes(self) -> None:
        """Compares the shapes, which the index tells, with what there is of them."""
        kinds = self._reader.get_variable_to_dtype_map()
        widths = {n: 0 if k == tensorflow().string else k.size for n, k in kinds.items()}
        told = sum(widths[name] * math.prod(shape) for name, shape in self._stored.items())
        found = sum(p.stat().st_size for p in self.path.parent.glob(f"{self.path.name}.data-*"))
        if told > found:
            raise ArtifactError(
                f"{self.path}: the index tells of {told} bytes, of which its data files hold "
                f"{found}. Take the folder from where it came."
            )

    def rows(self, name: str) -> Iterator[tuple[int, np.ndarray]]:
        """The values of one variable, in parts where it is large: first row, rows."""
        key, shape = self._keys[name], self.shapes[name]
        kind = self._reader.get_variable_to_dtype_map()[key]
        parts = tensors.row_parts(shape, kind.size * math.prod(shape[1:]))
        for part in parts:
            its = _slice(shape, part.start, part.stop - part.start)
            try:
                (values,) = tensorflow().raw_ops.RestoreV2(
                    prefix=str(self.path),
                    tensor_names=[key],
                    shape_and_slices=[its],
                    dtypes=[kind],
                )
            except Exception as error:
                raise ArtifactError(f"{self.path}: {key} cannot be read ({error}).") from error
            yield part.start, values.numpy()
        if not parts:
            yield 0, self._read(key)

    def _read(self, key: str) -> Any:
        try:
            return self._reader.get_tensor(key)
        except Exception as error:  # the reader's errors have no common class
            raise ArtifactError(f"{self.path}: {key} cannot be read ({error}).") from error

    def _plain(self) -> dict[str, str]:
        """Keys that are names."""
        return {
            key: key
            for key in self._stored
            if key not in _STEPS and key.rpartition("/")[2] not in _SLOTS
        }

    def objects(self) -> Any:
        """Return the objects of an object-based checkpoint: a message of data, which runs nothing.

        Raises:
            ArtifactError: it is damaged, or the checkpoint has names instead.
        """
        from tensorflow.core.protobuf import trackable_object_graph_pb2

        if _OBJECTS not in self._stored:
            raise ArtifactError(f"{self.path}: has no {_OBJECTS}. It is of TensorFlow 1.")
        graph = trackable_object_graph_pb2.TrackableObjectGraph()
        content = self._read(_OBJECTS)
        try:
            graph.ParseFromString(content)
        except Exception as error:  # protobuf is TensorFlow's dependency, not ours
            raise ArtifactError(f"{self.path}: {_OBJECTS} is damaged ({error}).") from error
        return graph

    def _objects(self) -> dict[str, str]:
        """Return keys and names, where both are written."""
        nodes = self.objects().nodes
        names = {each.checkpoint_key: each.full_name for o in nodes for each in o.attributes}
        return {
            key: names.get(key) or key
            for key, shape in self._stored.items()
            if shape and not any(part in key for part in _OPTIMIZER)
        }


def write(path: Path, entries: Iterable[TensorSpec]) -> None:
    """Writes a checkpoint in parts: never is more of it in memory than one of them.

    TensorFlow's own writer holds every variable twice.

    Args:
        path: its prefix, such as bert_model.ckpt.
        entries: the variables.

    Raises:
        NumericError: a value is not finite.
    """
    tf = tensorflow()
    shards: list[str] = []
    pieces: list[tuple[str, str, np.ndarray]] = []  # name, which slice of it, its values

    def save() -> None:
        shards.append(f"{path}.part-{len(shards)}")
        names, slices, arrays = zip(*pieces, strict=True) if pieces else ((), (), ())
        tf.raw_ops.SaveV2(
            prefix=shards[-1], tensor_names=names, shape_and_slices=slices, tensors=arrays
        )
        pieces.clear()

    for entry in entries:
        for start, rows in streaming.parts(entry):
            pieces.append((entry.tensor, _slice(entry.shape, start, len(rows)), rows))
            if sum(array.nbytes for _, _, array in pieces) > _SHARD:
                save()
    if pieces or not shards:
        save()
    tf.raw_ops.MergeV2Checkpoints(
        checkpoint_prefixes=shards, destination_prefix=str(path), delete_old_dirs=False
    )


def _slice(shape: Shape, start: int, count: int) -> str:
    """Return TensorFlow's text for some rows of a variable; "" for all of them."""
    if count == shape[0]:
        return ""
    sizes = " ".join(map(str, shape))
    return f"{sizes} {start},{count}" + ":-" * (len(shape) - 1)


def tensorflow() -> ModuleType:
    """TensorFlow, where it is installed.

    Raises:
        ImportError: it is not.
    """
    try:
        import tensorflow as tf
    except ImportError as error:
        raise ImportError(
            "TensorFlow checkpoints need TensorFlow. "
            'Install with: pip install "bert-keras[tensorflow]"'
        ) from error
    return tf
