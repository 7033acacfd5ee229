"""Opening and writing checkpoint folders.

A folder of ours has Hugging Face's layout (`config.json`, `model.safetensors`) so that other tools
open it, and beside it `bert_keras.json`: the class, its options, the config in our own words, and
the digest of the weights.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import keras

from bert_keras import atomic, models
from bert_keras.checkpoints import hugging_face, tensors
from bert_keras.checkpoints.format import Entry
from bert_keras.config import BertConfig
from bert_keras.errors import ArtifactError
from bert_keras.models import BertEncoder, Task
from bert_keras.presets import PRESETS

MANIFEST, CONFIG, WEIGHTS = "bert_keras.json", "config.json", "model.safetensors"
_FORMAT = 1
_PREFIX = "bert."


def save_checkpoint(model: BertEncoder | Task, directory: str | Path) -> Path:
    """Writes an encoder or a task as a checkpoint folder.

    Args:
        model: what to write.
        directory: made when absent; files of the same names are replaced, one by one and whole.

    Returns:
        The folder.
    """
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    encoder = model.encoder if isinstance(model, Task) else model
    class_name = type(model).__name__
    # As in Hugging Face's library: under a head the encoder has a name of its own.
    prefix = _PREFIX if isinstance(model, Task) else ""
    weights = tensors.serialized(
        {
            entry.tensor: entry.leaf.convert(keras.ops.convert_to_numpy(entry.variable.value))
            for entry in _entries(model, prefix=prefix)
        }
    )
    config = hugging_face.write_config(encoder.config, hugging_face.ARCHITECTURES[class_name])
    manifest = {
        "format": _FORMAT,
        "class": class_name,
        "options": model.options,
        "config": encoder.config.to_dict(),
        "sha256": {WEIGHTS: hashlib.sha256(weights).hexdigest()},
    }
    atomic.write_bytes(directory / WEIGHTS, weights)
    atomic.write_bytes(directory / CONFIG, _json_bytes(config))
    atomic.write_bytes(directory / MANIFEST, _json_bytes(manifest))
    return directory


def load_checkpoint(directory: str | Path, **options: Any) -> BertEncoder | Task:
    """Opens a folder that `save_checkpoint` wrote, as the class it was written from.

    Args:
        directory: the folder.
        options: `load_weights`, `dtype`.

    Raises:
        ArtifactError: the folder is not one of ours, or is damaged.
    """
    if not Path(directory).is_dir():
        raise ArtifactError(f"{directory}: no such folder.")
    manifest = _manifest(Path(directory))
    if manifest is None:
        raise ArtifactError(
            f"{directory}: no {MANIFEST}, so the class is not known. "
            "Open it with BertEncoder.from_preset or a task's from_preset."
        )
    if manifest["class"] == BertEncoder.__name__:
        return load_encoder(directory, **options)
    return load_task(getattr(models, manifest["class"]), directory, **options)


def load_encoder(
    handle: str | Path,
    *,
    load_weights: bool = True,
    allow_missing: tuple[str, ...] = (),
    **options: Any,
) -> BertEncoder:
    """See `BertEncoder.from_preset`."""
    if handle in PRESETS:
        return BertEncoder(PRESETS[str(handle)], **options)
    directory = _folder(handle)
    options = _saved_options(directory, BertEncoder) | options
    encoder = BertEncoder(_config(directory, allow_missing), **options)
    if load_weights:
        # What the encoder does without: every head there is.
        heads = tuple(hugging_face.HEAD_PREFIXES)
        _load_weights(encoder, directory, allow_missing, allow_unused=heads)
    return encoder


def load_task(
    task_class: type[Task],
    handle: str | Path,
    *,
    load_weights: bool = True,
    allow_missing: tuple[str, ...] = (),
    allow_unused: tuple[str, ...] = (),
    dtype: Any = None,
    **options: Any,
) -> Any:
    """See `Task.from_preset`."""
    if handle in PRESETS:
        return task_class(BertEncoder(PRESETS[str(handle)], dtype=dtype), **options)
    directory = _folder(handle)
    options = _saved_options(directory, task_class) | options
    task = task_class(BertEncoder(_config(directory, allow_missing), dtype=dtype), **options)
    if load_weights:
        _load_weights(task, directory, allow_missing, allow_unused)
    return task


def _folder(handle: str | Path) -> Path:
    directory = Path(handle)
    if not directory.is_dir():
        raise ArtifactError(
            f"{str(handle)!r} is neither a checkpoint folder nor a preset. "
            f"Presets: {', '.join(PRESETS)}"
        )
    return directory


def _manifest(directory: Path) -> dict[str, Any] | None:
    path = directory / MANIFEST
    if not path.is_file():
        return None
    manifest = _read_json(path)
    if manifest.get("format") != _FORMAT:
        raise ArtifactError(
            f"{path}: format {manifest.get('format')!r} is not known; "
            f"this version of bert_keras reads {_FORMAT}."
        )
    if manifest.get("class") not in tuple(hugging_face.ARCHITECTURES):
        raise ArtifactError(f"{path}: unknown class {manifest.get('class')!r}.")
    for key in ("options", "config", "sha256"):
        if not isinstance(manifest.get(key), dict):
            raise ArtifactError(f"{path}: `{key}` is not an object or missing.")
    return manifest


def _saved_options(directory: Path, model_class: type) -> dict[str, Any]:
    """The options a folder of ours was written with, if by this class."""
    manifest = _manifest(directory)
    if manifest is None or manifest["class"] != model_class.__name__:
        return {}
    return manifest["options"]


def _config(directory: Path, allow_missing: tuple[str, ...]) -> BertConfig:
    manifest = _manifest(directory)
    if manifest is not None:
        try:
            return BertConfig.from_dict(manifest["config"])
        except ValueError as error:
            raise ArtifactError(f"{directory / MANIFEST}: {error}") from error
    path = directory / CONFIG
    values = _read_json(path)
    with tensors.TensorFile(directory / WEIGHTS) as file:
        pooler = any(name.endswith("pooler.dense.weight") for name in file.shapes)
    return hugging_face.read_config(values, path, pooler=pooler or "pooler" in allow_missing)


def _entries(model: BertEncoder | Task, *, prefix: str) -> list[Entry]:
    """Variables with the tensors they are stored in; the encoder's names begin with `prefix`."""
    return hugging_face.TABLE.entries(model.weights, {"": prefix, **hugging_face.HEAD_PREFIXES})


