"""The manifest `bert_keras.json` of a checkpoint folder: class, options, config and digests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from bert_keras import file_io
from bert_keras.earlier_names import saved_options
from bert_keras.errors import COPY_AGAIN, ArtifactError

MANIFEST, CONFIG, WEIGHTS = "bert_keras.json", "config.json", "model.safetensors"
STATE_WEIGHTS = "bert_keras.safetensors"  # see `exact_weights`
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
        class_name: name of the model's class.
        options: options of the model.
        config: config of its encoder.
        digest: sha256 of `model.safetensors`.
        others: sha256 of each further weights file, by its path within the folder.
        state: state of frozen, adapted and quantised layers (see `layers.state`).
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
    """Read the manifest of a folder.

    Args:
        directory: the folder.
        classes: names of classes that may be opened.

    Returns:
        The manifest, with options under their current names; None if the folder has none.

    Raises:
        ArtifactError: if the file is damaged, of a later version, or of a class that is not known.
    """
    path = directory / MANIFEST
    if not path.is_file():
        return None
    manifest = file_io.read_object(path)
    if manifest.get("format") != _FORMAT:
        raise ArtifactError(
            f"{path}: format {manifest.get('format')!r} is not known; "
            f"this version of bert_keras reads {_FORMAT}. Update bert-keras."
        )
    if manifest.get("class") not in tuple(classes):
        raise ArtifactError(
            f"{path}: unknown class {manifest.get('class')!r}. If a newer version wrote it, update "
            "bert-keras."
        )
    file_io.refuse_unknown_keys(path, manifest, _KEYS)
    for key in ("options", "config", "sha256"):
        if not isinstance(manifest.get(key), dict):
            raise ArtifactError(f"{path}: `{key}` is not an object or missing. {COPY_AGAIN}")
    if not isinstance(manifest.get("state", {}), dict):
        raise ArtifactError(f"{path}: `state` is not an object. {COPY_AGAIN}")
    return {**manifest, "options": saved_options(manifest["options"])}


def check_digest(weights: Path, manifest: Mapping[str, Any], name: str | None = None) -> None:
    """Compare the sha256 of a weights file with the one in the manifest.

    Args:
        weights: path of the file.
        manifest: manifest of its folder.
        name: path of the file within the folder; None for the file name of `weights`.

    Raises:
        ArtifactError: if they differ.
    """
    if (name or weights.name) not in manifest["sha256"]:
        raise ArtifactError(
            f"{weights}: {MANIFEST} has no digest of this file. Take the folder from a backup or, "
            f"if another program added the file, move it with {CONFIG} into a folder without "
            f"{MANIFEST}."
        )
    with weights.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    expected = str(manifest["sha256"].get(name or weights.name))
    if digest != expected:
        raise ArtifactError(
            f"{weights}: the bytes are not those that were written (sha256 {digest[:12]}…, "
            f"expected {expected[:12]}…). Take the folder from a backup or, if another program "
            f"wrote the file on purpose, remove {weights.parent / MANIFEST}."
        )


def check_header(weights: Path) -> None:
    """Check that the header of a safetensors file names no tensor twice.

    The format does not allow duplicates (https://github.com/huggingface/safetensors, "Format").
    The library reads the last one, and other readers may read the first, so that one file would
    hold two models.

    Raises:
        ArtifactError: if a name occurs twice, or the header is larger than any model needs.
    """
    with weights.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > file_io.SMALL:
            raise ArtifactError(
                f"{weights}: a header of at most {file_io.SMALL:,} bytes can be opened. "
                f"Received: {length:,} bytes. {COPY_AGAIN}"
            )
        file_io.parse_json(file.read(length), weights)


def json_bytes(values: Mapping[str, Any]) -> bytes:
    """Return the content of a JSON file."""
    return (json.dumps(values, indent=2) + "\n").encode()
