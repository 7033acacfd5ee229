"""The file that makes a checkpoint folder one of ours: class, options, config, digests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from bert_keras.errors import ArtifactError

MANIFEST, CONFIG, WEIGHTS = "bert_keras.json", "config.json", "model.safetensors"
_FORMAT = 1


def describe(
    class_name: str, options: Mapping[str, Any], config: Mapping[str, Any], digest: str
) -> dict[str, Any]:
    """What the manifest of a model says; `digest` is the sha256 of its weights file."""
    return {
        "format": _FORMAT,
        "class": class_name,
        "options": dict(options),
        "config": dict(config),
        "sha256": {WEIGHTS: digest},
    }


def read(directory: Path, classes: Collection[str]) -> dict[str, Any] | None:
    """The manifest of a folder; None where there is none.

    Raises:
        ArtifactError: damaged, of a later version, or of a class that is not among `classes`.
    """
    path = directory / MANIFEST
    if not path.is_file():
        return None
    manifest = read_json(path)
    if manifest.get("format") != _FORMAT:
        raise ArtifactError(
            f"{path}: format {manifest.get('format')!r} is not known; "
            f"this version of bert_keras reads {_FORMAT}."
        )
    if manifest.get("class") not in tuple(classes):
        raise ArtifactError(f"{path}: unknown class {manifest.get('class')!r}.")
    for key in ("options", "config", "sha256"):
        if not isinstance(manifest.get(key), dict):
            raise ArtifactError(f"{path}: `{key}` is not an object or missing.")
    return manifest


def check_digest(weights: Path, manifest: Mapping[str, Any]) -> None:
    """Compares the bytes of a weights file with those that were written.

    Raises:
        ArtifactError: they are others.
    """
    with weights.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    expected = str(manifest["sha256"].get(weights.name))
    if found != expected:
        raise ArtifactError(
            f"{weights}: the bytes are not those that were written (sha256 {found[:12]}…, "
            f"expected {expected[:12]}…). Take the folder from a backup."
        )


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file.

    Raises:
        ArtifactError: no such file, or something else in it.
    """
    values = parse_json(path)
    if not isinstance(values, dict):
        raise ArtifactError(f"{path}: expected an object. Received: {type(values).__name__}")
    return values


def parse_json(path: Path) -> Any:
    """What is in a JSON file.

    Raises:
        ArtifactError: no such file, no JSON, or an object that says a key twice.
    """
    if not path.is_file():
        raise ArtifactError(f"{path}: no such file. The folder is not a checkpoint.")
    return _parse(path.read_bytes(), path)


def check_header(weights: Path) -> None:
    """Reads the header of a whole safetensors file for names that it says twice.

    The library takes the last of them, other readers may take the first: the file would be two
    models (https://github.com/huggingface/safetensors, "Format": duplicates are not allowed).

    Raises:
        ArtifactError: it does.
    """
    with weights.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        _parse(file.read(length), weights)


def _parse(text: bytes, path: Path) -> Any:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key, value in pairs:
            if key in values:
                raise ArtifactError(
                    f"{path}: {key!r} is said twice, and readers differ in which they take. "
                    "Remove the wrong one."
                )
            values[key] = value
        return values

    try:
        return json.loads(text.decode(), object_pairs_hook=once)
    except ArtifactError:  # a ValueError too
        raise
    except ValueError as error:
        raise ArtifactError(f"{path}: not JSON ({error}).") from error
    except RecursionError:
        raise ArtifactError(f"{path}: deeper than any file of a checkpoint.") from None


def json_bytes(values: Mapping[str, Any]) -> bytes:
    """The bytes of a JSON file."""
    return (json.dumps(values, indent=2) + "\n").encode()
