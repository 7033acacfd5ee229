"""Opening and writing checkpoint folders.

A folder of ours has Hugging Face's layout (`config.json`, `model.safetensors`) so that other tools
open it, and beside it `bert_keras.json` (see `manifest`): what only we need to know.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bert_keras import features, file_io, presets
from bert_keras.checkpoints import (
    google_tf1,
    hugging_face,
    hugging_face_folder,
    keras_hub_preset,
    new_heads,
    sentence_transformers,
    sentence_transformers_writer,
    streaming,
    tensors,
    tf_hub,
    tf_hub_export,
)
from bert_keras.checkpoints import manifest as manifests
from bert_keras.checkpoints.checkpoint import Checkpoint, encoder_of, is_task
from bert_keras.checkpoints.hugging_face_folder import ADAPTER, Folder
from bert_keras.checkpoints.manifest import CONFIG, MANIFEST, STATE_WEIGHTS, WEIGHTS
from bert_keras.checkpoints.name_mapping import begins
from bert_keras.checkpoints.sentence_transformers import (
    read_predictor_config,
    write_predictor_config,
)
from bert_keras.config import BertConfig
from bert_keras.data.columns import class_names
from bert_keras.errors import ArtifactError, UsageError
from bert_keras.inference.base import PredictorConfig
from bert_keras.layers import to_be_filled
from bert_keras.layers.state import get_state, plain_weights
from bert_keras.presets import PRESETS
from bert_keras.tokenizers import Tokenizer, files, tokenizer_config

if TYPE_CHECKING:
    from bert_keras.models import BertEncoder, Task

# What a repository is asked for. A pickle must be asked for in words.
_FILES = (
    *(CONFIG, MANIFEST, ADAPTER, "model*.safetensors", STATE_WEIGHTS),
    *(tensors.INDEX, *keras_hub_preset.FILES),
    *(files.MODULES, *files.SENTENCE_CONFIGS, sentence_transformers.CONFIG),
    *(f"[0-9]*_*/{CONFIG}", f"[0-9]*_*/{WEIGHTS}", "tokenizer_config.json", tf_hub.INDEX),
    *tf_hub_export.FILES,
)
OUR_FORMAT = "hugging_face"


def write_checkpoint(
    model: BertEncoder | Task,
    directory: str | Path,
    format: str = OUR_FORMAT,  # noqa: A002
) -> None:
    """Write an encoder or a task as a checkpoint folder; see `bert_keras.save_checkpoint`."""
    writer_of(format)(model, Path(directory))
    if format == OUR_FORMAT and is_task(model):
        _save_attachments(model, Path(directory))


def _save_folder(model: BertEncoder | Task, directory: Path) -> None:
    """Hugging Face's layout, and the manifest."""
    encoder = encoder_of(model)
    class_name, options = type(model).__name__, model.options
    family = hugging_face.family_for(encoder.config, class_name, options)
    has_head = bool(model.head_layers)
    names = hugging_face.names_of(family, prefixed=has_head)
    entries = names.entries(plain_weights(model))
    state = get_state(model)
    streaming.check([*entries, *hugging_face_folder.state_entries(model, state)])
    config = hugging_face.write_config(encoder.config, class_name, options)
    directory.mkdir(parents=True, exist_ok=True)
    is_theirs = is_task(model) and sentence_transformers_writer.is_theirs(class_name, options)
    # The layers of vectors have files of their own there.
    own = [
        entry for entry in entries if is_theirs and begins(entry.path, (features.SENTENCE_VECTOR,))
    ]
    apart = {entry.tensor for entry in own}
    digest = streaming.write_safetensors(
        directory / WEIGHTS, [entry for entry in entries if entry.tensor not in apart]
    )
    if is_theirs:
        config |= sentence_transformers_writer.write_config(options)
    file_io.write_bytes(directory / CONFIG, manifests.json_bytes(config))
    others: dict[str, str] = {}
    if is_theirs:
        lengths = encoder.config.hidden_size, encoder.config.max_positions
        others = sentence_transformers_writer.write(directory, class_name, options, own, *lengths)
    else:
        sentence_transformers_writer.remove(directory)
    state_digest = hugging_face_folder.write_state(model, state, directory)
    if state_digest is not None:
        others |= {STATE_WEIGHTS: state_digest}
    sizes = encoder.config.to_dict()
    manifest = manifests.describe(class_name, options, sizes, digest, others=others, state=state)
    file_io.write_bytes(directory / MANIFEST, manifests.json_bytes(manifest))


