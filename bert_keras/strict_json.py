"""JSON of strangers: read as data, refused by name where it could be read in two ways."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bert_keras.errors import ArtifactError


def read_object(path: Path) -> dict[str, Any]:
    """The object in a JSON file.

    Raises:
        ArtifactError: no such file, or something else in it.
    """
    values = read(path)
    if not isinstance(values, dict):
        raise ArtifactError(f"{path}: expected a JSON object. Received: {type(values).__name__}")
    return values


def read(path: Path) -> Any:
    """What is in a JSON file.

    Raises:
        ArtifactError: no such file, no JSON, or an object that says a key twice.
    """
    if not path.is_file():
        raise ArtifactError(f"{path}: no such file. The folder is not a checkpoint.")
    return parse(path.read_bytes(), path)


def parse(text: bytes, path: Path) -> Any:
    """What a text says.

    Args:
        text: UTF-8.
        path: where it came from, for messages.

    Raises:
        ArtifactError: no JSON, too deep, or an object that says a key twice.
    """
    try:
        return json.loads(text.decode(), object_pairs_hook=once(path, ArtifactError))
    except ArtifactError:  # a ValueError too
        raise
    except ValueError as error:
        raise ArtifactError(f"{path}: not JSON ({error}).") from error
    except RecursionError:
        raise ArtifactError(f"{path}: deeper than any file of a checkpoint.") from None


def once(
    place: str | Path, error: type[ValueError]
) -> Callable[[list[tuple[str, Any]]], dict[str, Any]]:
    """For `json.loads` as its `object_pairs_hook`: an object in which no key is said twice.

    Args:
        place: where it stands, for the message.
        error: of an object in which one is.
    """

    def read_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        values = dict(pairs)
        if len(values) < len(pairs):
            keys = [key for key, _ in pairs]
            twice = next(key for key in values if keys.count(key) > 1)
            raise error(
                f"{place}: {twice!r} is said twice, and readers differ in which they take. "
                "Remove the wrong one."
            )
        return values

    return read_pairs
