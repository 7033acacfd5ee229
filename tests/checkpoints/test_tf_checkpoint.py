"""TensorFlow's checkpoint reader with the errors of this package.

test_google_tf1.py and test_tf_hub.py also use it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras.checkpoints import tensors, tf_checkpoint
from bert_keras.checkpoints.name_mapping import LeafRule, TensorSpec
from bert_keras.errors import ArtifactError


def test_no_checkpoint(tmp_path: Path) -> None:
    pytest.importorskip("tensorflow")
    with pytest.raises(ArtifactError, match="nothing: not a whole TensorFlow checkpoint"):
        tf_checkpoint.VariableFile(tmp_path / "nothing")


def test_without_tensorflow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    with pytest.raises(ImportError, match=r'pip install "bert-keras\[tensorflow\]"'):
        tf_checkpoint.VariableFile(tmp_path / "nothing")


def _write(path: Path, **variables: Any) -> Path:
    """Write variables as a name-based TensorFlow checkpoint."""
    tf = pytest.importorskip("tensorflow")
    tf.raw_ops.SaveV2(
        prefix=str(path),
        tensor_names=list(variables),
        shape_and_slices=[""] * len(variables),
        tensors=list(variables.values()),
    )
    return path


def test_names_of_objects(tmp_path: Path) -> None:
    """Variables are found by their own names, and those of optimizers and steps are left out.

    Two variables of one name are found by their paths in the checkpoint.
    """
    tf = pytest.importorskip("tensorflow")
    model, optimizer = tf.Module(), tf.Module()
    model.weights = [tf.Variable([[1.0, 2.0]], name="layer/kernel"), tf.Variable([3.0], name="b")]
    model.twins = [tf.Variable([4.0], name="twin"), tf.Variable([5.0], name="twin")]
    optimizer.moments = [tf.Variable([[0.0, 0.0]], name="layer/kernel/m")]
    checkpoint = tf.train.Checkpoint(
        model=model, optimizer=optimizer, step=tf.Variable(3, name="step")
    )
    file = tf_checkpoint.VariableFile(Path(checkpoint.write(str(tmp_path / "ckpt"))))
    value = ".ATTRIBUTES/VARIABLE_VALUE"
    twins = {f"model/twins/{n}/{value}": (1,) for n in (0, 1)}
    assert file.shapes == {"layer/kernel": (1, 2), "b": (1,), **twins}
    np.testing.assert_array_equal(file.read("layer/kernel"), [[1.0, 2.0]])
    np.testing.assert_array_equal(file.read(f"model/twins/1/{value}"), [5.0])
    file.rename(lambda name: name.replace("layer/", "dense/"))
    np.testing.assert_array_equal(file.read("dense/kernel"), [[1.0, 2.0]])


def test_damaged_objects(tmp_path: Path) -> None:
    path = _write(tmp_path / "ckpt", kernel=[1.0], _CHECKPOINTABLE_OBJECT_GRAPH=b"\xff no message")
    with pytest.raises(ArtifactError, match="ckpt: _CHECKPOINTABLE_OBJECT_GRAPH is damaged"):
        tf_checkpoint.VariableFile(path)


def test_an_index_that_states_more_than_there_is(tmp_path: Path) -> None:
    path = _write(tmp_path / "ckpt", kernel=np.zeros((30, 10), "float32"))
    data = tmp_path / "ckpt.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:-4])
    with pytest.raises(ArtifactError, match=r"states 1200 bytes, .* files have 1196\."):
        tf_checkpoint.VariableFile(path)


def test_large_variables_are_in_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large variable is written in slices that TensorFlow's reader joins."""
    tf = pytest.importorskip("tensorflow")
    table = np.arange(35, dtype="float32").reshape(7, 5)
    monkeypatch.setattr(tensors, "PART", 2 * table[0].nbytes)
    monkeypatch.setattr(tf_checkpoint, "_SHARD", 0)
    specs = [
        TensorSpec(keras.Variable(table), name, LeafRule(name, transposed=name == "turned"))
        for name in ("table", "turned")
    ]
    tf_checkpoint.write(tmp_path / "ckpt", specs)
    assert len(list(tmp_path.glob("ckpt.data-*"))) == 5
    reader = tf.train.load_checkpoint(str(tmp_path / "ckpt"))
    assert reader.get_variable_to_shape_map() == {"table": [7, 5], "turned": [5, 7]}
    np.testing.assert_array_equal(reader.get_tensor("table"), table)
    np.testing.assert_array_equal(reader.get_tensor("turned"), table.T)
    file = tf_checkpoint.VariableFile(tmp_path / "ckpt")
    assert [start for start, _ in file.rows("table")] == [0, 2, 4, 6]
    np.testing.assert_array_equal(file.read("table"), table)
