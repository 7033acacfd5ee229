"""`export` of a model finds its writers after `import bert_keras` alone."""

from __future__ import annotations

import json
from pathlib import Path

import keras
import pytest

from bert_keras import export_hook
from bert_keras.export import keras_export
from tests.processes import run_client

IN_NEW_PROCESS = """
import json, sys
import bert_keras as bk
config = bk.BertConfig(
    vocab_size=20, hidden_size=8, num_layers=1, num_heads=2, intermediate_size=8, max_positions=16
)
task = bk.SequenceClassifier(bk.BertEncoder(config), labels=["a", "b"])
found = [name for name in sys.modules if name.startswith("bert_keras.export.")]
try:
    task.export("model.onnx", format="onnx", opset_version=18)
except ValueError as error:
    message = str(error)
print(json.dumps([found, message]))
"""


def test_the_writers_are_imported_at_the_first_export(tmp_path: Path) -> None:
    environment = {"KERAS_BACKEND": keras.backend.backend()}
    environment["PYTHONPATH"] = str(Path(__file__).parents[1])
    printed = run_client(IN_NEW_PROCESS, folder=tmp_path, **environment)
    found, message = json.loads(printed.splitlines()[-1])
    assert found == []
    assert "runtime_model(model, tokenizer, path" in message or "takes no opset_version" in message
    assert list(tmp_path.iterdir()) == []


def test_one_writer_is_called_and_the_last_one_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_hook, "_writers", [])
    assert not export_hook.is_written("model", "path", "onnx", {})
    calls: list[tuple] = []
    for answer in (False, True):

        def write(*args: object, verbose: bool | None, answer: bool = answer) -> bool:
            calls.append((*args, verbose))
            return answer

        export_hook.set_writer(write)
    assert export_hook.is_written("model", "path", "onnx", {}, verbose=False)
    assert calls == [("model", "path", "onnx", {}, False)]


def test_the_page_sets_the_writer_of_export(monkeypatch: pytest.MonkeyPatch) -> None:
    def write(*args: object, verbose: bool | None) -> bool:
        return (*args, verbose) == ("model", "path", "onnx", {}, None)

    monkeypatch.setattr(keras_export, "is_written", write)
    assert export_hook.is_written("model", "path", "onnx", {})
