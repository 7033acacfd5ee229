"""The variables in a TensorFlow checkpoint, by TensorFlow's own reader."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import numpy as np

from bert_keras.checkpoints import tensors
from bert_keras.errors import ArtifactError

# What an optimizer and a training loop leave beside the weights.
_SLOTS = ("adam_m", "adam_v", "lamb_m", "lamb_v", "Adam", "Adam_1", "Momentum")
_STEPS = {"global_step", "beta1_power", "beta2_power", "good_steps", "bad_steps", "loss_scale"}


class VariableFile(tensors.Tensors):
    """The variables of a TensorFlow checkpoint, without those of an optimizer.

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
            shapes = self._reader.get_variable_to_shape_map()
        except (tf.errors.OpError, ValueError, RuntimeError) as error:
            raise ArtifactError(f"{path}: not a whole TensorFlow checkpoint ({error}).") from error
        self._check_bytes(shapes)
        self.shapes = {
            name: tuple(shape)
            for name, shape in shapes.items()
            if name not in _STEPS and name.rpartition("/")[2] not in _SLOTS
        }

    def _check_bytes(self, shapes: Mapping[str, list[int]]) -> None:
        """Compares the shapes, which the index tells, with what there is of them."""
        kinds = self._reader.get_variable_to_dtype_map()
        widths = {n: 0 if kinds[n] == tensorflow().string else kinds[n].size for n in shapes}
        told = sum(widths[name] * math.prod(shape) for name, shape in shapes.items())
        parts = self.path.parent.glob("*.data-*")
        found = sum(p.stat().st_size for p in parts if p.name.startswith(f"{self.path.name}.data-"))
        if told > found:
            raise ArtifactError(
                f"{self.path}: the index tells of {told} bytes, of which its data files hold "
                f"{found}. Take the folder from where it came."
            )

    def read(self, name: str) -> np.ndarray:
        """The values of one variable."""
        try:
            return self._reader.get_tensor(name)
        except Exception as error:  # the reader's errors have no common class
            raise ArtifactError(f"{self.path}: {name} cannot be read ({error}).") from error


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
