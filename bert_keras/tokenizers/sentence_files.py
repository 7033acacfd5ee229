"""The tokenizer in a folder of sentence-transformers: its place, and its case."""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath
from typing import Any

from bert_keras.errors import ArtifactError
from bert_keras.strict_json import read, read_object
from bert_keras.tokenizers.engines import Engine

MODULES = "modules.json"
# Names that the transformer's own file has had; the first that is there counts.
SENTENCE_CONFIGS = (
    "sentence_bert_config.json",
    *(
        f"sentence_{name}_config.json"
        for name in ("roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
    ),
)
_LOWERCASE = {"type": "Lowercase"}


def transformer_folder(folder: Path) -> Path:
    """Return where model and tokenizer are: the folder itself, or one within it.

    Folders of sentence-transformers before version 3 may have them in "0_Transformer".

    Raises:
        ArtifactError: the path leads out of the folder.
    """
    path = folder / MODULES
    modules = read(path) if path.is_file() else None
    first = modules[0] if isinstance(modules, list) and modules else {}
    name = first.get("path") if isinstance(first, dict) else None
    return within(folder, name, path) if isinstance(name, str) else folder


def within(folder: Path, name: str, path: Path) -> Path:
    """Return the folder of a module, which lies in that of the model.

    Args:
        folder: of the model.
        name: as the file says it.
        path: of that file, for the message.

    Raises:
        ArtifactError: it lies elsewhere.
    """
    parts = PurePosixPath(name)
    if parts.is_absolute() or ".." in parts.parts or "\\" in name or ":" in name:
        raise ArtifactError(f"{path}: a module outside the folder. Received: path={name!r}")
    return folder / name


def lowercases(folder: Path) -> bool:
    """Return whether texts are to be lower-cased whatever the tokenizer's own files say.

    Args:
        folder: of the transformer.

    Raises:
        ArtifactError: `do_lower_case` is neither true nor false.
    """
    path = next((folder / name for name in SENTENCE_CONFIGS if (folder / name).is_file()), None)
    value = read_object(path).get("do_lower_case") if path else None
    if value not in (None, True, False):
        raise ArtifactError(f"{path}: do_lower_case must be true or false. Received: {value!r}")
    return bool(value)


def lowercased(found: dict[str, Any] | Engine) -> dict[str, Any] | Engine:
    """Return a tokenizer that lower-cases a text before all else, as their library makes it.

    Args:
        found: arguments of `Tokenizer`, or an engine.
    """
    if isinstance(found, dict):
        if found.get("lowercase", True):
            return found
        # Accents stay where they were kept before.
        return {**found, "lowercase": True, "strip_accents": bool(found.get("strip_accents"))}
    content = json.loads(found.json)
    steps = content.get("normalizer")
    if steps and steps["type"] == "Sequence":
        steps = steps["normalizers"]
    else:
        steps = [steps] if steps else []
    if _LOWERCASE in steps:
        return found
    content["normalizer"] = {"type": "Sequence", "normalizers": [_LOWERCASE, *steps]}
    return Engine(json.dumps(content), found.scheme)
