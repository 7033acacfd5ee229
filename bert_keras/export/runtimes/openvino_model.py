"""Writer of OpenVINO files, converted from ONNX."""

from __future__ import annotations

import tempfile
from pathlib import Path

import keras
import openvino

from bert_keras.export.runtimes import onnx_model


def write(model: keras.Model, path: Path, quantization: str | None) -> None:
    """Write an .xml file, with the weights in a .bin file beside it."""
    with tempfile.TemporaryDirectory(prefix="bert_keras_") as folder:
        onnx_model.write(model, Path(folder, "model.onnx"), None)
        converted = openvino.convert_model(Path(folder, "model.onnx"))
        if quantization == "int8":
            import nncf

            converted = nncf.compress_weights(converted)
        openvino.save_model(converted, path, compress_to_fp16=quantization == "float16")
