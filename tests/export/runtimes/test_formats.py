"""The backend of a format, and what to install where there is none."""

from __future__ import annotations

import importlib
import importlib.util
from types import SimpleNamespace

import pytest

from bert_keras.export.runtimes.formats import FORMATS, chosen


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch):
    def only(*names: str) -> None:
        here = SimpleNamespace()
        monkeypatch.setattr(
            importlib.util, "find_spec", lambda name: here if name in names else None
        )

    return only


def test_this_backend_where_it_can_else_another(installed) -> None:
    installed("torch", "onnx", "onnxscript", "tensorflow", "tf2onnx", "onnxruntime", "onnx_ir")
    onnx = FORMATS["onnx"]
    assert [onnx.backend(name, None) for name in ("tensorflow", "torch", "jax")] == [
        *("tensorflow", "torch", "torch")
    ]
    assert FORMATS["litert"].backend("torch", "int8") == "tensorflow"
    installed("tensorflow", "onnx", "tf2onnx", "onnxruntime", "onnx_ir")
    assert onnx.backend("jax", "int8") == "tensorflow"


def test_what_is_missing_is_named(installed) -> None:
    installed("torch", "onnx", "onnxscript")
    assert FORMATS["onnx"].backend("jax", None) == "torch"
    with pytest.raises(ImportError, match=r"onnxruntime, onnx_ir\. .*bert-keras\[onnx,torch\]"):
        FORMATS["onnx"].backend("torch", "int8")
    with pytest.raises(ImportError, match=r"tensorflow\. Install.*bert-keras\[litert,tensorflow\]"):
        FORMATS["litert"].backend("jax", None)


def test_what_there_is_not_is_told() -> None:
    assert chosen("onnx", "int8_dynamic") is FORMATS["onnx"]
    with pytest.raises(ValueError, match=r"A format is one of onnx, .*Received: 'onyx'"):
        chosen("onyx", None)
    with pytest.raises(ValueError, match=r"of litert is none, or one of float16, int8\. Received"):
        chosen("litert", "int8_dynamic")


def test_every_format_has_its_module() -> None:
    for name, each in FORMATS.items():
        found = importlib.util.find_spec(f"bert_keras.export.runtimes.{each.module}")
        assert found is not None, name
