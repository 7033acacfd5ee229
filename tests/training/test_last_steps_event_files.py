"""Event files of TensorBoard: names, contents, and the files of a killed run."""

from __future__ import annotations

import os
import re
import struct
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras.training.last_steps import EventFiles

pytest.importorskip("tensorboard")

RATE = 0.125
NAME = re.compile(rf"events\.out\.tfevents\.\d{{10}}\.{os.getpid()}\.\d+\.v2")


class _Watch(keras.callbacks.Callback):
    """A callback that reads the event files after each epoch."""

    def __init__(self, folder: Path):
        super().__init__()
        self.folder = folder
        self.names: list[dict[str, list[str]]] = []
        self.tags: list[set[str]] = []

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:  # noqa: ARG002
        files = [path for path in self.folder.rglob("*") if path.is_file()]
        folders = {path.parent.name for path in files}
        self.names.append(
            {part: [file.name for file in files if file.parent.name == part] for part in folders}
        )
        self.tags.append({tag for file in files for tag, _, _ in _scalars(file)})


def _fit(*callbacks: keras.callbacks.Callback) -> Any:
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    optimizer = keras.optimizers.SGD(RATE)
    model.compile(keras.optimizers.LossScaleOptimizer(optimizer), "mse", metrics=["mae"])
    x, y = np.ones((8, 2), "float32"), np.ones((8, 1), "float32")
    options: dict[str, Any] = {"validation_data": (x, y), "validation_freq": 2}
    history = model.fit(
        x, y, batch_size=4, epochs=2, verbose=0, callbacks=list(callbacks), **options
    )
    return history.history


def _records(path: Path) -> list[bytes]:
    """Return the records of a TFRecord file; check their checksums."""
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

    data, records = path.read_bytes(), []
    while data:
        length, checksum = struct.unpack_from("<QI", data)
        assert masked_crc32c(data[:8]) == checksum
        record, end = data[12 : 12 + length], 16 + length
        assert struct.pack("<I", masked_crc32c(record)) == data[12 + length : end]
        records.append(record)
        data = data[end:]
    return records


def _scalars(path: Path) -> list[tuple[str, int, float]]:
    """Return tag, step and value of each scalar."""
    from tensorboard.compat.proto.event_pb2 import Event

    first, *events = (Event.FromString(record) for record in _records(path))
    assert first.file_version == "brain.Event:2"
    return [
        (value.tag, event.step, value.tensor.float_val[0])
        for event in events
        for value in event.summary.value
    ]


def test_no_name_tells_the_host_while_the_training_goes_on(tmp_path: Path) -> None:
    watch = _Watch(tmp_path)
    _fit(EventFiles(tmp_path), watch)
    first, second = watch.names
    assert set(first) == {"train"}
    assert set(second) == {"train", "validation"}
    assert all(NAME.fullmatch(name) for names in second.values() for name in names), second
    assert [len(names) for names in second.values()] == [1, 1]
    # Scalars are written after each epoch, so a killed run keeps them.
    assert watch.tags[0] == {"epoch_loss", "epoch_mae", "epoch_learning_rate"}
    assert watch.tags[1] == watch.tags[0] | {
        "evaluation_loss_vs_iterations",
        "evaluation_mae_vs_iterations",
    }


def test_scalars_are_those_of_the_training(tmp_path: Path) -> None:
    history = _fit(EventFiles(tmp_path))
    (train,), (validation,) = ([*(tmp_path / part).iterdir()] for part in ("train", "validation"))
    expected = [
        (f"epoch_{name}", epoch, np.float32(value))
        for name in ("loss", "mae")
        for epoch, value in enumerate(history[name])
    ]
    expected += [("epoch_learning_rate", epoch, RATE) for epoch in range(2)]
    assert sorted(_scalars(train)) == sorted(expected)
    loss, mae = (np.float32(history[f"val_{name}"][0]) for name in ("loss", "mae"))
    assert sorted(_scalars(validation)) == [
        ("epoch_loss", 1, loss),
        ("epoch_mae", 1, mae),
        ("evaluation_loss_vs_iterations", 4, loss),
        ("evaluation_mae_vs_iterations", 4, mae),
    ]


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="one backend: the others would load TensorFlow"
)
def test_tensorboard_reads_what_it_reads_of_keras(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray

    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    _fit(EventFiles(ours), keras.callbacks.TensorBoard(str(theirs), write_graph=False))
    for part in ("train", "validation"):
        scalars = []
        for folder in (ours, theirs):
            reader = EventAccumulator(str(folder / part)).Reload()
            tags = reader.PluginTagToContent("scalars")
            scalars.append(
                {
                    tag: [(event.step, make_ndarray(event.tensor_proto)) for event in events]
                    for tag in tags
                    for events in [reader.Tensors(tag)]
                }
            )
        assert scalars[0]
        assert scalars[0] == scalars[1]


def test_files_of_earlier_runs_lose_the_host(tmp_path: Path) -> None:
    before = "events.out.tfevents.17."
    files = {
        "train/" + before + "the[host].example.org.5.0.v2": before + "5.0.v2",
        "train/" + before + "192.168.0.7.5.1.v2": before + "5.1.v2",
        "validation/" + before + "6.0.v2": before + "6.0.v2",
        "validation/other": "other",
    }
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    callback = EventFiles(tmp_path)
    callback.on_train_begin()
    callback.on_train_begin()
    for name, renamed in files.items():
        assert (tmp_path / name).with_name(renamed).read_text() == name
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == len(files)


def test_no_file_is_written_over(tmp_path: Path) -> None:
    names = "events.out.tfevents.17.5.0.v2", "events.out.tfevents.17.host.5.0.v2"
    for name in names:
        (tmp_path / name).write_text(name)
    EventFiles(tmp_path).on_train_begin()
    assert {path.name for path in tmp_path.iterdir()} == set(names)