_FORMATS = {
    OUR_FORMAT: _save_folder,
    "google_tf1": google_tf1.save,
    "keras_hub": keras_hub_preset.save,
}


def writer_of(format: str) -> Callable[[Any, Path], None]:  # noqa: A002
    """Return the function that writes a model into a folder in this format.

    Raises:
        UsageError: no such format.
    """
    if format not in _FORMATS:
        raise UsageError(f"format must be one of {', '.join(_FORMATS)}. Received: {format!r}")
    return _FORMATS[format]


def load_encoder(
    encoder_class: type[BertEncoder],
    handle: str | Path,
    *,
    allow_pickle: bool = False,
    trust: bool = False,
    load_weights: bool = True,
    allow_missing: str | Sequence[str] = (),
    plain: bool = False,
    **options: Any,
) -> BertEncoder:
    """See `BertEncoder.from_preset`."""
    if not load_weights and presets.is_preset(handle):
        return encoder_class(PRESETS[os.fspath(handle)], **options)
    opened = open_checkpoint(handle, allow_pickle=allow_pickle, trust=trust)
    return make_encoder(
        encoder_class,
        opened,
        load_weights=load_weights,
        allow_missing=allow_missing,
        plain=plain,
        **options,
    )


def load_task(
    task_class: type[Task],
    encoder_class: type[BertEncoder],
    handle: str | Path,
    *,
    allow_pickle: bool = False,
    trust: bool = False,
    load_weights: bool = True,
    allow_missing: str | Sequence[str] = (),
    allow_unused: str | Sequence[str] = (),
    new_head: bool = False,
    plain: bool = False,
    dtype: Any = None,
    **options: Any,
) -> Any:
    """See `Task.from_preset`."""
    if not load_weights and presets.is_preset(handle):
        config = PRESETS[os.fspath(handle)]
        told = hugging_face.new_head_options(task_class.__name__, config)
        told |= _described(task_class, options)
        return task_class(encoder_class(config, dtype=dtype), **told)
    tokenizer = options.pop("tokenizer", None)
    task = make_task(
        task_class,
        encoder_class,
        open_checkpoint(handle, allow_pickle=allow_pickle, trust=trust),
        load_weights=load_weights,
        allow_missing=allow_missing,
        allow_unused=allow_unused,
        new_head=new_head,
        plain=plain,
        dtype=dtype,
        **options,
    )
    return attach(task, handle, tokenizer)


def attach(task: Task, handle: str | Path, tokenizer: Tokenizer | None = None) -> Task:
    """Attach the tokenizer and the settings of a folder to its task.

    A folder without a tokenizer that we read is a task that takes features; the reason is kept for
    the message of the first text.
    """
    task.predictor_config = read_predictor_config(handle)
    try:
        task.tokenizer = Tokenizer.from_preset(handle) if tokenizer is None else tokenizer
    except (ValueError, ImportError) as error:
        if tokenizer is not None:
            raise
        task.tell_missing_tokenizer(str(error))
    return task


def _save_attachments(task: Task, directory: Path) -> None:
    """Write the tokenizer and the settings of a task beside its checkpoint."""
    if task.tokenizer is not None:
        task.tokenizer.save_to_preset(directory)
    if task.predictor_config != PredictorConfig():
        write_predictor_config(directory, task.predictor_config)


