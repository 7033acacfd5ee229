"""Handles: paths, and the hub's cache, which stands for the hub."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from bert_keras import BertEncoder, Tokenizer, handles
from bert_keras.errors import ArtifactError
from tests import contracts
from tests.contracts import TINY

_WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{n}" for n in range(45))]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the hub with one repository, in two revisions, and no network."""
    constants = pytest.importorskip("huggingface_hub.constants")
    repository = tmp_path / "models--someone--tiny"
    for revision, seed in (("main", 0), ("v2", 1)):
        commit = str(seed) * 40
        folder = repository / "snapshots" / commit
        contracts.as_trained(BertEncoder(TINY), seed=seed).save_to_preset(folder)
        Tokenizer(_WORDS).save_to_preset(folder)
        (repository / "refs").mkdir(exist_ok=True)
        (repository / "refs" / revision).write_text(commit)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return repository


def test_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert handles.resolve("~/model", ()) == tmp_path / "model"
    assert handles.resolve(tmp_path / "model", ()) == tmp_path / "model"


def test_a_repository_in_the_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_HUB_DISABLE_TELEMETRY", raising=False)
    folder = handles.resolve("hf://someone/tiny", ["config.json"])
    assert os.environ["HF_HUB_DISABLE_TELEMETRY"] == "1"
    assert folder == cache / "snapshots" / ("0" * 40)
    first, second = (
        BertEncoder.from_preset(f"hf://someone/tiny{revision}") for revision in ("", "@v2")
    )
    contracts.assert_same_weights(first, contracts.as_trained(BertEncoder(TINY), seed=0))
    contracts.assert_same_weights(second, contracts.as_trained(BertEncoder(TINY), seed=1))
    assert Tokenizer.from_preset("hf://someone/tiny").vocab_size == 50


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("handle", ["hf://someone/else", "hf://someone/tiny@v3"])
def test_without_a_network_it_says_what_to_do(handle: str) -> None:
    with pytest.raises(ArtifactError) as error:
        BertEncoder.from_preset(handle)
    for part in (handle, "https://huggingface.co/someone/", "model*.safetensors", "that folder"):
        assert part in str(error.value)


@pytest.mark.parametrize(
    "handle",
    [
        *("hf://../../x", "hf://a", "hf://a/b/c", "hf:///etc/passwd", "hf://a/b@../../x"),
        *("file:///etc/passwd", "https://example.com/x", "hf://a/b?x=1", "hf://a/b\0"),
    ],
)
def test_other_schemes_and_places_are_refused(handle: str) -> None:
    with pytest.raises(ArtifactError, match="expected a folder, or hf://organisation/name"):
        BertEncoder.from_preset(handle)


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ImportError, match=r'pip install "bert-keras\[hub\]"'):
        handles.resolve("hf://someone/tiny", ())
