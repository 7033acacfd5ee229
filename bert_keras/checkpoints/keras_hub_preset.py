"""KerasHub's preset folders, read and written without KerasHub."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from bert_keras import file_io
from bert_keras.checkpoints import keras_hub as tasks
from bert_keras.checkpoints import manifest as manifests
from bert_keras.checkpoints import streaming, tensors
from bert_keras.checkpoints.checkpoint import Checkpoint, Shapes, is_task
from bert_keras.checkpoints.keras_hub import Target
from bert_keras.checkpoints.keras_hub_names import (
    BACKBONES,
    FILE_LEAVES,
    Backbone,
    Head,
    names_by,
    read_config_of,
)
from bert_keras.checkpoints.manifest import CONFIG
from bert_keras.checkpoints.name_mapping import NameMap, TensorSpec
from bert_keras.checkpoints.wrapped_names import unwrapped
from bert_keras.config import BertConfig
from bert_keras.errors import COPY_AGAIN, ArtifactError
from bert_keras.layers.state import plain_weights
from bert_keras.task_names import ENCODER

if TYPE_CHECKING:
    from bert_keras.models import BertEncoder, Task

WEIGHTS = "model.weights.h5"
# Name of the first block in a file, which has no number, and its name in the pattern of our tables.
FIRST_BLOCK = ("layers/transformer_encoder/", "layers/transformer_encoder_0/")
# Keys that Keras writes around the arguments of an object, in KerasHub's config.json and task.json.
_KERAS_OBJECT = (
    *("module", "class_name", "config", "registered_name", "build_config", "compile_config"),
    *("assets", "weights"),  # in KerasHub's first presets
)
# Files that a preset folder may have beside config.json.
FILES = (WEIGHTS, tasks.TASK, tasks.WEIGHTS, tasks.METADATA)


@dataclasses.dataclass(frozen=True)
class KerasHubFolder(Checkpoint):
    """A preset folder of KerasHub: config.json, model.weights.h5 and perhaps the files of a task.

    Attributes:
        directory: path of the folder.
        values: parsed config.json.
        task: parsed task.json; {} if there is none.
    """

    directory: Path
    values: dict[str, Any]
    task: dict[str, Any]

    @classmethod
    def open(cls, directory: Path) -> KerasHubFolder:
        """Read the JSON files.

        Raises:
            ArtifactError: if a file is damaged, or the files contradict each other.
        """
        path = directory / tasks.TASK
        values = file_io.read_object(directory / CONFIG)
        _check_object(directory / CONFIG, values)
        task = file_io.read_object(path) if path.is_file() else {}
        opened = cls(directory, values, task)
        if opened._head():  # the task.json of an unknown task is not read
            _check_object(path, task)
            opened._check_agreement(path)
        return opened

    def _check_agreement(self, path: Path) -> None:
        """Compare the backbone in task.json with config.json.

        Raises:
            ArtifactError: if they differ in a value that is read.
        """
        inner = self.task.get("config")
        inner = inner.get("backbone") if isinstance(inner, dict) else None
        theirs = inner.get("config") if isinstance(inner, dict) else None
        ours = self.values.get("config")
        if not isinstance(theirs, dict) or not isinstance(ours, dict):
            return
        for key in self._backbone().keys.values():
            if key in theirs and theirs[key] != ours.get(key):
                raise ArtifactError(
                    f"{path}: contradicts {CONFIG}: {key} is {theirs[key]!r:.100} here, "
                    f"{ours.get(key)!r:.100} there. Take both files from one save."
                )

    @property
    def class_name(self) -> str:
        """Name of our class: that of the task if there is one, else of an encoder."""
        head = self._head()
        if self.task and head is None:
            raise ArtifactError(
                f"{self.directory / tasks.TASK}: registered_name="
                f"{self.task.get('registered_name')!r} is not one that can be opened. "
                "Open the encoder alone: BertEncoder.from_preset."
            )
        return head.class_name if head else ENCODER

    @property
    def needs_tensor_shapes(self) -> bool:
        """True if there are weights: their shapes are compared with the config."""
        return (self.directory / WEIGHTS).is_file()

    def source(self, *, verify: bool = False) -> tensors.Tensors:
        """Open the weights of the backbone, and those of the head if it is known."""
        del verify  # KerasHub writes no digests
        opened_file = streaming.HDF5File(self.directory / WEIGHTS, _numbered)
        table = self._backbone().file_modules(self._config())["embeddings/token"]
        backbone = unwrapped(opened_file, f"{table}/{FILE_LEAVES['embeddings'].name}", (), "/")
        path = self.directory / tasks.WEIGHTS
        if not (self._head() and path.is_file()):
            return backbone
        with ExitStack() as opened:
            opened.push(backbone)
            head = streaming.HDF5File(path, f"{path.name}/{{}}".format)
            opened.pop_all()
        return tensors.JoinedFiles(self.directory, (backbone, head))

    def read_config(self, shapes: Shapes, allow_missing: tuple[str, ...]) -> BertConfig:
        """Return the config of the encoder."""
        del shapes, allow_missing
        return self._config()

    def saved_options(
        self, class_name: str, config: BertConfig, shapes: Shapes
    ) -> tuple[dict[str, Any], Path]:
        """Return the options of the folder's task, or for another task those of a new head."""
        del shapes
        head, path = self._head(), self.directory / tasks.TASK
        if head is None or head.class_name != class_name:
            options = tasks.options_of_a_new_head(self._backbone(), class_name, config)
            return options, self.directory / CONFIG
        values = self.task.get("config")
        if not isinstance(values, dict):
            raise ArtifactError(f"{path}: no config in it. {COPY_AGAIN}")
        options = tasks.read_options(head, values, config, str(path))
        return {**options, **tasks.read_extra(self.directory)}, path

    def names(self, class_name: str, config: BertConfig, shapes: Shapes) -> NameMap:
        """Return the dataset names of the backbone and of the folder's head."""
        del class_name
        names = file_names(self._backbone(), self._head(), config)
        optimizer = f"{tasks.WEIGHTS}/optimizer/"  # KerasHub stores it together with the head
        redundant = [name for name in shapes if name.startswith(optimizer)]
        return dataclasses.replace(names, redundant=redundant)

    def _backbone(self) -> Backbone:
        """Return the backbone class that config.json states.

        Raises:
            ArtifactError: if it is not known.
        """
        name = tasks.class_of(self.values)
        if name not in BACKBONES:
            raise ArtifactError(
                f"{self.directory / CONFIG}: registered_name="
                f"{self.values.get('registered_name')!r} is not one of {', '.join(BACKBONES)}, "
                "which can be opened."
            )
        return BACKBONES[name]

    def _head(self) -> Head | None:
        """Return the head in task.json; None without a task that is known for this backbone."""
        task = tasks.find_task(tasks.class_of(self.task))
        return task[1] if task and task[0] == tasks.class_of(self.values) else None

    def _config(self) -> BertConfig:
        """Translate config.json.

        Raises:
            ArtifactError: if a value is missing or not supported.
        """
        values = self.values.get("config")
        path = self.directory / CONFIG
        if not isinstance(values, dict):
            raise ArtifactError(f"{path}: no config in it. {COPY_AGAIN}")
        return read_config_of(self._backbone(), values, str(path))


