"""What a checkpoint folder says of how its model is asked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bert_keras import atomic, handles, strict_json
from bert_keras.errors import ArtifactError

_OURS = "predictor.json"
_SENTENCES = "sentence_bert_config.json"  # of sentence-transformers
_FILES = (_OURS, _SENTENCES)
_LENGTH, _OPTIONS, _THEIR_LENGTH = "max_length", "options", "max_seq_length"


def read_preset(handle: str | Path) -> tuple[int | None, dict[str, Any]]:
    """The most tokens of a text, None where nothing is said, and options of the model's answers.

    Args:
        handle: see `BertEncoder.from_preset`.

    Raises:
        ArtifactError: a damaged file.
    """
    folder = handles.resolve(handle, _FILES)
    path = folder / _OURS
    if not path.is_file():
        path = folder / _SENTENCES
        values = strict_json.read_object(path) if path.is_file() else {}
        return _length(path, values, _THEIR_LENGTH), {}
    values = strict_json.read_object(path)
    options = values.get(_OPTIONS, {})
    if not isinstance(options, dict):
        raise ArtifactError(f"{path}: {_OPTIONS} must be an object. Received: {options!r:.100}")
    return _length(path, values, _LENGTH), options


def write_preset(folder: Path, max_length: int | None, options: Mapping[str, Any]) -> None:
    """Writes what `read_preset` answers; its length also where sentence-transformers has it."""
    values = {_LENGTH: max_length, _OPTIONS: dict(options)}
    theirs = folder / _SENTENCES
    if max_length is not None and theirs.is_file():
        atomic.write_json(theirs, strict_json.read_object(theirs) | {_THEIR_LENGTH: max_length})
    atomic.write_json(folder / _OURS, values)


def _length(path: Path, values: Mapping[str, Any], name: str) -> int | None:
    value = values.get(name)
    if value is not None and (type(value) is not int or value < 1):
        raise ArtifactError(f"{path}: {name} must be a whole number. Received: {value!r:.100}")
    return value
