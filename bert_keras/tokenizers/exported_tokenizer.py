"""Tokenizer of an encoder that was exported for TensorFlow Hub.

`export.tf_hub` writes `encoder/assets.extra/bert_keras.json`, a folder that TensorFlow ignores. The
tokenizer's part of the file is read here. `checkpoints.tf_hub_export` writes the file and reads the
model's part.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from bert_keras.errors import ArtifactError
from bert_keras.file_io import is_array, read_object, refuse_unknown_keys
from bert_keras.tokenizers.added_tokens import AddedToken, check_ids
from bert_keras.tokenizers.tokenizer_config import flags
from bert_keras.tokenizers.vocabulary import read_vocabulary

FILE = "assets.extra/bert_keras.json"
VOCABULARY = "assets/vocab.txt"
FORMAT = 1
TF_HUB_SWITCHES = ("lowercase", "strip_accents", "split_cjk")
TAKE_A_WHOLE_ONE = "Take the whole folder from one export, or export the model again."
_ENCODER = "encoder"  # folder of the encoder in an exported pair of preprocessor and encoder
# Both files, as seen from the encoder's folder and from the folder of the pair.
FILES = tuple(f"{start}{name}" for start in ("", f"{_ENCODER}/") for name in (FILE, VOCABULARY))
_DIGEST = "vocabulary_sha256"
_ADDED = "added_tokens"  # only where there are some; the last lines of the vocabulary are theirs
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
    """Return the parsed `bert_keras.json` of an exported encoder.

    Raises:
        ArtifactError: if it is damaged, or of a later version.
    """
    path = folder / FILE
    values = read_object(path)
    if values.get("format") != FORMAT:
        raise ArtifactError(
            f"{path}: format {values.get('format')!r:.100} is not known; this version of "
            f"bert_keras reads {FORMAT}. Update bert-keras, or export the model again."
        )
    refuse_unknown_keys(path, values, _KEYS)
    for key in ("options", "config", "tokenizer", "variables"):
        require_object(path, key, values.get(key))
    return values


def require_object(path: Path, key: str, value: Any) -> None:
    """Refuse a value that is not a JSON object.

    Raises:
        ArtifactError: if it is another value, or missing.
    """
    if not isinstance(value, dict):
        raise ArtifactError(
            f"{path}: `{key}` must be a JSON object. Received: {value!r:.100}. {TAKE_A_WHOLE_ONE}"
        )


def describe(tokenizer: Any, vocabulary: bytes) -> dict[str, Any]:
    """Return the tokenizer's part of `bert_keras.json`.

    Args:
        tokenizer: WordPiece `Tokenizer`.
        vocabulary: content of its vocab.txt.
    """
    switches = {name: getattr(tokenizer, name) for name in TF_HUB_SWITCHES}
    values = {**switches, _DIGEST: hashlib.sha256(vocabulary).hexdigest()}
    if tokenizer.added_tokens:
        added = [token.json for token in tokenizer.added_tokens]
        values[_ADDED] = {"num_pieces": tokenizer.num_pieces, "tokens": added}
    return values


def read_tokenizer(folder: Path) -> dict[str, Any]:
    """Return the arguments of the `Tokenizer` of an exported encoder.

    Raises:
        ArtifactError: if the file is damaged, or the vocabulary is not the exported one.
        DataError: if the vocabulary is not valid. The message names file and line.
    """
    path, values = folder / FILE, read(folder)["tokenizer"]
    if set(values) - {_ADDED} != {*TF_HUB_SWITCHES, _DIGEST}:
        raise ArtifactError(
            f"{path}: `tokenizer` must have the keys {', '.join((*TF_HUB_SWITCHES, _DIGEST))}. "
            f"Received: {', '.join(map(str, values)) or 'none'!s:.200}. {TAKE_A_WHOLE_ONE}"
        )
    switches = flags(path, values, {name: name for name in TF_HUB_SWITCHES})
    pieces = read_vocabulary(folder / VOCABULARY)
    digest = hashlib.sha256((folder / VOCABULARY).read_bytes()).hexdigest()
    if digest != values[_DIGEST]:
        raise ArtifactError(
            f"{folder / VOCABULARY}: not the vocabulary that was exported (sha256 {digest[:12]}…, "
            f"{FILE} says {values[_DIGEST]!s:.12}…). {TAKE_A_WHOLE_ONE}"
        )
    if (more := values.get(_ADDED)) is None:
        return {"vocabulary": pieces, **switches}
    require_object(path, _ADDED, more)
    size, tokens = more.get("num_pieces"), more.get("tokens")
    added = [AddedToken.of(token, str(path)) for token in (tokens if is_array(tokens) else [])]
    pieces = pieces[: size if type(size) is int else 0]
    check_ids(added, pieces, path)
    return {"vocabulary": pieces, "added": added, **switches}
