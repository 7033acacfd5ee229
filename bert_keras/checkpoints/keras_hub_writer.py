"""KerasHub's preset folders, written without KerasHub: its model would be another in memory."""

from __future__ import annotations

import itertools
import math
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np

from bert_keras.checkpoints import hdf5, transfer
from bert_keras.checkpoints import keras_hub_tasks as tasks
from bert_keras.checkpoints import manifest as manifests
from bert_keras.checkpoints.format import Entry
from bert_keras.checkpoints.keras_hub_folder import FIRST_BLOCK, WEIGHTS, file_names
from bert_keras.checkpoints.keras_hub_target import Target
from bert_keras.checkpoints.manifest import CONFIG
from bert_keras.models import BertEncoder, Task
from bert_keras.models.lora import plain_weights

_HEAD = f"{tasks.WEIGHTS}/"  # what the names of its datasets begin with in our tables
# Theirs come compiled, and are not opened without: steps and rate of an Adam before its first step.
_OPTIMIZER: tuple[hdf5.Dataset, ...] = (
    ("optimizer/vars/0", (), [(0, np.array(0, "int32"))]),
    ("optimizer/vars/1", (), [(0, np.array(5e-5, "float32"))]),
)
_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def save(model: BertEncoder | Task, directory: Path) -> None:
    """Writes a model as a preset folder of KerasHub.

    Raises:
        UsageError: they have no such model.
        NumericError: a weight is not finite. Nothing is written.
    """
    target = Target.of(model)
    names = file_names(target.backbone, target.head, target.config, target.segment)
    weights = plain_weights(model)
    entries = names.entries([weight for weight in weights if names.knows(weight.path)])
    transfer.check(entries)
    heads = [entry for entry in entries if entry.tensor.startswith(_HEAD)]
    others = [entry for entry in entries if not entry.tensor.startswith(_HEAD)]
    texts = _texts(model, target, sum(math.prod(weight.shape) for weight in weights))
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory, prefix=".tmp-") as folder:
        datasets = itertools.chain(_zeros(target), _datasets(others, directory))
        hdf5.write(Path(folder, WEIGHTS), datasets)
        if heads:
            datasets = itertools.chain(_OPTIMIZER, _datasets(heads, directory))
            hdf5.write(Path(folder, tasks.WEIGHTS), datasets)
        for name, values in texts.items():
            Path(folder, name).write_bytes(manifests.json_bytes(values))
        # Another model's head must not stay beside this one, nor its config beside these weights.
        for name in (CONFIG, tasks.TASK, tasks.WEIGHTS):
            (directory / name).unlink(missing_ok=True)
        for path in sorted(Path(folder).iterdir(), key=lambda path: path.name == CONFIG):
            path.replace(directory / path.name)


def _datasets(entries: list[Entry], directory: Path) -> Iterator[hdf5.Dataset]:
    for entry in transfer.each(entries, f"writing {directory}"):
        # The first of their blocks has no number.
        name = entry.tensor.removeprefix(_HEAD).replace(FIRST_BLOCK[1], FIRST_BLOCK[0])
        yield name, entry.shape, transfer.parts(entry)


def _zeros(target: Target) -> Iterator[hdf5.Dataset]:
    """Their pooler, which not every encoder of ours has."""
    layer = target.backbone.file_modules(target.config).get("pooler/dense")
    size = target.config.hidden_size
    if layer and not target.config.pooler:
        for number, shape in enumerate([(size, size), (size,)]):
            yield f"{layer}/vars/{number}", shape, [(0, np.zeros(shape, "float32"))]


def _texts(model: BertEncoder | Task, target: Target, parameters: int) -> dict[str, Any]:
    """The JSON files, as their library writes them."""
    # Not by `serialize_keras_object`, which imports TensorFlow.
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
    if not isinstance(model, Task):
        return {CONFIG: backbone, tasks.METADATA: metadata}
    config = {"backbone": backbone, "preprocessor": None, **target.arguments}
    return {
        CONFIG: backbone,
        tasks.METADATA: {**metadata, **tasks.extra_of(model)},
        tasks.TASK: _described(target.task_name, package, config),
    }


def _described(name: str, package: str, config: dict[str, Any]) -> dict[str, Any]:
    """A class of theirs and its arguments, as Keras writes an object."""
    return {
        "module": f"keras_hub.src.models.{package}.{_snake(name)}",
        "class_name": name,
        "config": {"name": _snake(name), **config},
        "registered_name": f"keras_hub>{name}",
    }


def _snake(name: str) -> str:
    return _WORDS.sub("_", name).lower()
