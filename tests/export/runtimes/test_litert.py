"""LiteRT files give the model's outputs and use LiteRT's built-in operations only."""

from __future__ import annotations

import keras
import pytest

from tests.export.runtimes.conftest import MODELS
from tests.export.runtimes.runners import RUNNERS

pytest.importorskip("ai_edge_litert.interpreter")
if keras.backend.backend() != "tensorflow":
    pytest.skip("LiteRT's files are written on the TensorFlow backend", allow_module_level=True)
from bert_keras.export.runtimes import litert


@pytest.mark.parametrize("name", MODELS)
def test_it_answers_alike(name: str, check) -> None:
    check(name, litert.write, "model.tflite", RUNNERS["litert"])


@pytest.mark.parametrize(("quantization", "tolerance"), [("float16", 3e-3), ("int8", 0.1)])
def test_quantised(quantization: str, tolerance: float, check) -> None:
    options = {"quantization": quantization, "tolerance": tolerance}
    check("pretrainer", litert.write, "model.tflite", RUNNERS["litert"], **options)
