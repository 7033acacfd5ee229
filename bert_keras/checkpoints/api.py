"""Opening and writing checkpoint folders.

A folder of ours has Hugging Face's layout (`config.json`, `model.safetensors`) so that other tools
open it, and beside it `bert_keras.json` (see `manifest`): what only we need to know.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from bert_keras import atomic, handles, models, strict_json
from bert_keras.checkpoints import (
    google_tf1,
    hugging_face,
    keras_hub_folder,
    keras_hub_writer,
    safetensors_file,
    sentence_transformers,
    state_file,
    tensors,
    tf_hub,
    transfer,
)
from bert_keras.checkpoints import manifest as manifests
from bert_keras.checkpoints.checkpoint import Checkpoint
from bert_keras.checkpoints.folder import Folder
from bert_keras.checkpoints.manifest import CONFIG, MANIFEST, STATE_WEIGHTS, WEIGHTS
from bert_keras.config import BertConfig
from bert_keras.errors import ArtifactError, UsageError
from bert_keras.layers.state import get_state
from bert_keras.models import BertEncoder, SentenceEncoder, Task
from bert_keras.models.lora import plain_weights
from bert_keras.presets import PRESETS

# What a repository is asked for. A pickle must be asked for in words.
_FILES = (
    *(CONFIG, MANIFEST, "model*.safetensors", STATE_WEIGHTS),
    *(tensors.INDEX, *keras_hub_folder.FILES),
    *(sentence_transformers.MODULES, sentence_transformers.POOLING, tf_hub.INDEX),
)


def save_checkpoint(
    model: BertEncoder | Task,
    directory: str | Path,
    format: str = "hugging_face",  # noqa: A002
) -> Path:
    """Write an encoder or a task as a checkpoint folder.

    Adapters are folded into their kernels, and weights quantised to int8 are written as floats, so
    that every library opens the folder and answers alike. "hugging_face" also keeps what our own
    `from_preset` needs to open the same model: its adapters, quantised weights and frozen parts
    (`bert_keras.safetensors` and "state" in `bert_keras.json`). The other formats have no place for
    these. The optimizer is kept by `model.save` and by `TrainingCheckpoints`.

    Args:
        model: what to write.
        directory: made when absent; files of the same names are replaced, one by one and whole.
        format: "hugging_face", also our own; "google_tf1", the original one of BERT, ALBERT and
            ELECTRA; "keras_hub", a preset of KerasHub.

    Returns:
        The folder.

    Raises:
        UsageError: the format has no such model, or weights are quantised to another type.
        NumericError: a weight is not finite. Nothing is written.
    """
    writer_of(format)(model, Path(directory))
    return Path(directory)


def _save_folder(model: BertEncoder | Task, directory: Path) -> None:
    """Hugging Face's layout, and the manifest."""
    encoder = model.encoder if isinstance(model, Task) else model
    class_name, options = type(model).__name__, model.options
    family = hugging_face.family_for(encoder.config, class_name, options)
    has_head = isinstance(model, Task) and bool(model.head_layers)
    names = hugging_face.names_of(family, prefixed=has_head)
    entries = names.entries(plain_weights(model))
    state = get_state(model)
    transfer.check([*entries, *state_file.entries(model, state)])
    config = hugging_face.write_config(encoder.config, class_name, options)
    directory.mkdir(parents=True, exist_ok=True)
    digest = safetensors_file.write(directory / WEIGHTS, entries)
    state_digest = state_file.write(model, state, directory)
    sizes = encoder.config.to_dict()
    manifest = manifests.describe(class_name, options, sizes, digest, state, state_digest)
    atomic.write_bytes(directory / CONFIG, manifests.json_bytes(config))
    if isinstance(model, SentenceEncoder):
        sizes = encoder.config.hidden_size, encoder.config.max_positions
        sentence_transformers.write(directory, model.options, *sizes)
    atomic.write_bytes(directory / MANIFEST, manifests.json_bytes(manifest))


_FORMATS = {
    "hugging_face": _save_folder,
    "google_tf1": google_tf1.save,
    "keras_hub": keras_hub_writer.save,
}


def _nearest(name: str) -> str:
    """How the message of an unknown name ends: with presets that are meant, if any look like it."""
    near = " or ".join(map(repr, get_close_matches(name, PRESETS)))
    return f"; or a preset for `from_preset`, such as {near}?" if near else "."


def writer_of(format: str) -> Callable[[Any, Path], None]:  # noqa: A002
    """What writes a model into a folder in this format.

    Raises:
        UsageError: no such format.
    """
    if format not in _FORMATS:
        raise UsageError(f"format must be one of {', '.join(_FORMATS)}. Received: {format!r}")
    return _FORMATS[format]


