"""Exports opened by `open_client` give the model's answers and accept malformed texts."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import keras
import pytest

from bert_keras import export
from bert_keras.errors import ArtifactError, UsageError
from bert_keras.export import clients
from bert_keras.export.clients import Client, HubClient, open_client
from bert_keras.export.measurement import checks, difference
from bert_keras.export.runtimes.formats import FORMATS
from bert_keras.models import BertEncoder, SequenceClassifier
from bert_keras.predictor import Predictor
from bert_keras.tokenizers import Tokenizer
from tests.contracts import TINY, as_trained

BACKEND = keras.backend.backend()
TOKENIZER = Tokenizer(
    ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh", "##b", "the", "test", "film", "."]
)
CONFIG = TINY.replace(vocab_size=TOKENIZER.vocab_size, max_positions=32)
# Format -> a backend that writes it in this process.
WRITERS = {"openvino": "tensorflow", "litert": "tensorflow", "onnx": "torch", "torch": "torch"}
RUNTIMES = {"onnx": "onnxruntime", "litert": "ai_edge_litert"}


def failed(client: Client) -> dict[str, str]:
    return {check.name: check.details for check in checks(client) if not check.passed}


@pytest.mark.parametrize("name", WRITERS)
def test_runtimes(name: str, tmp_path: Path) -> None:
    if WRITERS[name] != BACKEND:
        pytest.skip("it is written on another backend")
    for library in (RUNTIMES.get(name, name), *FORMATS[name].writers[BACKEND]):
        pytest.importorskip(library)
    predictor = Predictor(as_trained(SequenceClassifier(BertEncoder(CONFIG), 2)), TOKENIZER)
    client = open_client(export.runtime_model(predictor.task, TOKENIZER, tmp_path / "1", name))
    texts = clients.example_texts(client.names, TOKENIZER, 40)
    assert difference(client, predictor, texts) < 1e-5
    assert failed(client) == {}


@pytest.mark.skipif(BACKEND != "tensorflow", reason="SavedModels: one backend, the same graph")
@pytest.mark.parametrize("pooler", [True, False])
def test_hub(pooler: bool, tmp_path: Path) -> None:
    encoder = as_trained(BertEncoder(CONFIG.replace(pooler=pooler)))
    path = export.tf_hub(encoder, TOKENIZER, tmp_path / "1", portable=True)
    client = open_client(path)
    assert isinstance(client, HubClient)
    texts = clients.example_texts(client.names, TOKENIZER, 40)
    assert difference(client, Predictor(encoder, TOKENIZER), texts) < 1e-5
    assert failed(client) == {}


def test_what_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder without an export, a damaged export and a missing library are refused."""
    with pytest.raises(UsageError, match=r"neither saved_model\.pb nor export\.json"):
        open_client(tmp_path)
    (tmp_path / "export.json").write_text("{}")
    with pytest.raises(ArtifactError, match="lacks format"):
        open_client(tmp_path)
    (tmp_path / "saved_model.pb").touch()
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ImportError, match=r"tensorflow is not installed.*bert-keras\[tensorflow\]"):
        open_client(tmp_path)
