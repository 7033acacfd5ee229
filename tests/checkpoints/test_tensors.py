"""Reading and checking safetensors files."""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np
import pytest
from safetensors import safe_open

from bert_keras.checkpoints import tensors
from bert_keras.errors import ArtifactError, NumericError

_TENSORS = {
    "a.weight": np.arange(6, dtype="float32").reshape(2, 3),
    "a.bias": np.array([1.0, -0.0, 2.0], "float32"),
    "half": np.array([0.5], "float16"),
}
_FOUND = {name: array.shape for name, array in _TENSORS.items()}


@pytest.fixture
def path(tmp_path) -> Path:
    path = tmp_path / "model.safetensors"
    path.write_bytes(tensors.serialized(_TENSORS))
    return path


def test_round_trip(path):
    with tensors.TensorFile(path) as file:
        assert file.shapes == _FOUND
        for name, array in _TENSORS.items():
            found = file.read(name)
            assert (found.dtype, found.tobytes()) == (array.dtype, array.tobytes())


def test_has_the_metadata_that_others_look_for(path):
    with safe_open(path, framework="np") as file:
        assert file.metadata() == {"format": "pt"}


def test_names_can_be_changed_on_reading(path):
    with tensors.TensorFile(path, lambda name: name.replace("weight", "kernel")) as file:
        assert file.shapes == {"a.kernel": (2, 3), "a.bias": (3,), "half": (1,)}
        np.testing.assert_array_equal(file.read("a.kernel"), _TENSORS["a.weight"])


def test_a_missing_file(tmp_path):
    with pytest.raises(ArtifactError, match=r"nothing.safetensors: no such file"):
        tensors.TensorFile(tmp_path / "nothing.safetensors")


@pytest.mark.parametrize("size", [0, 5, 40, -1])
def test_a_part_of_a_file(path, size: int):
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(ArtifactError, match=r"model.safetensors: not a whole safetensors file \("):
        tensors.TensorFile(path)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_values_that_are_not_finite(value: float, dtype: str):
    good = keras.Variable([1.0, -2.0], dtype=dtype, name="good")
    np.testing.assert_array_equal(tensors.finite(good).astype("float32"), [1.0, -2.0])
    bad = keras.Variable([1.0, value], dtype=dtype, name="bad")
    with pytest.raises(NumericError, match="bad is not finite"):
        tensors.finite(bad)


def test_all_problems_are_listed(path):
    expected = {"a.weight": (3, 2), "a.bias": (3,), "b.bias": (1,), "b.weight": (1, 1)}
    with pytest.raises(ArtifactError) as caught:
        tensors.check(path, _FOUND, expected)
    assert str(caught.value) == (
        f"{path} does not fit the model.\n"
        "Missing in the file:\n  b.bias\n  b.weight\n"
        "Not used by the model:\n  half\n"
        "Of another shape:\n  a.weight: expected [3, 2], found [2, 3]"
    )


def test_only_what_is_allowed_is_let_pass(path):
    expected = {"a.weight": (2, 3), "a.bias": (3,), "b.bias": (1,)}
    tensors.check(path, _FOUND, expected, missing_allowed=["b.bias"], unused_allowed=["half"])
    for missing, unused, message in (([], ["half"], "b.bias"), (["b.bias"], [], "half")):
        with pytest.raises(ArtifactError, match=message):
            tensors.check(path, _FOUND, expected, missing, unused)