def _check_object(path: Path, values: dict[str, Any]) -> None:
    """Check the keys that Keras writes around the arguments of an object.

    Raises:
        ArtifactError: if a key is unknown, or `class_name` contradicts `registered_name`.
    """
    file_io.refuse_unknown_keys(path, values, _KERAS_OBJECT)
    name = values.get("class_name")
    if name not in (None, tasks.class_of(values)):
        raise ArtifactError(
            f"{path}: contradicts itself: class_name={name!r:.100}, "
            f"registered_name={values.get('registered_name')!r:.100}. {COPY_AGAIN}"
        )


def is_one(values: dict[str, Any]) -> bool:
    """Return whether a parsed config.json comes from KerasHub."""
    return tasks.class_of(values) is not None


def file_names(
    backbone: Backbone, head: Head | None, config: BertConfig, segment: np.ndarray | None = None
) -> NameMap:
    """Return the dataset names of a model's variables; `names_by` describes `segment`."""
    names = names_by(backbone.file_modules(config), FILE_LEAVES, config, segment)
    return tasks.with_head(names, head, file=True) if head else names


def _numbered(dataset: str) -> str:
    """Return a dataset name with the number 0 for the first block."""
    return dataset.replace(*FIRST_BLOCK)


# === Writing ===


_HEAD = f"{tasks.WEIGHTS}/"  # prefix of the names of its datasets in our tables
# KerasHub compiles its tasks and opens no weights file without an optimizer: the step count and
# the learning rate of an Adam before its first step.
_OPTIMIZER: tuple[streaming.Dataset, ...] = (
    ("optimizer/vars/0", (), [(0, np.array(0, "int32"))]),
    ("optimizer/vars/1", (), [(0, np.array(5e-5, "float32"))]),
)
_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def save(model: BertEncoder | Task, directory: Path) -> None:
    """Write a model as a preset folder of KerasHub.

    Raises:
        UsageError: if KerasHub has no such model.
        NumericError: if a weight is not finite. Nothing is written.
    """
    target = Target.of(model)
    names = file_names(target.backbone, target.head, target.config, target.segment)
    weights = plain_weights(model)
    specs = names.tensor_specs([weight for weight in weights if names.knows(weight.path)])
    streaming.check(specs)
    heads = [spec for spec in specs if spec.tensor.startswith(_HEAD)]
    others = [spec for spec in specs if not spec.tensor.startswith(_HEAD)]
    texts = _texts(model, target, sum(math.prod(weight.shape) for weight in weights))
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory, prefix=".tmp-") as folder:
        datasets = itertools.chain(_zeros(target), _datasets(others, directory))
        streaming.write_hdf5(Path(folder, WEIGHTS), datasets)
        if heads:
            datasets = itertools.chain(_OPTIMIZER, _datasets(heads, directory))
            streaming.write_hdf5(Path(folder, tasks.WEIGHTS), datasets)
        for name, values in texts.items():
            Path(folder, name).write_bytes(manifests.json_bytes(values))
        # The head and the config of an earlier model must not stay beside these weights.
        for name in (CONFIG, tasks.TASK, tasks.WEIGHTS):
            (directory / name).unlink(missing_ok=True)
        for path in sorted(Path(folder).iterdir(), key=lambda path: path.name == CONFIG):
            path.replace(directory / path.name)


