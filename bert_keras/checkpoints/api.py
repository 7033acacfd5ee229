"""Opening and writing checkpoint folders.

A folder of ours has Hugging Face's layout (`config.json`, `model.safetensors`) so that other tools
open it, and beside it `bert_keras.json` (see `manifest`): what only we need to know.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from bert_keras import atomic, handles, models
from bert_keras.checkpoints import (
    google_tf1,
    hugging_face,
    keras_hub,
    safetensors_file,
    sentence_transformers,
    tensors,
)
from bert_keras.checkpoints import manifest as manifests
from bert_keras.checkpoints.checkpoint import Checkpoint
from bert_keras.checkpoints.folder import Folder
from bert_keras.checkpoints.manifest import CONFIG, MANIFEST, WEIGHTS
from bert_keras.errors import ArtifactError, UsageError
from bert_keras.layers import to_be_filled
from bert_keras.models import BertEncoder, SentenceEncoder, Task
from bert_keras.presets import PRESETS


def save_checkpoint(
    model: BertEncoder | Task,
    directory: str | Path,
    format: str = "hugging_face",  # noqa: A002
) -> Path:
    """Writes an encoder or a task as a checkpoint folder.

    Args:
        model: what to write.
        directory: made when absent; files of the same names are replaced, one by one and whole.
        format: "hugging_face", also our own; "google_tf1", the original one of BERT, ALBERT and
            ELECTRA; "keras_hub", a preset of KerasHub, for encoders.

    Returns:
        The folder.

    Raises:
        UsageError: the format has no such model.
        NumericError: a weight is not finite. Nothing is written.
    """
    if format not in FORMATS:
        raise UsageError(f"format must be one of {', '.join(FORMATS)}. Received: {format!r}")
    FORMATS[format](model, Path(directory))
    return Path(directory)


def _save_folder(model: BertEncoder | Task, directory: Path) -> None:
    """Hugging Face's layout, and the manifest."""
    encoder = model.encoder if isinstance(model, Task) else model
    class_name, options = type(model).__name__, model.options
    family = hugging_face.family_for(encoder.config, class_name, options)
    has_head = isinstance(model, Task) and bool(model.head_layers)
    names = hugging_face.names_of(family, prefixed=has_head)
    entries = names.entries(model.weights)
    for entry in entries:  # all of them, before anything is written
        tensors.finite(entry.variable)
    config = hugging_face.write_config(encoder.config, class_name, options)
    directory.mkdir(parents=True, exist_ok=True)
    digest = safetensors_file.write(directory / WEIGHTS, entries)
    manifest = manifests.describe(class_name, options, encoder.config.to_dict(), digest)
    atomic.write_bytes(directory / CONFIG, manifests.json_bytes(config))
    if isinstance(model, SentenceEncoder):
        sizes = encoder.config.hidden_size, encoder.config.max_positions
        sentence_transformers.write(directory, model.options, *sizes)
    atomic.write_bytes(directory / MANIFEST, manifests.json_bytes(manifest))


FORMATS = {
    "hugging_face": _save_folder,
    "google_tf1": google_tf1.save,
    "keras_hub": keras_hub.save,
}


def load_checkpoint(
    handle: str | Path, *, allow_pickle: bool = False, **options: Any
) -> BertEncoder | Task:
    """Opens a checkpoint as the class it was written from.

    Args:
        handle: see `BertEncoder.from_preset`; not a name of `PRESETS`.
        allow_pickle: see `BertEncoder.from_preset`.
        options: those of the class's own `from_preset`.

    Raises:
        ArtifactError: it cannot be read, is damaged, or is of a class we have not.
    """
    class_name = open_checkpoint(handle, allow_pickle=allow_pickle).class_name
    options["allow_pickle"] = allow_pickle
    if class_name == BertEncoder.__name__:
        return load_encoder(handle, **options)
    return load_task(getattr(models, class_name), handle, **options)


def load_encoder(
    handle: str | Path,
    *,
    load_weights: bool = True,
    allow_missing: tuple[str, ...] = (),
    allow_pickle: bool = False,
    **options: Any,
) -> BertEncoder:
    """See `BertEncoder.from_preset`."""
    if handle in PRESETS:
        return BertEncoder(PRESETS[str(handle)], **options)
    opened = open_checkpoint(handle, allow_pickle=allow_pickle)
    config = opened.config(allow_missing, load_weights)
    with _weights(load_weights and not allow_missing):
        encoder = opened.build(
            BertEncoder, config, options, lambda given: BertEncoder(config, **given)
        )
    if load_weights:
        # What the encoder does without: every head there is.
        opened.load_weights(encoder, config, allow_missing, hugging_face.HEADS)
    return encoder


def load_task(
    task_class: type[Task],
    handle: str | Path,
    *,
    load_weights: bool = True,
    allow_missing: tuple[str, ...] = (),
    allow_unused: tuple[str, ...] = (),
    allow_pickle: bool = False,
    dtype: Any = None,
    **options: Any,
) -> Any:
    """See `Task.from_preset`."""
    if handle in PRESETS:
        return task_class(BertEncoder(PRESETS[str(handle)], dtype=dtype), **options)
    opened = open_checkpoint(handle, allow_pickle=allow_pickle)
    config = opened.config(allow_missing, load_weights)
    with _weights(load_weights and not allow_missing):
        encoder = BertEncoder(config, dtype=dtype)
        task = opened.build(task_class, config, options, lambda given: task_class(encoder, **given))
    if load_weights:
        opened.load_weights(task, config, allow_missing, allow_unused)
    return task


def _weights(are_all_read: bool) -> AbstractContextManager[None]:
    """In which a model is made: without random weights, if none of them would stay."""
    return to_be_filled() if are_all_read else nullcontext()


def open_checkpoint(handle: str | Path, *, allow_pickle: bool = False) -> Checkpoint:
    """Finds out what a handle names, and reads its small files.

    Raises:
        ArtifactError: nothing that can be opened.
    """
    files = (*handles.WEIGHTS, handles.PICKLE) if allow_pickle else handles.WEIGHTS
    directory = handles.resolve(handle, files)
    if not directory.is_dir():
        raise ArtifactError(
            f"{str(handle)!r} is neither a checkpoint folder nor a preset. "
            f"Presets: {', '.join(PRESETS)}"
        )
    if not (directory / CONFIG).is_file() and google_tf1.is_one(directory):
        return google_tf1.GoogleFolder.open(directory)
    if (directory / CONFIG).is_file() and not (directory / MANIFEST).is_file():
        values = manifests.read_json(directory / CONFIG)
        if keras_hub.is_one(values):
            return keras_hub.KerasHubFolder(directory, values)
    return Folder.open(directory, allow_pickle=allow_pickle)
