"""Reading and checking safetensors files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save

from bert_keras.checkpoints import tensors, weight_files
from bert_keras.errors import ArtifactError

_TENSORS = {
    "a.weight": np.arange(6, dtype="float32").reshape(2, 3),
    "a.bias": np.array([1.0, -0.0, 2.0], "float32"),
    "half": np.array([0.5], "float16"),
}
_FOUND = {name: array.shape for name, array in _TENSORS.items()}


@pytest.fixture
def path(tmp_path) -> Path:
    """Write a safetensors file."""
    path = tmp_path / "model.safetensors"
    path.write_bytes(save(_TENSORS))
    return path


def test_round_trip(path):
    with tensors.TensorFile(path) as file:
        assert file.shapes == _FOUND
        for name, array in _TENSORS.items():
            found = file.read(name)
            assert (found.dtype, found.tobytes()) == (array.dtype, array.tobytes())


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


def _header(*tensors: str, data: int = 8) -> bytes:
    text = ("{" + ", ".join(tensors) + "}").encode()
    return len(text).to_bytes(8, "little") + text + bytes(data)


def _of(name: str, start: int, end: int, shape: str = "[1]", kind: str = "F32") -> str:
    return f'"{name}": {{"dtype": "{kind}", "shape": {shape}, "data_offsets": [{start}, {end}]}}'


_HEADERS = {
    "longer than the file": (10**6).to_bytes(8, "little") + b"{}",
    "longer than memory": (2**63).to_bytes(8, "little") + b"{}",
    "not UTF-8": (4).to_bytes(8, "little") + b'{"\xff}',
    "no JSON": _header("a"),
    "deep": _header('"a": ' + "[" * 100_000),
    "overlap": _header(_of("a", 0, 4), _of("b", 0, 4), data=4),
    "a gap": _header(_of("a", 0, 4), _of("b", 8, 12), data=12),
    "beyond the file": _header(_of("a", 0, 4), _of("b", 4, 8), data=4),
    "bytes left over": _header(_of("a", 0, 4)),
    "backwards": _header(_of("a", 4, 0)),
    "another size": _header(_of("a", 0, 8)),
    "overflow": _header(_of("a", 0, 8, shape="[4294967296, 4294967296, 4]")),
    "negative": _header(_of("a", 0, 8, shape="[-2]")),
    "unknown kind": _header(_of("a", 0, 8, shape="[2]", kind="O8")),
}
# Duplicate keys: the safetensors library takes the last one.
_TWICE = {
    "a": _header(_of("a", 0, 0, "[0]"), _of("b", 0, 8, "[2]"), _of("a", 0, 0, "[0, 3]")),
    "format": _header('"__metadata__": {"format": "pt", "format": "x"}', _of("a", 0, 8, "[2]")),
}


@pytest.mark.parametrize("case", _HEADERS)
def test_hostile_headers(case: str, path):
    path.write_bytes(_HEADERS[case])
    with pytest.raises(ArtifactError, match=r"model.safetensors: not a whole safetensors file \("):
        tensors.TensorFile(path)


@pytest.mark.parametrize("name", _TWICE)
def test_names_that_a_header_says_twice(name: str, path):
    path.write_bytes(_TWICE[name])
    with safe_open(path, framework="np") as file:
        assert "a" in file.keys()  # noqa: SIM118
    with pytest.raises(ArtifactError, match=rf"model.safetensors: '{name}' is said twice"):
        tensors.TensorFile(path)


def test_a_kind_of_number_that_numpy_has_not(path):
    path.write_bytes(_header(_of("a", 0, 8, shape="[8]", kind="F8_E4M3")))
    with (
        tensors.TensorFile(path) as file,
        pytest.raises(ArtifactError, match=r"model.safetensors: a cannot be read \(.*float8"),
    ):
        file.read("a")


def test_all_problems_are_listed(path):
    expected = {"a.weight": (3, 2), "a.bias": (3,), "b.bias": (1,), "b.weight": (1, 1)}
    with pytest.raises(ArtifactError) as caught:
        tensors.check(path, _FOUND, expected)
    assert str(caught.value) == (
        f"{path} does not fit the model.\n"
        "Missing in the file:\n"
        "  b.bias (closest in the file: a.bias)\n"
        "  b.weight (closest in the file: a.weight)\n"
        "Not used by the model:\n  half\n"
        "Of another shape:\n  a.weight: expected [3, 2], found [2, 3]"
    )


def test_only_what_is_allowed_is_let_pass(path):
    """Missing and unused tensors are accepted only if they are allowed by name."""
    expected = {"a.weight": (2, 3), "a.bias": (3,), "b.bias": (1,)}
    tensors.check(path, _FOUND, expected, missing_allowed=["b.bias"], unused_allowed=["half"])
    for missing, unused, message in (([], ["half"], "b.bias"), (["b.bias"], [], "half")):
        with pytest.raises(ArtifactError, match=message):
            tensors.check(path, _FOUND, expected, missing, unused)


def test_a_missing_name_is_shown_with_the_closest_one():
    """A name that the model does not use is preferred; only the first names get a neighbour."""
    block = "encoder.layer.{}.attention.self.{}.weight"
    names = [block.format(layer, part) for layer in range(12) for part in ("q", "key", "value")]
    used = [name for name in names if not name.endswith("q.weight")]
    missing = [block.format(layer, "query") for layer in range(12)]
    lines = tensors.with_closest(missing, names, used)
    assert [line.split()[0] for line in lines] == missing
    assert lines[1] == f"{missing[1]} (closest in the file: {block.format(1, 'q')})"
    assert lines[5:] == missing[5:]
    assert tensors.with_closest(["a"], []) == ["a (the file has no tensors)"]


def _sharded(folder: Path, **changes: str) -> Path:
    """Write two safetensors files and their index. Return the path of the index."""
    for name, tensor in (("model-1.safetensors", "a.weight"), ("model-2.safetensors", "half")):
        (folder / name).write_bytes(save({tensor: _TENSORS[tensor]}))
    places = {"a.weight": "model-1.safetensors", "half": "model-2.safetensors"} | changes
    index = folder / weight_files.INDEX
    index.write_text(json.dumps({"metadata": {}, "weight_map": places}))
    return index


def test_several_files(tmp_path):
    index = _sharded(tmp_path)
    assert weight_files.find(tmp_path) == index
    with weight_files.open_tensors(index, str.upper) as opened:
        assert opened.shapes == {"A.WEIGHT": (2, 3), "HALF": (1,)}
        np.testing.assert_array_equal(opened.read("A.WEIGHT"), _TENSORS["a.weight"])


@pytest.mark.parametrize(
    "place",
    ["../model-1.safetensors", "/etc/passwd", "a/b.safetensors", "model.bin", "", "..", None],
)
def test_an_index_that_points_elsewhere(place, tmp_path):
    with pytest.raises(ArtifactError, match="weight_map must give each tensor"):
        weight_files.open_tensors(_sharded(tmp_path, half=place))


def test_an_index_that_lies(tmp_path):
    """An index that names a wrong or missing file is refused."""
    with pytest.raises(
        ArtifactError, match=r"1.safetensors: has no half, although .*closest .*: a.weight"
    ):
        weight_files.open_tensors(_sharded(tmp_path, half="model-1.safetensors"))
    with pytest.raises(ArtifactError, match=r"model-3.safetensors: no such file"):
        weight_files.open_tensors(_sharded(tmp_path, half="model-3.safetensors"))


def test_two_tensors_of_one_name(tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(save({"a": np.zeros(1, "float32"), "A": np.ones(1, "float32")}))
    with pytest.raises(ArtifactError, match="are the same tensor"):
        tensors.TensorFile(path, rename=str.lower)


def test_a_tensor_that_two_of_several_files_have(path):
    with tensors.TensorFile(path) as one, tensors.TensorFile(path, "x.{}".format) as other:
        assert tensors.JoinedFiles(path, (one, other)).shapes == one.shapes | other.shapes
        with pytest.raises(ArtifactError, match=r"a\.bias is in .* too\. Remove one"):
            tensors.JoinedFiles(path, (one, one))