def _load_weights(
    model: BertEncoder | Task,
    directory: Path,
    allow_missing: tuple[str, ...],
    allow_unused: tuple[str, ...],
) -> None:
    path = directory / WEIGHTS
    with tensors.TensorFile(path, hugging_face.current_name) as file:
        _check_digest(directory, path)
        has_prefix = any(name.startswith(_PREFIX) for name in file.shapes)
        entries = _entries(model, prefix=_PREFIX if has_prefix else "")
        unused = {name for name in file.shapes if _may_be_unused(name, allow_unused)}
        missing = {entry.tensor for entry in entries if _begins(entry.path, allow_missing)}
        expected = {entry.tensor: entry.shape for entry in entries}
        tensors.check(path, file.shapes, expected, missing, unused)
        for entry in entries:
            if entry.tensor in file.shapes:
                entry.variable.assign(entry.leaf.convert(file.read(entry.tensor)))


def _may_be_unused(tensor: str, allowed: tuple[str, ...]) -> bool:
    name = tensor.removeprefix(_PREFIX)
    modules = hugging_face.TABLE.our_modules(name)
    return name in hugging_face.REDUNDANT or any(_begins(path, allowed) for path in modules)


def _begins(path: str, beginnings: tuple[str, ...]) -> bool:
    return any(path == start or path.startswith(f"{start}/") for start in beginnings)


def _check_digest(directory: Path, path: Path) -> None:
    manifest = _manifest(directory)
    if manifest is None:
        return
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    expected = str(manifest["sha256"].get(WEIGHTS))
    if found != expected:
        raise ArtifactError(
            f"{path}: the bytes are not those that were written (sha256 {found[:12]}…, "
            f"expected {expected[:12]}…). Take the folder from a backup."
        )


def _read_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise ArtifactError(f"{path}: no such file. The folder is not a checkpoint.")
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ArtifactError(f"{path}: not JSON ({error}).") from error
    if not isinstance(values, dict):
        raise ArtifactError(f"{path}: expected an object. Received: {type(values).__name__}")
    return values


def _json_bytes(values: dict[str, Any]) -> bytes:
    return (json.dumps(values, indent=2) + "\n").encode()
