"""Recognition of the format of a checkpoint by its files."""

from __future__ import annotations

import os
from pathlib import Path

from bert_keras import file_io, presets
from bert_keras.checkpoints import (
    google_tf1,
    keras_hub_preset,
    sentence_transformers,
    tf_checkpoint,
    tf_hub,
    tf_hub_export,
    weight_files,
)
from bert_keras.checkpoints.checkpoint import Checkpoint
from bert_keras.checkpoints.hugging_face_folder import ADAPTER, Folder
from bert_keras.checkpoints.manifest import CONFIG, MANIFEST, STATE_WEIGHTS, WEIGHTS
from bert_keras.errors import ArtifactError, UsageError
from bert_keras.tokenizers import exported_tokenizer, files

# Files that are downloaded from a repository. A pickle is downloaded only with `allow_pickle`.
_FILES = (
    *(CONFIG, MANIFEST, ADAPTER, STATE_WEIGHTS, *keras_hub_preset.FILES),
    *(files.MODULES, *files.SENTENCE_CONFIGS, sentence_transformers.CONFIG),
    *(f"[0-9]*_*/{CONFIG}", f"[0-9]*_*/{WEIGHTS}", "exported_tokenizer.json", tf_hub.INDEX),
    *tf_hub_export.FILES,
)


def open_checkpoint(
    handle: str | Path,
    *,
    allow_pickle: bool = False,
    trust: bool = False,
    variant: str | None = None,
    averages: bool = False,
) -> Checkpoint:
    """Recognise the format of a checkpoint and read its small files, but not the weights.

    Args:
        handle: preset name, folder, or `hf://organisation/name`; see `BertEncoder.from_preset`.
        allow_pickle: whether a `pytorch_model.bin` may be read.
        trust: whether a SavedModel of TensorFlow Hub may be read with the constants of Google's
            published models; see `tf_hub`.
        variant: see `bert_keras.load_checkpoint`.
        averages: see `bert_keras.load_checkpoint`.

    Raises:
        ArtifactError: if the handle names no folder, or none in a known format.
        UsageError: if the format has no variants or no averages.
    """
    opened = _open(handle, allow_pickle, trust, variant, averages)
    if variant is not None and not isinstance(opened, Folder):
        raise UsageError(
            f"{opened.directory}: variant={variant!r} names a file such as model.fp16.safetensors "
            "in Hugging Face's layout, and this folder has another format. Leave it out."
        )
    if averages and not isinstance(opened, google_tf1.GoogleFolder | tf_hub.HubFolder):
        raise UsageError(
            f"{opened.directory}: averages=True opens the moving averages in a checkpoint of a "
            "TensorFlow training, and this folder has another format. Leave it out."
        )
    return opened


def _open(
    handle: str | Path, allow_pickle: bool, trust: bool, variant: str | None, averages: bool
) -> Checkpoint:
    """Return the reader of a folder's format; see `open_checkpoint`."""
    more = (
        *weight_files.patterns(variant, allow_pickle=allow_pickle),
        *([f"[0-9]*_*/{weight_files.PICKLE}"] if allow_pickle else []),
        *(tf_hub.FILES if trust else []),
    )
    directory = presets.resolve_handle(handle, (*_FILES, *more))
    if directory.is_file():
        raise ArtifactError(
            f"{str(handle)!r}: a file. A checkpoint is a folder with all of its files: name "
            f"{str(directory.parent)!r}, if that is the checkpoint's. A file of Keras is opened by "
            "keras.models.load_model."
        )
    if not directory.is_dir():
        raise ArtifactError(
            f"{str(handle)!r}: no such folder. Name a checkpoint's, or "
            f"hf://organisation/name{presets.nearest_name(os.fspath(handle))}"
        )
    exported = exported_tokenizer.encoder_folder(directory)
    if not (directory / CONFIG).is_file() and exported_tokenizer.is_one(exported):
        presets.resolve_handle(handle, tf_hub_export.WEIGHTS)  # downloads the weights too
        return tf_hub_export.ExportedFolder.open(exported)
    if not (directory / CONFIG).is_file() and tf_hub.is_one(directory):
        return tf_hub.HubFolder.open(directory, trust=trust)
    if not (directory / CONFIG).is_file() and google_tf1.is_one(directory):
        name = presets.tensorflow_prefix(handle)
        folder = google_tf1.GoogleFolder.open(directory, name=name, averages=averages)
        is_object_based = tf_checkpoint.is_object_based(folder.choice.prefix)
        return tf_hub.HubFolder.of_training(folder) if is_object_based else folder
    if (directory / CONFIG).is_file() and not (directory / MANIFEST).is_file():
        values = file_io.read_object(directory / CONFIG)
        if keras_hub_preset.is_one(values):
            return keras_hub_preset.KerasHubFolder.open(directory)
    return Folder.open(directory, allow_pickle=allow_pickle, variant=variant)
