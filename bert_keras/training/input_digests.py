"""Digests of the files of a run, with which a resumed run recognises changed files."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bert_keras import file_io, presets
from bert_keras.checkpoints import open_checkpoint
from bert_keras.training.finetune_recipe import FinetuneRecipe

# Files that a model and its tokenizer are read from. Reports of a run beside them may change.
_MODEL = (
    *("*.safetensors", "*.h5", "*.bin", "*.ckpt*", "*.model", "*.txt", "*config.json"),
    *("bert_keras.json", "vocab.json", "tokenizer.json"),
)
# Files with the options of answers, and the modules of sentence-transformers.
_SETTINGS = ("modules.json", "predictor.json", "[0-9]*_*/*")


def digests_in(card: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return the digests in a run.json; older ones have none."""
    files = card.get("files") or {}
    return {name: digests for name, digests in files.items() if isinstance(digests, dict)}


def digests(recipe: FinetuneRecipe) -> dict[str, dict[str, str]]:
    """Return the SHA-256 of the files that a resumed run reads again: by recipe key, then by name.

    The keys are train and dev, which are files, and encoder and teacher, which are checkpoints.
    """
    digests_by_key = {}
    for name in ("train", "dev", "encoder", "teacher"):
        handle = getattr(recipe, name)
        if not handle:
            continue
        path = _folder_of(handle)
        files = [path] if name in ("train", "dev") else sorted(_files(path))
        # A missing file is reported by the code that reads it.
        digests = {file.name: _sha256(file) for file in files if file.is_file()}
        if digests:
            digests_by_key[name] = digests
    return digests_by_key


def checkpoint_digests(handle: str, **options: Any) -> dict[str, str]:
    """Return the SHA-256 of the files that a checkpoint's answers depend on, by name.

    The folders of sentence-transformers' modules, such as 1_Pooling, are included. The options are
    those of `open_checkpoint`.
    """
    folder = _folder_of(handle, **options)
    more = {path for form in _SETTINGS for path in folder.glob(form)}
    files = sorted(path for path in _files(folder) | more if path.is_file())
    return {path.relative_to(folder).as_posix(): _sha256(path) for path in files}


def _folder_of(handle: str, **options: Any) -> Path:
    """Return the path that a handle names, or the local copy of a repository."""
    is_remote = "://" in handle or presets.is_preset(handle)
    return open_checkpoint(handle, **options).directory if is_remote else file_io.expanded(handle)


def _files(folder: Path) -> set[Path]:
    """Return the files of a folder that a model or tokenizer is read from."""
    return {path for form in _MODEL for path in folder.glob(form)}


def _sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
