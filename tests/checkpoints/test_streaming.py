"""Writing and reading safetensors and HDF5 files tensor by tensor."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import h5py
import keras
import ml_dtypes
import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file

from bert_keras.checkpoints import streaming, tensors
from bert_keras.checkpoints.name_mapping import LeafRule, TensorSpec
from bert_keras.checkpoints.streaming import HDF5File, write_safetensors
from bert_keras.errors import ArtifactError, NumericError

_VALUES = np.arange(6, dtype="float32").reshape(2, 3)


def _tensor_specs() -> list[TensorSpec]:
    """Return tensors of several dtypes and shapes, one of them transposed."""
    return [
        TensorSpec(
            keras.Variable(_VALUES, name="a"), "a.weight", LeafRule("a.weight", transposed=True)
        ),
        TensorSpec(keras.Variable([1.0, -0.0], dtype="float16"), "half", LeafRule("half")),
        TensorSpec(keras.Variable([7], dtype="int32", trainable=False), "whole", LeafRule("whole")),
        TensorSpec(keras.Variable(np.zeros((0, 3)), dtype="float32"), "empty", LeafRule("empty")),
    ]


def test_the_library_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    assert write_safetensors(path, _tensor_specs()) == hashlib.sha256(path.read_bytes()).hexdigest()
    found = load_file(path)
    np.testing.assert_array_equal(found["a.weight"], _VALUES.T)
    assert found["half"].tobytes() == np.array([1.0, -0.0], "float16").tobytes()
    assert (found["whole"].dtype, found["whole"].tolist()) == ("int32", [7])
    assert found["empty"].shape == (0, 3)
    with safe_open(path, framework="np") as file:
        assert file.metadata() == {"format": "pt"}


def test_bfloat16(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    variable = keras.Variable([0.5, -2.0], dtype="bfloat16")
    write_safetensors(tmp_path / "x.safetensors", [TensorSpec(variable, "x", LeafRule("x"))])
    with safe_open(tmp_path / "x.safetensors", framework="pt") as file:
        assert file.get_tensor("x").equal(torch.tensor([0.5, -2.0], dtype=torch.bfloat16))


def test_what_was_there_stays(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"before")
    specs = [*_tensor_specs(), TensorSpec(keras.Variable([np.inf]), "bad", LeafRule("bad"))]
    with pytest.raises(NumericError, match="values that are not finite"):
        write_safetensors(path, specs)
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [b"before"]


# === HDF5 files. Keras's own files are read in test_keras_hub.py. ===


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Write an HDF5 file with two datasets."""
    with h5py.File(tmp_path / "file.h5", "w") as file:
        file["a/b"] = np.arange(6.0).reshape(2, 3)
        file["c"] = np.arange(3)
    return tmp_path / "file.h5"


def test_datasets_by_name(path: Path) -> None:
    with HDF5File(path, str.upper) as file:
        assert file.shapes == {"A/B": (2, 3), "C": (3,)}
        np.testing.assert_array_equal(file.read("C"), [0, 1, 2])


def test_written_and_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = np.arange(10.0, dtype="float32").reshape(5, 2)
    monkeypatch.setattr(tensors, "PART", 2 * table[0].nbytes)
    parts = [(0, table[:3]), (3, table[3:])]
    narrow = table.astype(ml_dtypes.bfloat16)  # HDF5 has no bfloat16.
    scalar = np.array(3, "int32")
    streaming.write_hdf5(
        tmp_path / "x.h5",
        [("a/b", (5, 2), parts), ("c", (), [(0, scalar)]), ("d", (5, 2), [(0, narrow)])],
    )
    with HDF5File(tmp_path / "x.h5") as file:
        assert [start for start, _ in file.rows("a/b")] == [0, 2, 4]
        np.testing.assert_array_equal(file.read("a/b"), table)
        np.testing.assert_array_equal(file.read("d"), table)
        assert file.read("c") == 3


def test_files_as_one(path: Path) -> None:
    parts = (HDF5File(path), HDF5File(path, "head/{}".format))
    with tensors.JoinedFiles(path.parent, parts) as files:
        assert files.path == path.parent
        assert files.shapes == {"a/b": (2, 3), "c": (3,), "head/a/b": (2, 3), "head/c": (3,)}
        np.testing.assert_array_equal(files.read("head/c"), [0, 1, 2])
    for part in parts:
        with pytest.raises(ArtifactError, match="c cannot be read"):
            part.read(next(name for name in part.shapes if name.endswith("c")))


def _virtual(file: Any) -> None:
    """Create a virtual dataset, which reads from another file."""
    layout = h5py.VirtualLayout((3,), float)
    layout[:] = h5py.VirtualSource("other.h5", "x", (3,))
    file.create_virtual_dataset("v", layout)


def _external(file: Any) -> None:
    file.create_dataset("e", (3,), float, external=[("/etc/passwd", 0, 24)])


def _deep(file: Any) -> None:
    file.create_group("/".join("x" * 20))


def _soft(file: Any) -> None:
    file["s"] = h5py.SoftLink("/c")


def _unwritten(file: Any) -> None:
    file.create_dataset("u", (10**12, 8), float, chunks=(10, 8))


def _compressed(file: Any) -> None:
    file.create_dataset("z", data=np.zeros(10**6), compression="gzip")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_virtual, "v: data outside the file"),
        (_external, "e: data outside the file"),
        (_soft, "s: a link is not read"),
        (_unwritten, "u: 64000000000000 bytes by its shape, 0 in the file"),
        (_compressed, r"z: 8000000 bytes by its shape, \d{4,5} in the file"),
        (_deep, "deeper or longer than any weights file"),
        (lambda file: file.create_dataset("t", data="text"), "t: expected numbers"),
    ],
)
def test_refused(change: Any, message: str, path: Path) -> None:
    with h5py.File(path, "r+") as file:
        change(file)
    with pytest.raises(ArtifactError, match=message):
        HDF5File(path)


@pytest.mark.parametrize("size", [0, 10, 300])
def test_a_part_of_a_file(size: int, path: Path) -> None:
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(ArtifactError, match=r"file\.h5: not a whole HDF5 file"):
        HDF5File(path)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="no such file"):
        HDF5File(tmp_path / "nothing.h5")