def make_encoder(
    encoder_class: type[BertEncoder],
    opened: Checkpoint,
    *,
    load_weights: bool = True,
    allow_missing: str | Sequence[str] = (),
    plain: bool = False,
    **options: Any,
) -> BertEncoder:
    """Make the encoder of an opened checkpoint and fill it; see `BertEncoder.from_preset`."""

    def make(config: BertConfig, is_filled: bool, **given: Any) -> BertEncoder:
        del is_filled  # `load` has seen to it: an encoder has no head beside it
        return encoder_class(config, **given)

    return opened.load(
        encoder_class,
        make,
        options,
        load_weights=load_weights,
        allow_missing=allow_missing,
        allow_unused=hugging_face.HEADS,  # an encoder does without every head there is
        plain=plain,
    )


def make_task(
    task_class: type[Task],
    encoder_class: type[BertEncoder],
    opened: Checkpoint,
    *,
    load_weights: bool = True,
    allow_missing: str | Sequence[str] = (),
    allow_unused: str | Sequence[str] = (),
    new_head: bool = False,
    plain: bool = False,
    dtype: Any = None,
    **options: Any,
) -> Any:
    """Make a task of an opened checkpoint and fill it; see `Task.from_preset`."""

    def make(config: BertConfig, is_filled: bool, **given: Any) -> Task:
        with to_be_filled() if is_filled else nullcontext():
            encoder = encoder_class(config, dtype=dtype)
        return task_class(encoder, **given)

    options = _described(task_class, options)
    return opened.load(
        task_class,
        make,
        options,
        load_weights=load_weights,
        allow_missing=allow_missing,
        allow_unused=allow_unused,
        new_head=new_head,
        plain=plain,
    )


def _described(task_class: type[Task], options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a task with the number of classes that its labels tell.

    Raises:
        ValueError: `labels` and `num_classes` contradict each other, or two labels are the same.
    """
    if not new_heads.is_described(options) or not new_heads.takes_labels(task_class):
        return options
    labels = class_names(options.get("num_classes"), options.get("labels"))
    given = {"labels": labels} if options.get("labels") is not None else {}
    return {**options, **given, "num_classes": len(labels)}


def open_checkpoint(
    handle: str | Path, *, allow_pickle: bool = False, trust: bool = False
) -> Checkpoint:
    """Finds out what a handle names, and reads its small files.

    Raises:
        ArtifactError: nothing that can be opened.
    """
    more = (
        *([tensors.PICKLE, f"[0-9]*_*/{tensors.PICKLE}"] if allow_pickle else []),
        *(tf_hub.FILES if trust else []),
    )
    directory = presets.resolve_handle(handle, (*_FILES, *more))
    if not directory.is_dir():
        raise ArtifactError(
            f"{str(handle)!r}: no such folder. Name a checkpoint's, or "
            f"hf://organisation/name{presets.nearest_name(os.fspath(handle))}"
        )
    exported = tokenizer_config.encoder_folder(directory)
    if not (directory / CONFIG).is_file() and tokenizer_config.is_one(exported):
        presets.resolve_handle(handle, tf_hub_export.WEIGHTS)  # a repository was asked for less
        return tf_hub_export.ExportedFolder.open(exported)
    if not (directory / CONFIG).is_file() and tf_hub.is_one(directory):
        return tf_hub.HubFolder.open(directory, trust=trust)
    if not (directory / CONFIG).is_file() and google_tf1.is_one(directory):
        return google_tf1.GoogleFolder.open(directory)
    if (directory / CONFIG).is_file() and not (directory / MANIFEST).is_file():
        values = file_io.read_object(directory / CONFIG)
        if keras_hub_preset.is_one(values):
            return keras_hub_preset.KerasHubFolder.open(directory)
    return Folder.open(directory, allow_pickle=allow_pickle)
