"""OpenVINO files give the model's outputs."""

from __future__ import annotations

from pathlib import Path

import keras
import pytest

openvino = pytest.importorskip("openvino")
if keras.backend.backend() == "jax":
    pytest.skip("OpenVINO's files are written on the other backends", allow_module_level=True)
from bert_keras.export.runtimes import openvino_model  # noqa: E402


def opened(path: Path):
    model = openvino.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return lambda inputs: {key.get_any_name(): value for key, value in model(inputs).items()}


@pytest.mark.parametrize(
    ("name", "quantization", "tolerance"),
    [("choices", None, 1e-5), ("pretrainer", "int8", 0.1)],
)
def test_it_answers_alike(name, quantization, tolerance, check) -> None:
    options = {"quantization": quantization, "tolerance": tolerance}
    check(name, openvino_model.write, "model.xml", opened, **options)
