"""Pickles of PyTorch: only tensors are read, and no code of the file runs."""

from __future__ import annotations

import argparse
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bert_keras.checkpoints import weight_files
from bert_keras.checkpoints.pickled_tensors import PickledTensors
from bert_keras.errors import ArtifactError


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / weight_files.PICKLE


class _Hostile:
    """Object that creates a file when it is unpickled."""

    def __init__(self, canary: Path):
        self.canary = canary

    def __reduce__(self) -> Any:
        return Path.touch, (self.canary,)


def test_a_pickle_must_be_asked_for_and_runs_no_code(torch: Any, path: Path) -> None:
    torch.save({"a.weight": torch.ones(2, 3), "half": torch.ones(1, dtype=torch.bfloat16)}, path)
    folder = path.parent
    with pytest.raises(ArtifactError, match=r"a pickle, which can run code .* allow_pickle=True"):
        weight_files.find(folder)
    with weight_files.open_folder(folder, allow_pickle=True) as opened:
        assert opened.shapes == {"a.weight": (2, 3), "half": (1,)}
        assert opened.read("half").tolist() == [1.0]
    canary = folder / "canary"
    for content in (_Hostile(canary), {"a": _Hostile(canary)}, [1], {"a": 1}):
        torch.save(content, path)
        with pytest.raises(ArtifactError, match=r"pytorch_model\.bin: "):
            PickledTensors(path)
    path.write_bytes(pickle.dumps({"a": _Hostile(canary)}))
    with pytest.raises(ArtifactError, match=r"pytorch_model\.bin: PyTorch cannot read it"):
        PickledTensors(path)
    path.write_bytes(b"")
    with pytest.raises(ArtifactError, match=r"pytorch_model\.bin: PyTorch cannot read it"):
        PickledTensors(path)
    assert not canary.exists()


def test_the_advice_to_run_the_code_of_a_file_is_not_repeated(torch: Any, path: Path) -> None:
    """The message names the class, without PyTorch's advice and its escape codes."""
    torch.save({"a": torch.ones(1), "settings": argparse.Namespace(size=1)}, path)
    with pytest.raises(ArtifactError) as caught:
        PickledTensors(path)
    assert "refers to argparse.Namespace, which is code" in str(caught.value)
    assert caught.value.__cause__ is None
    for advice in ("weights_only=False", "set to `False`", "safe_globals", "\x1b", "\n"):
        assert advice not in str(caught.value)


@pytest.mark.parametrize("is_zip", [True, False], ids=["zip", "before PyTorch 1.6"])
def test_tensors_and_nothing_else(is_zip: bool, torch: Any, path: Path) -> None:
    def save(content: Any) -> None:
        torch.save(content, path, _use_new_zipfile_serialization=is_zip)

    save({"a": torch.arange(3.0)})
    with PickledTensors(path, rename=str.upper) as source:
        assert source.shapes == {"A": (3,)}
        np.testing.assert_array_equal(source.read("A"), [0.0, 1.0, 2.0])
    for content in ([torch.arange(3.0)], {"a": 1}, {}, {"a": torch.ones(1), "epoch": 3}):
        save(content)
        with pytest.raises(ArtifactError, match=r"not a dictionary of tensors\. Received: "):
            PickledTensors(path)
    contents = [{0: torch.zeros(2)}, {"a": torch.zeros(2).to_sparse()}]
    if is_zip:
        contents += [{"a": torch.zeros(1).expand(10**12)}, {"a": torch.zeros(2, device="meta")}]
    for content in contents:
        save(content)
        with pytest.raises(ArtifactError, match="not a whole, dense tensor"):
            PickledTensors(path)
    save({"a": torch.nn.Parameter(torch.ones(2))})
    with PickledTensors(path) as source:
        np.testing.assert_array_equal(source.read("a"), [1.0, 1.0])


@pytest.mark.parametrize("part", [b"nothing", "half"])
def test_a_damaged_file(part: Any, torch: Any, path: Path) -> None:
    torch.save({"a": torch.arange(3000.0)}, path)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2] if part == "half" else part)
    with pytest.raises(ArtifactError, match="PyTorch cannot read it as weights alone") as caught:
        PickledTensors(path)
    assert "weights_only=False" not in str(caught.value)


# === Dictionaries within a file ===

_WEIGHTS = {"a": [1.0]}
_CONTAINERS: dict[str, tuple[Any, str]] = {
    "lightning": ({"state_dict": _WEIGHTS, "epoch": 3, "callbacks": {}}, "state_dict"),
    "tutorial": ({"model_state_dict": _WEIGHTS, "optimizer_state_dict": {}}, "model_state_dict"),
    "model": ({"model": _WEIGHTS, "optimizer": {"state": {0: {"m": [1.0]}}}}, "model"),
    "deepspeed": ({"module": _WEIGHTS, "dp_world_size": 1}, "module"),
    "nested": ({"model": {"state_dict": _WEIGHTS, "step": 1}}, "model.state_dict"),
    "one of two": ({"model": _WEIGHTS, "ema": {"a": [2.0]}}, "model"),
    "another key": ({"encoder_weights": _WEIGHTS}, "encoder_weights"),
}


def _with_tensors(torch: Any, value: Any) -> Any:
    """Return a value with a tensor in place of every list."""
    if isinstance(value, dict):
        return {key: _with_tensors(torch, inner) for key, inner in value.items()}
    return torch.tensor(value) if isinstance(value, list) else value


@pytest.mark.parametrize("case", _CONTAINERS)
def test_weights_under_a_key(case: str, torch: Any, path: Path) -> None:
    """The dictionary of tensors is found among other content, and one line names its key."""
    content, key = _CONTAINERS[case]
    torch.save(_with_tensors(torch, content), path)
    with PickledTensors(path) as opened:
        assert opened.read("a").tolist() == [1.0]
        assert opened.notes == (f"{path}: the weights are those under {key!r} in the file.",)


def test_several_models_in_a_file(torch: Any, path: Path) -> None:
    torch.save({name: {"a": torch.ones(1)} for name in ("student", "teacher")}, path)
    with pytest.raises(ArtifactError, match=r"several models, under 'student', 'teacher'\. Save"):
        PickledTensors(path)
