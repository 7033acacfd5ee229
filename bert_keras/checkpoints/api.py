"""Opening and writing checkpoint folders.

A folder of ours has Hugging Face's layout (`config.json`, `model.safetensors`) so that other tools
open it, and beside it `bert_keras.json` (see `manifest`): what only we need to know.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bert_keras import atomic, models
from bert_keras.checkpoints import hugging_face, tensors
from bert_keras.checkpoints import manifest as manifests
from bert_keras.checkpoints.format import Entry
from bert_keras.checkpoints.manifest import CONFIG, MANIFEST, WEIGHTS
from bert_keras.config import BertConfig
from bert_keras.errors import ArtifactError
from bert_keras.models import BertEncoder, Task
from bert_keras.presets import PRESETS

_PREFIX = "bert."


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
    class_name = type(model).__name__
    # As in Hugging Face's library: under a head the encoder has a name of its own.
    prefix = _PREFIX if isinstance(model, Task) else ""
    weights = tensors.serialized(
        {
            entry.tensor: entry.leaf.convert(tensors.finite(entry.variable))
            for entry in _entries(model, prefix=prefix)
        }
    )
    config = hugging_face.write_config(encoder.config, hugging_face.ARCHITECTURES[class_name])
    manifest = manifests.describe(class_name, model.options, encoder.config.to_dict(), weights)
    directory.mkdir(parents=True, exist_ok=True)
    atomic.write_bytes(directory / WEIGHTS, weights)
    atomic.write_bytes(directory / CONFIG, manifests.json_bytes(config))
    atomic.write_bytes(directory / MANIFEST, manifests.json_bytes(manifest))
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
    manifest = _Folder.open(directory).manifest
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
    folder = _Folder.open(handle)
    config = folder.config(allow_missing, load_weights)
    encoder = folder.build(BertEncoder, options, lambda given: BertEncoder(config, **given))
    if load_weights:
        # What the encoder does without: every head there is.
        heads = tuple(hugging_face.HEAD_PREFIXES)
        folder.load_weights(encoder, allow_missing, allow_unused=heads)
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
    folder = _Folder.open(handle)
    encoder = BertEncoder(folder.config(allow_missing, load_weights), dtype=dtype)
    task = folder.build(task_class, options, lambda given: task_class(encoder, **given))
    if load_weights:
        folder.load_weights(task, allow_missing, allow_unused)
    return task


@dataclasses.dataclass(frozen=True)
class _Folder:
    """A checkpoint folder, with its manifest where it is one of ours."""

    directory: Path
    manifest: dict[str, Any] | None

    @classmethod
    def open(cls, handle: str | Path) -> _Folder:
        directory = Path(handle)
        if not directory.is_dir():
            raise ArtifactError(
                f"{str(handle)!r} is neither a checkpoint folder nor a preset. "
                f"Presets: {', '.join(PRESETS)}"
            )
        return cls(directory, manifests.read(directory, hugging_face.ARCHITECTURES))

    def config(self, allow_missing: tuple[str, ...], load_weights: bool) -> BertConfig:
        """The config. If weights will be loaded, no memory is taken for sizes they have not."""
        if self.manifest is not None and not load_weights:
            return self._own_config(self.manifest)
        with tensors.TensorFile(self.directory / WEIGHTS, hugging_face.current_name) as file:
            if self.manifest is not None:
                config = self._own_config(self.manifest)
            else:
                path = self.directory / CONFIG
                pooler = any(name.endswith("pooler.dense.weight") for name in file.shapes)
                config = hugging_face.read_config(
                    manifests.read_json(path), path, pooler=pooler or "pooler" in allow_missing
                )
            prefix = _prefix_in(file)
            expected = {
                prefix + name: shape
                for path, name, shape in hugging_face.sizes(config)
                if not _begins(path, allow_missing)
            }
            found = {name: file.shapes[name] for name in expected if name in file.shapes}
            tensors.check(file.path, found, expected)
        return config

    def _own_config(self, manifest: dict[str, Any]) -> BertConfig:
        try:
            return BertConfig.from_dict(manifest["config"])
        except ValueError as error:
            raise ArtifactError(f"{self.directory / MANIFEST}: {error}") from error

    def build(
        self, model_class: type, options: dict[str, Any], make: Callable[[dict[str, Any]], Any]
    ) -> Any:
        """Makes the model, with the options it was saved with where it is of this class."""
        if self.manifest is None or self.manifest["class"] != model_class.__name__:
            return make(options)
        try:
            return make(self.manifest["options"] | options)
        except (TypeError, ValueError) as error:
            given = self.manifest["options"]
            raise ArtifactError(
                f"{self.directory / MANIFEST}: the options do not fit a {model_class.__name__}: "
                f"{error} Received: {given}" + (f" and {options}" if options else "")
            ) from error

    def load_weights(
        self,
        model: BertEncoder | Task,
        allow_missing: tuple[str, ...],
        allow_unused: tuple[str, ...],
    ) -> None:
        """Assigns every tensor of the file to its variable."""
        path = self.directory / WEIGHTS
        if self.manifest is not None:
            manifests.check_digest(path, self.manifest)
        with tensors.TensorFile(path, hugging_face.current_name) as file:
            entries = _entries(model, prefix=_prefix_in(file))
            unused = {name for name in file.shapes if _may_be_unused(name, allow_unused)}
            missing = {entry.tensor for entry in entries if _begins(entry.path, allow_missing)}
            expected = {entry.tensor: entry.shape for entry in entries}
            tensors.check(path, file.shapes, expected, missing, unused)
            for entry in entries:
                if entry.tensor in file.shapes:
                    entry.variable.assign(entry.leaf.convert(file.read(entry.tensor)))


def _prefix_in(file: tensors.TensorFile) -> str:
    """What the encoder's names begin with in this file."""
    return _PREFIX if any(name.startswith(_PREFIX) for name in file.shapes) else ""


def _entries(model: BertEncoder | Task, *, prefix: str) -> list[Entry]:
    """Variables with the tensors they are stored in; the encoder's names begin with `prefix`."""
    return hugging_face.TABLE.entries(model.weights, {"": prefix, **hugging_face.HEAD_PREFIXES})


def _may_be_unused(tensor: str, allowed: tuple[str, ...]) -> bool:
    name = tensor.removeprefix(_PREFIX)
    modules = hugging_face.TABLE.our_modules(name)
    return name in hugging_face.REDUNDANT or any(_begins(path, allowed) for path in modules)


def _begins(path: str, beginnings: tuple[str, ...]) -> bool:
    return any(path == start or path.startswith(f"{start}/") for start in beginnings)
