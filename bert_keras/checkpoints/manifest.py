"""The file that makes a checkpoint folder one of ours: class, options, config, digests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from bert_keras import file_io
from bert_keras.earlier_names import saved_options
from bert_keras.errors import ArtifactError

MANIFEST, CONFIG, WEIGHTS = "bert_keras.json", "config.json", "model.safetensors"
STATE_WEIGHTS = "bert_keras.safetensors"  # see `state_entries`
_FORMAT = 1
_KEYS = ("format", "class", "options", "config", "state", "sha256")


def describe(
    class_name: str,
    options: Mapping[str, Any],
    config: Mapping[str, Any],
    digest: str,
    others: Mapping[str, str] | None = None,
    state: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the manifest of a model.

    Args:
        class_name: of the model.
        options: of the model.
        config: of its encoder.
        digest: the sha256 of its weights file.
        others: the sha256 of further files with weights, by their name within the folder.
        state: what is frozen, adapted or quantised in it (`layers.state`); written where there is
            any.
    """
    return {
        "format": _FORMAT,
        "class": class_name,
        "options": dict(options),
        "config": dict(config),
        **({"state": dict(state)} if state else {}),
        "sha256": {WEIGHTS: digest, **(others or {})},
    }


def read(directory: Path, classes: Collection[str]) -> dict[str, Any] | None:
    """The manifest of a folder; None where there is none.

    Raises:
        ArtifactError: damaged, of a later version, or of a class that is not among `classes`.
    """
    path = directory / MANIFEST
    if not path.is_file():
        return None
    manifest = file_io.read_object(path)
    if manifest.get("format") != _FORMAT:
        raise ArtifactError(
            f"{path}: format {manifest.get('format')!r} is not known; "
            f"this version of bert_keras reads {_FORMAT}."
        )
    if manifest.get("class") not in tuple(classes):
        raise ArtifactError(f"{path}: unknown class {manifest.get('class')!r}.")
    file_io.refuse_unknown_keys(path, manifest, _KEYS)
    for key in ("options", "config", "sha256"):
        if not isinstance(manifest.get(key), dict):
            raise ArtifactError(f"{path}: `{key}` is not an object or missing.")
    if not isinstance(manifest.get("state", {}), dict):
        raise ArtifactError(f"{path}: `state` is not an object.")
    return {**manifest, "options": saved_options(manifest["options"])}


def check_digest(weights: Path, manifest: Mapping[str, Any], name: str | None = None) -> None:
    """Compares the bytes of a weights file with those that were written.

    Args:
        weights: the file.
        manifest: of its folder.
        name: of the file within the folder; None for that of `weights`.

    Raises:
        ArtifactError: they are others.
    """
    with weights.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    expected = str(manifest["sha256"].get(name or weights.name))
    if found != expected:
        raise ArtifactError(
            f"{weights}: the bytes are not those that were written (sha256 {found[:12]}…, "
            f"expected {expected[:12]}…). Take the folder from a backup."
        )


def check_header(weights: Path) -> None:
    """Reads the header of a whole safetensors file for names that it says twice.

    The library takes the last of them, other readers may take the first: the file would be two
    models (https://github.com/huggingface/safetensors, "Format": duplicates are not allowed).

    Raises:
        ArtifactError: it does.
    """
    with weights.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > file_io.SMALL:
            raise ArtifactError(
                f"{weights}: a header of at most {file_io.SMALL:,} bytes can be opened. "
                f"Received: {length:,} bytes"
            )
        file_io.parse_json(file.read(length), weights)


def json_bytes(values: Mapping[str, Any]) -> bytes:
    """The bytes of a JSON file."""
    return (json.dumps(values, indent=2) + "\n").encode()
