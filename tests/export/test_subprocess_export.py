"""Arguments and messages of the process that exports. test_saved_model.py tests its exports."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bert_keras import saved_model_loading
from bert_keras.errors import ResourceError
from bert_keras.export import subprocess_export
from bert_keras.models import BertEncoder
from tests.contracts import TINY


def test_its_command_and_its_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}
    codes = iter([5, 0])

    def start(command: list[str], **options: Any) -> Any:
        seen.update(command=command, environment=options["env"])
        return SimpleNamespace(returncode=next(codes), stderr="the disk is full")

    predictor: Any = SimpleNamespace(
        save_to_preset=lambda _: None,
        encoder=SimpleNamespace(dtype_policy=SimpleNamespace(name="mixed_bfloat16")),
        task=BertEncoder(TINY, attentions=True),
    )
    monkeypatch.setattr(subprocess, "run", start)
    with pytest.raises(
        ResourceError, match=r"(?s)on the torch backend.*exit code 5.*the disk is full"
    ):
        subprocess_export.with_backend("torch", predictor, tmp_path / "1", "--portable", "")
    assert seen["command"][-4:] == [
        *(str(tmp_path / "1"), "--dtype=mixed_bfloat16", "--output=attentions", "--portable"),
    ]
    assert seen["environment"]["KERAS_BACKEND"] == "torch"
    # What the process wrote needs no trust in this one.
    (tmp_path / "1" / "encoder").mkdir(parents=True)
    (tmp_path / "1" / "encoder" / saved_model_loading.PROGRAM).write_bytes(b"of the process")
    subprocess_export.with_backend("torch", predictor, tmp_path / "1")
    assert saved_model_loading.is_own(tmp_path / "1" / "encoder")
    assert not saved_model_loading.is_own(tmp_path / "1")


def test_lines_of_a_log_are_no_message() -> None:
    text = (
        "I0000 00:00:1795916324.407656    7042 cudart_stub.cc:31] Could not find cuda drivers\n"
        "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\n"
        "2026-01-01 10:00:00.1: I tensorflow/port.cc:153] oneDNN custom operations are on\n"
        "demo/1/model.tflite: could not be written: No space left on device.\n"
    )
    expected = "demo/1/model.tflite: could not be written: No space left on device."
    assert subprocess_export._without_logs(text) == expected
