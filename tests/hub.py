"""An offline cache of the Hugging Face Hub with tiny models."""

from __future__ import annotations

import functools
import json
import tempfile
from pathlib import Path

import pytest

from bert_keras import BertEncoder, Pretrainer, Tokenizer
from bert_keras.checkpoints.manifest import CONFIG, MANIFEST
from bert_keras.presets import HANDLES
from tests import contracts

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{n}" for n in range(45))]
NAME = "bert_tiny_uncased"  # the preset whose repository is in the cache


def published(seed: int = 0) -> Pretrainer:
    """Return the tiny pretrained model that stands for a published one."""
    return contracts.as_trained(Pretrainer(BertEncoder(contracts.TINY)), seed=seed)


@functools.cache
def _files(seed: int) -> dict[str, bytes]:
    """Return the files of a repository, by name; cached, because making the model is slow."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        published(seed).save_to_preset(folder)
        Tokenizer(WORDS).save_to_preset(folder)
        (folder / MANIFEST).unlink()
        values = json.loads((folder / CONFIG).read_text())
        (folder / CONFIG).write_text(json.dumps({**values, "architectures": ["BertForMaskedLM"]}))
        return {path.name: path.read_bytes() for path in folder.iterdir()}


def fill(folder: Path, seed: int = 0) -> None:
    """Write a repository like Google's: a pretraining model whose config names BertForMaskedLM."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in _files(seed).items():
        (folder / name).write_bytes(content)


def snapshot(cache: Path, name: str = NAME) -> Path:
    """Return the folder of a preset's files in the cache."""
    repository = HANDLES[name].removeprefix("hf://").replace("/", "--")
    return cache / f"models--{repository}" / "snapshots" / ("0" * 40)


def offline_cache(cache: Path, monkeypatch: pytest.MonkeyPatch, name: str = NAME) -> None:
    """Put two revisions of someone/tiny and one preset into the cache, and set offline mode."""
    constants = pytest.importorskip("huggingface_hub.constants")
    repositories = {"someone/tiny": ("main", "v2"), HANDLES[name].removeprefix("hf://"): ("main",)}
    for handle, revisions in repositories.items():
        repository = cache / f"models--{handle.replace('/', '--')}"
        for seed, revision in enumerate(revisions):
            commit = str(seed) * 40
            fill(repository / "snapshots" / commit, seed)
            (repository / "refs").mkdir(exist_ok=True)
            (repository / "refs" / revision).write_text(commit)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
