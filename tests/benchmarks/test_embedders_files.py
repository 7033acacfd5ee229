"""Exported encoders give the vectors of the original model."""

from __future__ import annotations

import warnings
from pathlib import Path

import keras
import numpy as np
import pytest

from benchmarks import embedders
from tests.benchmarks.test_embedders import CASES, MAX_LENGTH, TEXTS
from tests.contracts import MAY_CUT


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="PyTorch's files: backend torch")
@pytest.mark.slow
@MAY_CUT
@pytest.mark.parametrize("is_ours", [True, False])
def test_onnx(is_ours: bool, tiny_preset: Path, tmp_path: Path, transformers) -> None:
    for library in ("onnx", "onnxruntime", "onnxscript"):
        pytest.importorskip(library)
    preset, folder = str(tiny_preset), tmp_path / "onnx"
    file = folder / "model.onnx"
    if is_ours:
        written = embedders.our_files(preset, MAX_LENGTH, str(folder), "onnx")
    else:
        folder.mkdir()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch warns about its own code
            written = embedders.pytorch(preset, str(file))
    assert written() == {}
    encode = embedders.onnx(
        str(file),
        str(tiny_preset / "tokenizer.json"),
        MAX_LENGTH,
        by_length=not is_ours,
    )
    expected = embedders.ours(preset, MAX_LENGTH)(TEXTS, CASES[0])
    np.testing.assert_allclose(encode(TEXTS, CASES[0]), expected, atol=1e-5)


def test_the_published_model(mini_lm: Path) -> None:
    assert embedders.mini_lm() == str(mini_lm)
