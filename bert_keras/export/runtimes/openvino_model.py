"""A model for OpenVINO, by way of ONNX."""

from __future__ import annotations

import tempfile
from pathlib import Path

import keras
import openvino

from bert_keras.export.runtimes import onnx_model


def write(model: keras.Model, path: Path, quantization: str | None) -> None:
    """Writes an .xml file, and the weights beside it in a .bin file."""
    with tempfile.TemporaryDirectory(prefix="bert_keras_") as folder:
        onnx_model.write(model, Path(folder, "model.onnx"), None)
        found = openvino.convert_model(Path(folder, "model.onnx"))
        if quantization == "int8":
            import nncf

            found = nncf.compress_weights(found)
        openvino.save_model(found, path, compress_to_fp16=quantization == "float16")
