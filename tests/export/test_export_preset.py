"""Exports of a checkpoint folder, and the answers of the exported models."""

from __future__ import annotations

from pathlib import Path

import keras
import pytest

from bert_keras.config import BertConfig
from bert_keras.errors import ArtifactError, UsageError
from bert_keras.export.export_preset import Wanted, main, open_preset
from bert_keras.export.runtimes.formats import Manifest
from bert_keras.models import BertEncoder, QuestionAnswerer, SequenceClassifier
from bert_keras.predictor import Predictor
from bert_keras.tokenizers import Tokenizer
from tests.contracts import TINY

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("preset")
    task = SequenceClassifier(BertEncoder(TINY), 2)
    told = {"max_length": 9, "options": {"top_k": 1}, "pairs": True}
    Predictor(task, Tokenizer(VOCABULARY), **told).save_to_preset(path)
    return path


@pytest.mark.parametrize(
    ("task", "kind", "pairs"),
    [
        ("as_trained", SequenceClassifier, True),
        ("texts", SequenceClassifier, False),
        ("pairs", SequenceClassifier, True),
        ("encoder", BertEncoder, False),
    ],
)
def test_tasks(folder: Path, task: str, kind: type, pairs: bool) -> None:
    predictor = open_preset(folder, task=task)
    assert isinstance(predictor.task, kind)
    assert (predictor.pairs, predictor.max_length) == (pairs, 9)
    assert bool(predictor.options) is (task != "encoder")


def test_what_cannot_be(folder: Path, tmp_path: Path) -> None:
    """Options that do not suit the checkpoint are refused."""
    with pytest.raises(UsageError, match="task must be one of as_trained, texts"):
        open_preset(folder, task="words")
    with pytest.raises(UsageError, match="from 3 to 12"):
        open_preset(folder, max_length=13)
    Predictor(QuestionAnswerer(BertEncoder(TINY)), Tokenizer(VOCABULARY)).save_to_preset(tmp_path)
    (tmp_path / "predictor.json").write_text('{"options": {"threshold": 1}}')
    with pytest.raises(ArtifactError, match="threshold"):
        open_preset(tmp_path)


def test_names_and_what_does_not_go_together() -> None:
    assert Wanted().name == "saved_model"
    assert Wanted("onnx", "int8").name == "onnx-int8"
    with pytest.raises(UsageError, match="format must be one of saved_model, tf_hub, onnx"):
        Wanted("keras")
    with pytest.raises(UsageError, match=r"The quantization of onnx is none, .*Received: 'int4'"):
        Wanted("onnx", "int4")
    with pytest.raises(UsageError, match=r"Only onnx, .* can be quantised"):
        Wanted("saved_model", "int8")


# === The command reports errors with the right exit code. test_saved_model.py tests its exports, on
# other backends through this command ===


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
    check([preset, f"{tmp_path}/1", "--quantization=int8"], 2, "can be quantised", capsys)
    assert not (tmp_path / "1").exists()


def test_everything_that_an_encoder_gives(preset, tmp_path):
    """The option for hidden states adds all of them.

    On JAX, a second process receives the option.
    """
    path = tmp_path / "1"
    kind = {"tensorflow": "litert"}.get(keras.backend.backend(), "torch")
    assert main([preset, str(path), f"--format={kind}", "--output=hidden_states"]) == 0
    outputs = Manifest.read(path).outputs
    assert {"hidden_states_0", "hidden_states_1"} <= outputs.keys()
    assert not any(name.startswith("attentions") for name in outputs)
