"""The file in an exported encoder of TensorFlow Hub that says what the model and tokenizer are.

`export.tf_hub` writes it as `encoder/assets.extra/bert_keras.json`. TensorFlow does not read that
folder. The tokenizer's part is read here; `checkpoints.tf_hub_export` writes it all and reads the
model's part.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from bert_keras.errors import ArtifactError
from bert_keras.strict_json import read_object, refuse_unknown
from bert_keras.tokenizers.configs import flags
from bert_keras.tokenizers.vocabulary_files import read_vocabulary

FILE = "assets.extra/bert_keras.json"
VOCABULARY = "assets/vocab.txt"
FORMAT = 1
SWITCHES = ("lowercase", "strip_accents", "split_cjk")
TAKE_A_WHOLE_ONE = "Take the whole folder from one export, or export the model again."
_ENCODER = "encoder"  # the encoder's folder in an exported pair
# Files of either folder: of the encoder's own, and of the pair's.
FILES = tuple(f"{start}{name}" for start in ("", f"{_ENCODER}/") for name in (FILE, VOCABULARY))
_DIGEST = "vocabulary_sha256"
_KEYS = (
    *("format", "class", "options", "config", "tokenizer", "variables", "mlm_variables"),
    *("adapters", "quantization"),
)


def encoder_folder(folder: Path) -> Path:
    """Return the folder of the exported encoder: the folder itself, or `encoder` in a pair."""
    inner = folder / _ENCODER
    return inner if not is_one(folder) and is_one(inner) else folder


def is_one(folder: Path) -> bool:
    """Return whether a folder is an encoder that `export.tf_hub` wrote."""
    return (folder / FILE).is_file()


def read(folder: Path) -> dict[str, Any]:
    """Return the content of the file.

    Raises:
        ArtifactError: damaged, or of a later version.
    """
    path = folder / FILE
    values = read_object(path)
    if values.get("format") != FORMAT:
        raise ArtifactError(
            f"{path}: format {values.get('format')!r:.100} is not known; this version of "
            f"bert_keras reads {FORMAT}. Update bert-keras, or export the model again."
        )
    refuse_unknown(path, values, _KEYS)
    for key in ("options", "config", "tokenizer", "variables"):
        require_object(path, key, values.get(key))
    return values


def require_object(path: Path, key: str, value: Any) -> None:
    """Refuse a value that is not a JSON object.

    Raises:
        ArtifactError: it is another value, or missing.
    """
    if not isinstance(value, dict):
        raise ArtifactError(
            f"{path}: `{key}` must be a JSON object. Received: {value!r:.100}. {TAKE_A_WHOLE_ONE}"
        )


def describe(tokenizer: Any, vocabulary: bytes) -> dict[str, Any]:
    """Return the tokenizer's part of the file.

    Args:
        tokenizer: a `Tokenizer` of WordPiece.
        vocabulary: the content of its vocab.txt.
    """
    switches = {name: getattr(tokenizer, name) for name in SWITCHES}
    return {**switches, _DIGEST: hashlib.sha256(vocabulary).hexdigest()}


def read_tokenizer(folder: Path) -> dict[str, Any]:
    """Return the arguments of the `Tokenizer` of an exported encoder.

    Raises:
        ArtifactError: the file is damaged, or the vocabulary is not the one that was exported.
        DataError: the vocabulary is no use: names file and line.
    """
    path, values = folder / FILE, read(folder)["tokenizer"]
    if set(values) != {*SWITCHES, _DIGEST}:
        raise ArtifactError(
            f"{path}: `tokenizer` must have the keys {', '.join((*SWITCHES, _DIGEST))}. "
            f"Received: {', '.join(map(str, values)) or 'none'!s:.200}. {TAKE_A_WHOLE_ONE}"
        )
    switches = flags(path, values, {name: name for name in SWITCHES})
    pieces = read_vocabulary(folder / VOCABULARY)
    digest = hashlib.sha256((folder / VOCABULARY).read_bytes()).hexdigest()
    if digest != values[_DIGEST]:
        raise ArtifactError(
            f"{folder / VOCABULARY}: not the vocabulary that was exported (sha256 {digest[:12]}…, "
            f"{FILE} says {values[_DIGEST]!s:.12}…). {TAKE_A_WHOLE_ONE}"
        )
    return {"vocabulary": pieces, **switches}
