"""The variables in a TensorFlow checkpoint, by TensorFlow's own reader."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from bert_keras.checkpoints import tensors
from bert_keras.errors import ArtifactError

# What an optimizer and a training loop leave beside the weights.
_SLOTS = ("adam_m", "adam_v", "lamb_m", "lamb_v", "Adam", "Adam_1", "Momentum")
_STEPS = {"global_step", "beta1_power", "beta2_power", "good_steps", "bad_steps", "loss_scale"}


# Where an object-based checkpoint keeps its objects, and what the keys of an optimizer look like.
_OBJECTS = "_CHECKPOINTABLE_OBJECT_GRAPH"
_SHARD = 2**25  # bytes: as much, and a variable more, is in a file of several
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

    def read(self, name: str) -> np.ndarray:
        """The values of one variable."""
        return self._read(self._keys[name])

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

    def _objects(self) -> dict[str, str]:
        """Keys and names, where both are written: a message that holds data, and runs nothing."""
        from tensorflow.core.protobuf import trackable_object_graph_pb2

        graph = trackable_object_graph_pb2.TrackableObjectGraph()
        content = self._read(_OBJECTS)
        try:
            graph.ParseFromString(content)
        except Exception as error:  # protobuf is TensorFlow's dependency, not ours
            raise ArtifactError(f"{self.path}: {_OBJECTS} is damaged ({error}).") from error
        names = {each.checkpoint_key: each.full_name for o in graph.nodes for each in o.attributes}
        return {
            key: names.get(key) or key
            for key, shape in self._stored.items()
            if shape and not any(part in key for part in _OPTIMIZER)
        }


def write(path: Path, arrays: Iterable[tuple[str, np.ndarray]]) -> None:
    """Writes a checkpoint, some variables at a time: they need not all be in memory.

    Args:
        path: its prefix, such as bert_model.ckpt.
        arrays: variables by name; taken one by one.
    """
    tf = tensorflow()
    shards: list[str] = []
    part: dict[str, np.ndarray] = {}

    def save() -> None:
        shards.append(f"{path}.part-{len(shards)}")
        tf.raw_ops.SaveV2(
            prefix=shards[-1],
            tensor_names=list(part),
            shape_and_slices=[""] * len(part),
            tensors=list(part.values()),
        )
        part.clear()

    for name, array in arrays:
        part[name] = array
        if sum(each.nbytes for each in part.values()) > _SHARD:
            save()
    if part or not shards:
        save()
    tf.raw_ops.MergeV2Checkpoints(
        checkpoint_prefixes=shards, destination_prefix=str(path), delete_old_dirs=False
    )


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
