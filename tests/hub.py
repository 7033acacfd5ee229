"""A cache of the Hugging Face hub as the tests lay it out, offline: it stands for the hub."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bert_keras import BertEncoder, Pretrainer, Tokenizer
from bert_keras.checkpoints.manifest import CONFIG, MANIFEST
from bert_keras.presets import HANDLES
from tests import contracts

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{n}" for n in range(45))]
NAME = "bert_tiny_uncased"  # the preset whose repository is in the cache


def published(seed: int = 0) -> Pretrainer:
    """Return the model of a repository."""
    return contracts.as_trained(Pretrainer(BertEncoder(contracts.TINY)), seed=seed)


def fill(folder: Path, seed: int = 0) -> None:
    """Write what Google published: a pretrained BERT, called a masked language model."""
    published(seed).save_to_preset(folder)
    Tokenizer(WORDS).save_to_preset(folder)
    (folder / MANIFEST).unlink()
    values = json.loads((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps({**values, "architectures": ["BertForMaskedLM"]}))


def offline_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lay out someone/tiny in two revisions and the repository of `NAME`; the hub is offline."""
    constants = pytest.importorskip("huggingface_hub.constants")
    repositories = {"someone/tiny": ("main", "v2"), HANDLES[NAME].removeprefix("hf://"): ("main",)}
    for name, revisions in repositories.items():
        repository = cache / f"models--{name.replace('/', '--')}"
        for seed, revision in enumerate(revisions):
            commit = str(seed) * 40
            fill(repository / "snapshots" / commit, seed)
            (repository / "refs").mkdir(exist_ok=True)
            (repository / "refs" / revision).write_text(commit)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
