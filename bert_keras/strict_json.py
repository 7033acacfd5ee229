"""JSON and small files of strangers: of a bounded size, read as data, refused where ambiguous."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from bert_keras.errors import ArtifactError

# The most bytes of a config, and of a file that holds a vocabulary (XLM-R's tokenizer.json: 17 MB).
# Python objects take about ten times the bytes of their JSON.
SMALL, LARGE = 8 * 2**20, 96 * 2**20
_MOST_KEYS = 10  # in a message


def read_object(path: Path, at_most: int = SMALL) -> dict[str, Any]:
    """Return the object in a JSON file.

    Args:
        path: the file.
        at_most: bytes that it may have.

    Raises:
        ArtifactError: no such file, a larger one, or something else in it.
    """
    values = read(path, at_most)
    if not isinstance(values, dict):
        raise ArtifactError(f"{path}: expected a JSON object. Received: {type(values).__name__}")
    return values


def read(path: Path, at_most: int = SMALL) -> Any:
    """Return what is in a JSON file.

    Args:
        path: the file.
        at_most: bytes that it may have.

    Raises:
        ArtifactError: no such file, a larger one, no JSON, or an object that says a key twice.
    """
    return parse(read_bytes(path, at_most), path)


def read_bytes(path: Path, at_most: int = LARGE) -> bytes:
    """Return the content of a file, which is never read further than `at_most` bytes.

    Raises:
        ArtifactError: no such file, or a larger one.
    """
    if not path.is_file():
        raise ArtifactError(f"{path}: no such file. The folder is not a checkpoint.")
    with path.open("rb") as file:
        content = file.read(at_most + 1)
    if len(content) > at_most:
        raise ArtifactError(
            f"{path}: larger than any such file of a checkpoint, at most {at_most:,} bytes. "
            f"Received: {path.stat().st_size:,} bytes"
        )
    return content


def parse(text: bytes, path: Path) -> Any:
    """Return what a text says.

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
    """Return an `object_pairs_hook` of `json.loads` that refuses an object with a key twice.

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


def refuse_unknown(place: str | Path, values: Mapping[str, Any], known: Collection[str]) -> None:
    """Check the keys of an object that only knows certain ones.

    Raises:
        ArtifactError: another key, which might change what the model computes.
    """
    if unknown := _unknown(values, known):
        raise ArtifactError(
            f"{place}: unknown keys: {unknown}. They might change what the model computes. Remove "
            "them if they do not; if a newer version wrote them, update bert-keras."
        )


def warn_of_unknown(place: str | Path, values: Mapping[str, Any], known: Collection[str]) -> None:
    """Warn once of all keys of an object that are not known, by name."""
    if unknown := _unknown(values, known):
        warnings.warn(
            f"{place}: unknown keys are ignored: {unknown}. If one of them changes what the model "
            "computes, the answers are wrong: compare them with the author's.",
            stacklevel=3,
        )


def _unknown(values: Mapping[str, Any], known: Collection[str]) -> str:
    keys = sorted(set(values).difference(known))
    more = f" and {len(keys) - _MOST_KEYS} more" * (len(keys) > _MOST_KEYS)
    return ", ".join(f"{key!r:.60}" for key in keys[:_MOST_KEYS]) + more
