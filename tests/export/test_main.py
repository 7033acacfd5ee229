"""`python -m bert_keras.export` must say what is wrong, and give the exit code of its kind.

That it exports is tested in test_saved_model.py, where the other backends go through it.
"""

from __future__ import annotations

from pathlib import Path

import keras
import pytest

from bert_keras.config import BertConfig
from bert_keras.export.__main__ import main
from bert_keras.export.runtimes.manifest import Manifest
from bert_keras.models import BertEncoder
from bert_keras.tokenizers import Tokenizer

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"]


@pytest.fixture
def preset(tmp_path: Path) -> str:
    config = BertConfig(
        vocab_size=len(VOCABULARY), hidden_size=4, num_layers=1, num_heads=1, intermediate_size=4
    )
    BertEncoder(config).save_to_preset(tmp_path / "preset")
    Tokenizer(VOCABULARY).save_to_preset(tmp_path / "preset")
    return str(tmp_path / "preset")


def check(arguments: list[str], code: int, message: str, capsys) -> None:
    assert main(arguments) == code
    assert message in capsys.readouterr().err


def test_no_preset(tmp_path, capsys):
    check([f"{tmp_path}/none", f"{tmp_path}/1"], 4, "none", capsys)


def test_damaged_vocabulary(preset, tmp_path, capsys):
    Path(preset, "vocab.txt").write_text("a\nb\n", encoding="utf-8")
    check([preset, f"{tmp_path}/1"], 3, "vocab.txt", capsys)


def test_bad_options(preset, tmp_path, capsys):
    check([preset, preset], 2, "exists already", capsys)
    check([preset, f"{tmp_path}/1", "--quantization=int8"], 2, "Quantised models are of", capsys)
    assert not (tmp_path / "1").exists()


def test_everything_that_an_encoder_gives(preset, tmp_path):
    """From JAX this goes through a second process, which no folder tells of it."""
    path = tmp_path / "1"
    kind = {"tensorflow": "litert"}.get(keras.backend.backend(), "torch")
    assert main([preset, str(path), f"--format={kind}", "--output=hidden_states"]) == 0
    outputs = Manifest.read(path).outputs
    assert {"hidden_states_0", "hidden_states_1"} <= outputs.keys()
    assert not any(name.startswith("attentions") for name in outputs)
