"""ONNX files answer as the model does, in ONNX Runtime, in any size, under names."""

from __future__ import annotations

from pathlib import Path

import keras
import pytest

from tests.export.runtimes.conftest import MODELS

ort = pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")
if keras.backend.backend() == "jax":
    pytest.skip("ONNX is written on the other backends", allow_module_level=True)
from bert_keras.export.runtimes import onnx_model  # noqa: E402


def opened(path: Path):
    session = ort.InferenceSession(path)
    names = [output.name for output in session.get_outputs()]
    return lambda inputs: dict(zip(names, session.run(names, inputs), strict=True))


@pytest.mark.parametrize("name", ["pretrainer", "pairs", "attentions"])
def test_it_answers_alike(name: str, check) -> None:
    check(name, onnx_model.write, "model.onnx", opened)


@pytest.mark.parametrize(("quantization", "tolerance"), [("float16", 3e-3), ("int8", 0.2)])
def test_quantised(quantization: str, tolerance: float, check) -> None:
    options = {"quantization": quantization, "tolerance": tolerance}
    check("pretrainer", onnx_model.write, "model.onnx", opened, **options)


def test_open_axes_have_names(tmp_path: Path) -> None:
    onnx_model.write(MODELS["pretrainer"](), tmp_path / "model.onnx", None)
    graph = onnx.load(tmp_path / "model.onnx").graph
    found = {
        tensor.name: [
            axis.dim_param or axis.dim_value for axis in tensor.type.tensor_type.shape.dim
        ]
        for tensor in (*graph.input, *graph.output)
    }
    assert found == {
        **{key: ["batch", "length"] for key in ("token_ids", "segment_ids", "padding_mask")},
        "mask_positions": ["batch", "predictions"],
        "mlm": ["batch", "predictions", 50],
        "nsp": ["batch", 2],
    }
