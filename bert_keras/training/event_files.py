"""TensorBoard event files that do not name the host.

The writers of TensorFlow, tensorboard and PyTorch put the host name into the name of every event
file. A run that is killed would leave it there, so this module names the files itself. It needs
tensorboard alone, without TensorFlow, on every backend.
"""

from __future__ import annotations

import itertools
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras

# A name that Keras's own callback wrote: time, host, pid, number.
_NAMES_HOST = re.compile(r"(events\.out\.tfevents\.\d+)\..+(\.\d+\.\d+\.v2)")
_numbers = itertools.count()  # two files of one process and second differ by it


class EventFiles(keras.callbacks.Callback):
    """Callback that writes the scalars of `keras.callbacks.TensorBoard`, with the same tags.

    Event files of earlier runs in the folder lose the host in their names.

    Args:
        log_dir: the folder that TensorBoard is given; made if it is not there.
    """

    def __init__(self, log_dir: str | os.PathLike[str]):
        super().__init__()
        self._folder = Path(log_dir)
        self._writers: dict[str, _Writer] = {}

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:  # noqa: ARG002
        """Keras: the training begins."""
        for path in self._folder.rglob("events.out.tfevents.*"):
            parts = _NAMES_HOST.fullmatch(path.name)
            renamed = path.with_name("".join(parts.groups())) if parts else path
            if not renamed.exists():
                path.rename(renamed)

    def on_test_end(self, logs: dict[str, Any] | None = None) -> None:
        """Keras: an evaluation ends."""
        values = {f"evaluation_{name}_vs_iterations": each for name, each in (logs or {}).items()}
        self._write("validation", values, int(_number(self.model.optimizer.iterations)))

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Keras: an epoch ends."""
        optimizer = self.model.optimizer
        optimizer = getattr(optimizer, "inner_optimizer", optimizer)
        values = {**(logs or {}), "learning_rate": optimizer.learning_rate}
        measured = {name: values.pop(name) for name in list(values) if name.startswith("val_")}
        self._write("train", {f"epoch_{name}": each for name, each in values.items()}, epoch)
        measured = {f"epoch_{name.removeprefix('val_')}": each for name, each in measured.items()}
        self._write("validation", measured, epoch)

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:  # noqa: ARG002
        """Keras: the training ends."""
        for writer in self._writers.values():
            writer.close()
        self._writers = {}

    def _write(self, part: str, values: Mapping[str, Any], step: int) -> None:
        if not values:
            return
        if part not in self._writers:
            self._writers[part] = _Writer(self._folder / part)
        self._writers[part].write({tag: _number(value) for tag, value in values.items()}, step)


class _Writer:
    """A new event file in a folder, which is made if it is not there."""

    def __init__(self, folder: Path):
        from tensorboard.summary.writer.record_writer import RecordWriter

        folder.mkdir(parents=True, exist_ok=True)
        numbers = f"{int(time.time()):010d}.{os.getpid()}.{next(_numbers)}"
        # Not a `with`: the file is open as long as the training goes on.
        file = (folder / f"events.out.tfevents.{numbers}.v2").open("xb")
        self._records = RecordWriter(file)
        self._add(file_version="brain.Event:2")

    def write(self, values: Mapping[str, float], step: int) -> None:
        """Add an event for each value, and flush: a run that is killed keeps them."""
        from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
        from tensorboard.compat.proto.tensor_pb2 import TensorProto
        from tensorboard.compat.proto.types_pb2 import DT_FLOAT

        # As `tf.summary.scalar` writes it, so that programs read both alike.
        metadata = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="scalars"))
        for tag, value in values.items():
            tensor = TensorProto(dtype=DT_FLOAT, tensor_shape={}, float_val=[value])
            scalar = Summary.Value(tag=tag, tensor=tensor, metadata=metadata)
            self._add(step=step, summary=Summary(value=[scalar]))
        self._records.flush()

    def close(self) -> None:
        """Close the file."""
        self._records.close()

    def _add(self, **fields: Any) -> None:
        from tensorboard.compat.proto.event_pb2 import Event

        self._records.write(Event(wall_time=time.time(), **fields).SerializeToString())


def _number(value: Any) -> float:
    return float(keras.ops.convert_to_numpy(value))
