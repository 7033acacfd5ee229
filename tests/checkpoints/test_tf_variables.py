"""TensorFlow's reader, with our errors. What it reads is compared in test_google_tf1.py."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bert_keras.checkpoints import tf_variables
from bert_keras.errors import ArtifactError


def test_no_checkpoint(tmp_path: Path) -> None:
    pytest.importorskip("tensorflow")
    with pytest.raises(ArtifactError, match="nothing: not a whole TensorFlow checkpoint"):
        tf_variables.VariableFile(tmp_path / "nothing")


def test_without_tensorflow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    with pytest.raises(ImportError, match=r'pip install "bert-keras\[tensorflow\]"'):
        tf_variables.VariableFile(tmp_path / "nothing")
