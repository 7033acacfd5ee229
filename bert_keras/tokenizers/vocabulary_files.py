"""A vocab.txt: strictly read, errors with file and line."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from bert_keras.errors import DataError
from bert_keras.strict_json import read_bytes
from bert_keras.tokenizers.vocabulary import check_vocabulary


def read_vocabulary(path: Path) -> list[str]:
    """Reads and checks a vocab.txt: UTF-8, one piece per line; line n is id n - 1."""
    data = read_bytes(path)
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


def vocabulary_text(vocabulary: Iterable[str]) -> bytes:
    """The content of a vocab.txt, as `read_vocabulary` reads it."""
    return "".join(f"{piece}\n" for piece in vocabulary).encode()
