"""Files written tensor by tensor are those of the library."""

from __future__ import annotations

import hashlib
from pathlib import Path

import keras
import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file

from bert_keras.checkpoints.format import Entry, Leaf
from bert_keras.checkpoints.safetensors_file import write
from bert_keras.errors import NumericError

_VALUES = np.arange(6, dtype="float32").reshape(2, 3)


def _entries() -> list[Entry]:
    return [
        Entry(keras.Variable(_VALUES, name="a"), "a.weight", Leaf("a.weight", transposed=True)),
        Entry(keras.Variable([1.0, -0.0], dtype="float16"), "half", Leaf("half")),
        Entry(keras.Variable([7], dtype="int32", trainable=False), "whole", Leaf("whole")),
        Entry(keras.Variable(np.zeros((0, 3)), dtype="float32"), "empty", Leaf("empty")),
    ]


def test_the_library_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    assert write(path, _entries()) == hashlib.sha256(path.read_bytes()).hexdigest()
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
    write(tmp_path / "x.safetensors", [Entry(variable, "x", Leaf("x"))])
    with safe_open(tmp_path / "x.safetensors", framework="pt") as file:
        assert file.get_tensor("x").equal(torch.tensor([0.5, -2.0], dtype=torch.bfloat16))


def test_what_was_there_stays(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"before")
    entries = [*_entries(), Entry(keras.Variable([np.inf]), "bad", Leaf("bad"))]
    with pytest.raises(NumericError, match="is not finite"):
        write(path, entries)
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [b"before"]
