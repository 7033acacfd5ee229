"""OpenVINO files give the model's outputs."""

from __future__ import annotations

import keras
import pytest

from tests.export.runtimes.runners import RUNNERS

pytest.importorskip("openvino")
if keras.backend.backend() == "jax":
    pytest.skip("OpenVINO's files are written on the other backends", allow_module_level=True)
from bert_keras.export.runtimes import openvino_model


@pytest.mark.parametrize(
    ("name", "quantization", "tolerance"),
    [("choices", None, 1e-5), ("pretrainer", "int8", 0.1)],
)
def test_it_answers_alike(name, quantization, tolerance, check) -> None:
    options = {"quantization": quantization, "tolerance": tolerance}
    check(name, openvino_model.write, "model.xml", RUNNERS["openvino"], **options)
