"""Functions that open an exported file in its runtime: each runs it on inputs by name.

A runtime that is not installed skips the test.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.export.runtimes.conftest import Run


def _onnx(path: Path) -> Run:
    session = pytest.importorskip("onnxruntime").InferenceSession(path)
    names = [output.name for output in session.get_outputs()]
    return lambda inputs: dict(zip(names, session.run(names, inputs), strict=True))


def _openvino(path: Path) -> Run:
    core = pytest.importorskip("openvino").Core()
    model = core.compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return lambda inputs: {key.get_any_name(): value for key, value in model(inputs).items()}


def _litert(path: Path) -> Run:
    interpreter = pytest.importorskip("ai_edge_litert.interpreter").Interpreter(str(path))
    signature = interpreter.get_signature_runner()
    return lambda inputs: signature(**inputs)


def _torch_export(path: Path) -> Run:
    torch = pytest.importorskip("torch")
    module = torch.export.load(path).module()

    def run(inputs):
        found = module({name: torch.from_numpy(inputs[name]) for name in sorted(inputs)})
        return {name: tensor.numpy() for name, tensor in found.items()}

    return run


# Name in `FORMATS` -> what opens a file of the format.
RUNNERS: dict[str, Callable[[Path], Run]] = {
    "onnx": _onnx,
    "openvino": _openvino,
    "litert": _litert,
    "torch": _torch_export,
}