def _datasets(specs: list[TensorSpec], directory: Path) -> Iterator[streaming.Dataset]:
    """Yield the datasets of variables: name, shape, and the values in parts."""
    for spec in streaming.with_progress(specs, f"writing {directory}"):
        # The first block has no number in a file.
        name = spec.tensor.removeprefix(_HEAD).replace(FIRST_BLOCK[1], FIRST_BLOCK[0])
        yield name, spec.shape, streaming.parts(spec)


def _zeros(target: Target) -> Iterator[streaming.Dataset]:
    """Yield a pooler of zeros, if KerasHub's backbone has a pooler and our encoder has none."""
    layer = target.backbone.file_modules(target.config).get("pooler/dense")
    size = target.config.hidden_size
    if layer and not target.config.pooler:
        for number, shape in enumerate([(size, size), (size,)]):
            yield f"{layer}/vars/{number}", shape, [(0, np.zeros(shape, "float32"))]


def _texts(model: BertEncoder | Task, target: Target, parameters: int) -> dict[str, Any]:
    """Return the content of the JSON files, by file name.

    Args:
        model: our model.
        target: its KerasHub classes and arguments.
        parameters: number of weights.
    """
    # Keras's `serialize_keras_object` would import TensorFlow.
    policy = {
        "module": "keras",
        "class_name": "DTypePolicy",
        "config": {"name": model.dtype_policy.name},
        "registered_name": None,
    }
    package = _snake(target.name.removesuffix("Backbone"))
    backbone = _described(target.name, package, {"dtype": policy, **target.values})
    metadata = {
        "keras_version": keras.version(),
        "parameter_count": parameters,
        "tasks": sorted(target.backbone.heads),
    }
    if not is_task(model):
        return {CONFIG: backbone, tasks.METADATA: metadata}
    config = {"backbone": backbone, "preprocessor": None, **target.arguments}
    return {
        CONFIG: backbone,
        tasks.METADATA: {**metadata, **tasks.extra_of(model)},
        tasks.TASK: _described(target.task_name, package, config),
    }


def _described(name: str, package: str, config: dict[str, Any]) -> dict[str, Any]:
    """Return a KerasHub class and its arguments, as Keras serialises an object."""
    return {
        "module": f"keras_hub.src.models.{package}.{_snake(name)}",
        "class_name": name,
        "config": {"name": _snake(name), **config},
        "registered_name": f"keras_hub>{name}",
    }


def _snake(name: str) -> str:
    """Return a class name in snake case."""
    return _WORDS.sub("_", name).lower()
