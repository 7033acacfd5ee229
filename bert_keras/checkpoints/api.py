"""Opening and writing checkpoint folders.

A folder of ours has Hugging Face's layout (`config.json`, `model.safetensors`) so that other tools
open it, and beside it `bert_keras.json` (see `manifest`): what only we need to know.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bert_keras import atomic, models
from bert_keras.checkpoints import hugging_face, tensors
from bert_keras.checkpoints import manifest as manifests
from bert_keras.checkpoints.folder import Folder, entries
from bert_keras.checkpoints.manifest import CONFIG, MANIFEST, WEIGHTS
from bert_keras.errors import ArtifactError
from bert_keras.models import BertEncoder, Task
from bert_keras.presets import PRESETS


def save_checkpoint(model: BertEncoder | Task, directory: str | Path) -> Path:
    """Writes an encoder or a task as a checkpoint folder.

    Args:
        model: what to write.
        directory: made when absent; files of the same names are replaced, one by one and whole.

    Returns:
        The folder.

    Raises:
        NumericError: a weight is not finite. Nothing is written.
    """
    directory = Path(directory)
    encoder = model.encoder if isinstance(model, Task) else model
    class_name, options = type(model).__name__, model.options
    family = hugging_face.family_for(encoder.config, class_name, options)
    # As in Hugging Face's library: under a head the encoder has a name of its own.
    prefix = family.prefix if isinstance(model, Task) else ""
    weights = tensors.serialized(
        {
            entry.tensor: entry.leaf.convert(tensors.finite(entry.variable))
            for entry in entries(model.weights, family, prefix)
        }
    )
    config = hugging_face.write_config(encoder.config, class_name, options)
    manifest = manifests.describe(class_name, options, encoder.config.to_dict(), weights)
    directory.mkdir(parents=True, exist_ok=True)
    atomic.write_bytes(directory / WEIGHTS, weights)
    atomic.write_bytes(directory / CONFIG, manifests.json_bytes(config))
    atomic.write_bytes(directory / MANIFEST, manifests.json_bytes(manifest))
    return directory


def load_checkpoint(directory: str | Path, **options: Any) -> BertEncoder | Task:
    """Opens a folder, ours or Hugging Face's, as the class it was written from.

    Args:
        directory: the folder.
        options: `load_weights`, `dtype`.

    Raises:
        ArtifactError: the folder cannot be read, is damaged, or is of a class we have not.
    """
    if not Path(directory).is_dir():
        raise ArtifactError(f"{directory}: no such folder.")
    class_name = Folder.open(directory).class_name
    if class_name == BertEncoder.__name__:
        return load_encoder(directory, **options)
    return load_task(getattr(models, class_name), directory, **options)


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
    folder = Folder.open(handle)
    config = folder.config(allow_missing, load_weights)
    encoder = folder.build(BertEncoder, config, options, lambda given: BertEncoder(config, **given))
    if load_weights:
        # What the encoder does without: every head there is.
        folder.load_weights(encoder, config, allow_missing, hugging_face.HEADS)
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
    folder = Folder.open(handle)
    config = folder.config(allow_missing, load_weights)
    encoder = BertEncoder(config, dtype=dtype)
    task = folder.build(task_class, config, options, lambda given: task_class(encoder, **given))
    if load_weights:
        folder.load_weights(task, config, allow_missing, allow_unused)
    return task