def load_checkpoint(
    handle: str | Path, *, allow_pickle: bool = False, trust: bool = False, **options: Any
) -> BertEncoder | Task:
    """Opens a checkpoint as the class it was written from.

    Args:
        handle: see `BertEncoder.from_preset`; not a name of `PRESETS`.
        allow_pickle: see `BertEncoder.from_preset`.
        trust: see `BertEncoder.from_preset`.
        options: those of the class's own `from_preset`, `plain` among them.

    Raises:
        ArtifactError: it cannot be read, is damaged, or is of a class we have not.
    """
    opened = open_checkpoint(handle, allow_pickle=allow_pickle, trust=trust)
    return load_opened(opened, **options)


def load_opened(opened: Checkpoint, **options: Any) -> BertEncoder | Task:
    """As `load_checkpoint`, of what is open already."""
    class_name = opened.class_name
    if class_name == BertEncoder.__name__:
        return _encoder_of(opened, **options)
    return _task_of(opened, getattr(models, class_name), **options)


def load_encoder(
    handle: str | Path,
    *,
    allow_pickle: bool = False,
    trust: bool = False,
    load_weights: bool = True,
    allow_missing: tuple[str, ...] = (),
    plain: bool = False,
    **options: Any,
) -> BertEncoder:
    """See `BertEncoder.from_preset`."""
    if handle in PRESETS:
        return BertEncoder(PRESETS[str(handle)], **options)
    opened = open_checkpoint(handle, allow_pickle=allow_pickle, trust=trust)
    return _encoder_of(
        opened, load_weights=load_weights, allow_missing=allow_missing, plain=plain, **options
    )


def load_task(
    task_class: type[Task],
    handle: str | Path,
    *,
    allow_pickle: bool = False,
    trust: bool = False,
    load_weights: bool = True,
    allow_missing: tuple[str, ...] = (),
    allow_unused: tuple[str, ...] = (),
    plain: bool = False,
    dtype: Any = None,
    **options: Any,
) -> Any:
    """See `Task.from_preset`."""
    if handle in PRESETS:
        return task_class(BertEncoder(PRESETS[str(handle)], dtype=dtype), **options)
    return _task_of(
        open_checkpoint(handle, allow_pickle=allow_pickle, trust=trust),
        task_class,
        load_weights=load_weights,
        allow_missing=allow_missing,
        allow_unused=allow_unused,
        plain=plain,
        dtype=dtype,
        **options,
    )


def _encoder_of(
    opened: Checkpoint,
    *,
    load_weights: bool = True,
    allow_missing: tuple[str, ...] = (),
    plain: bool = False,
    **options: Any,
) -> BertEncoder:
    return opened.load(
        BertEncoder,
        BertEncoder,
        options,
        load_weights=load_weights,
        allow_missing=allow_missing,
        allow_unused=hugging_face.HEADS,  # an encoder does without every head there is
        plain=plain,
    )


def _task_of(
    opened: Checkpoint,
    task_class: type[Task],
    *,
    load_weights: bool = True,
    allow_missing: tuple[str, ...] = (),
    allow_unused: tuple[str, ...] = (),
    plain: bool = False,
    dtype: Any = None,
    **options: Any,
) -> Any:
    def make(config: BertConfig, **given: Any) -> Task:
        return task_class(BertEncoder(config, dtype=dtype), **given)

    return opened.load(
        task_class,
        make,
        options,
        load_weights=load_weights,
        allow_missing=allow_missing,
        allow_unused=allow_unused,
        plain=plain,
    )


def open_checkpoint(
    handle: str | Path, *, allow_pickle: bool = False, trust: bool = False
) -> Checkpoint:
    """Finds out what a handle names, and reads its small files.

    Raises:
        ArtifactError: nothing that can be opened.
    """
    more = (*([tensors.PICKLE] if allow_pickle else []), *(tf_hub.FILES if trust else []))
    directory = handles.resolve(handle, (*_FILES, *more))
    if not directory.is_dir():
        raise ArtifactError(
            f"{str(handle)!r} names sizes alone, without weights: only `from_preset` takes it."
            if handle in PRESETS
            else f"{str(handle)!r}: no such folder. Name a checkpoint's, or "
            f"hf://organisation/name{_nearest(str(handle))}"
        )
    if not (directory / CONFIG).is_file() and tf_hub.is_one(directory):
        return tf_hub.HubFolder.open(directory, trust=trust)
    if not (directory / CONFIG).is_file() and google_tf1.is_one(directory):
        return google_tf1.GoogleFolder.open(directory)
    if (directory / CONFIG).is_file() and not (directory / MANIFEST).is_file():
        values = strict_json.read_object(directory / CONFIG)
        if keras_hub_folder.is_one(values):
            return keras_hub_folder.KerasHubFolder.open(directory)
    return Folder.open(directory, allow_pickle=allow_pickle)
