"""Pickles, by the reader that makes nothing but tensors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bert_keras.checkpoints.pickled import PickledTensors
from bert_keras.errors import ArtifactError


def test_tensors_and_nothing_else(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    path = tmp_path / "pytorch_model.bin"
    torch.save({"a": torch.arange(3.0)}, path)
    with PickledTensors(path, rename=str.upper) as source:
        assert source.shapes == {"A": (3,)}
        np.testing.assert_array_equal(source.read("A"), [0.0, 1.0, 2.0])
    for content in ([torch.arange(3.0)], {"a": 1}):
        torch.save(content, path)
        with pytest.raises(ArtifactError, match="not a dictionary of tensors"):
            PickledTensors(path)
    for content in (
        {0: torch.zeros(2)},
        {"a": torch.zeros(2).to_sparse()},
        {"a": torch.zeros(1).expand(10**12)},
        {"a": torch.zeros(2, device="meta")},
    ):
        torch.save(content, path)
        with pytest.raises(ArtifactError, match="not a tensor with all its numbers"):
            PickledTensors(path)
    torch.save({"a": torch.nn.Parameter(torch.ones(2))}, path)
    with PickledTensors(path) as source:
        np.testing.assert_array_equal(source.read("a"), [1.0, 1.0])
    path.write_bytes(b"nothing")
    with pytest.raises(ArtifactError, match="PyTorch does not read it as mere weights"):
        PickledTensors(path)
