"""What a sentence-transformers folder has beside the encoder: how vectors become one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bert_keras import atomic, strict_json
from bert_keras.checkpoints.manifest import json_bytes
from bert_keras.errors import ArtifactError

MODULES = "modules.json"
POOLING = "1_Pooling/config.json"
_KINDS = ("Transformer", "Pooling", "Normalize")
_POOLINGS = {
    "mean": "pooling_mode_mean_tokens",
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
}
_OTHERS = ("pooling_mode_mean_sqrt_len_tokens", "pooling_mode_weightedmean_tokens")


def is_one(directory: Path) -> bool:
    """Whether a folder is one of sentence-transformers."""
    return (directory / MODULES).is_file()


def read_options(directory: Path) -> dict[str, Any]:
    """The options of a `SentenceEncoder`, from the folder's small files.

    Raises:
        ArtifactError: another arrangement than an encoder, pooling and, perhaps, normalisation.
    """
    path = directory / MODULES
    modules = strict_json.read(path)
    try:
        kinds = [module["type"].rpartition(".")[2] for module in modules]
        folders = [module["path"] for module in modules]
    except (KeyError, TypeError, AttributeError) as error:
        raise ArtifactError(f"{path}: not a list of modules ({error!r}).") from error
    if tuple(kinds) not in (_KINDS, _KINDS[:2]) or folders[:2] != ["", "1_Pooling"]:
        raise ArtifactError(
            f"{path}: only {', '.join(_KINDS)} can be opened, the first in this folder. "
            f"Received: {list(zip(kinds, folders, strict=True))}"
        )
    return {"pooling": _read_pooling(directory / POOLING), "normalize": len(kinds) == len(_KINDS)}


def _read_pooling(path: Path) -> str:
    values = strict_json.read_object(path)
    chosen = [name for name, key in _POOLINGS.items() if values.get(key)]
    others = [key for key in _OTHERS if values.get(key)]
    newer = values.get("pooling_mode")  # from their version 5 on
    if newer is not None:
        chosen, others = [newer] if newer in _POOLINGS else [], [newer]
    if len(chosen) != 1 or (newer is None and others):
        raise ArtifactError(
            f"{path}: exactly one of {', '.join(_POOLINGS)} can be opened. "
            f"Received: {', '.join(chosen + others) or 'none'}"
        )
    return chosen[0]


def write(directory: Path, options: dict[str, Any], hidden_size: int, max_length: int) -> None:
    """Writes the small files from which sentence-transformers opens the folder."""
    kinds = _KINDS if options["normalize"] else _KINDS[:2]
    paths = ("", "1_Pooling", "2_Normalize")
    modules = [
        {"idx": i, "name": str(i), "path": paths[i], "type": f"sentence_transformers.models.{kind}"}
        for i, kind in enumerate(kinds)
    ]
    pooling = {"word_embedding_dimension": hidden_size}
    pooling |= {key: name == options["pooling"] for name, key in _POOLINGS.items()}
    pooling |= dict.fromkeys(_OTHERS[:1], False)
    (directory / POOLING).parent.mkdir(exist_ok=True)
    files = {
        POOLING: json_bytes(pooling),
        "sentence_bert_config.json": json_bytes(
            {"max_seq_length": max_length, "do_lower_case": False}
        ),
        MODULES: (json.dumps(modules, indent=2) + "\n").encode(),
    }
    for name, content in files.items():
        atomic.write_bytes(directory / name, content)
