"""A vocab.txt, and JSON, as data: strictly read, errors with file and line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bert_keras.errors import ArtifactError, DataError
from bert_keras.tokenizers.vocabulary import check_vocabulary


def read_vocabulary(path: Path) -> list[str]:
    """Reads and checks a vocab.txt: UTF-8, one piece per line; line n is id n - 1."""
    data = path.read_bytes()
    if not data:
        raise DataError(f"{path}: the vocabulary is empty.")
    if data.startswith(b"\xef\xbb\xbf"):
        raise DataError(f"{path}:1: starts with a byte order mark. Save it as UTF-8 without one.")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        found = data[error.start : error.end]
        raise DataError(f"{path}:{line}: not UTF-8. Received: the bytes {found!r}") from None
    # Not splitlines: U+2028 and its like are entries of published vocabularies.
    vocabulary = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
    check_vocabulary(vocabulary, str(path), lines=True)
    return vocabulary


def read_json(path: Path) -> dict[str, Any]:
    """Reads a JSON object.

    Raises:
        ArtifactError: it is none.
    """
    try:
        content = json.loads(path.read_bytes())
    except ValueError as error:
        raise ArtifactError(f"{path}: not JSON: {error}") from None
    if not isinstance(content, dict):
        raise ArtifactError(f"{path}: expected a JSON object. Received: {type(content).__name__}")
    return content
