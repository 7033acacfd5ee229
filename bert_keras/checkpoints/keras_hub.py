"""KerasHub's backbones, in memory and as preset folders.

Reading a folder needs h5py alone, which Keras brings; making a backbone needs KerasHub.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from bert_keras.checkpoints import hdf5, tensors
from bert_keras.checkpoints.checkpoint import Checkpoint, Shapes
from bert_keras.checkpoints.format import Entry, Names
from bert_keras.checkpoints.keras_hub_layout import (
    FILE_LEAVES,
    LEAVES,
    POSITIONS,
    names_by,
    read_config_of,
)
from bert_keras.checkpoints.keras_hub_names import BACKBONES, Backbone
from bert_keras.checkpoints.manifest import CONFIG
from bert_keras.config import BertConfig
from bert_keras.errors import ArtifactError, UsageError
from bert_keras.models import BertEncoder, Task

WEIGHTS = "model.weights.h5"


@dataclasses.dataclass(frozen=True)
class KerasHubFolder(Checkpoint):
    """A preset folder of KerasHub: config.json and model.weights.h5.

    Attributes:
        directory: where it is.
        values: its config.json.
    """

    directory: Path
    values: dict[str, Any]

    @property
    def class_name(self) -> str:
        """Of the backbone: a task's head is not in these files."""
        return BertEncoder.__name__

    @property
    def is_told_by_tensors(self) -> bool:
        """All of it is in config.json."""
        return False

    def source(self, *, verify: bool = False) -> tensors.Tensors:
        """Opens the weights."""
        del verify  # the folder has no digests
        return hdf5.HDF5File(self.directory / WEIGHTS, _numbered)

    def read_config(self, shapes: Shapes, allow_missing: tuple[str, ...]) -> BertConfig:
        """The config, with the constants that their class has."""
        del shapes, allow_missing
        return self._config()

    def saved_options(
        self, class_name: str, config: BertConfig, shapes: Shapes
    ) -> tuple[dict[str, Any], Path]:
        """None."""
        del class_name, config, shapes
        return {}, self.directory / CONFIG

    def names(self, class_name: str, config: BertConfig, shapes: Shapes) -> Names:
        """By the backbone's rows."""
        del class_name, shapes
        backbone = self._backbone()
        modules = backbone.file_modules(config.table_size != config.hidden_size)
        return names_by(modules, FILE_LEAVES, config)

    def _backbone(self) -> Backbone:
        name = self.values.get("registered_name")
        for class_name, backbone in BACKBONES.items():
            if name == f"keras_hub>{class_name}":
                return backbone
        raise ArtifactError(
            f"{self.directory / CONFIG}: registered_name={name!r} is not one of "
            f"{', '.join(BACKBONES)}."
        )

    def _config(self) -> BertConfig:
        values = self.values.get("config")
        path = self.directory / CONFIG
        if not isinstance(values, dict):
            raise ArtifactError(f"{path}: no config in it.")
        return read_config_of(self._backbone(), values, str(path))


def is_one(values: dict[str, Any]) -> bool:
    """Whether a config.json is KerasHub's."""
    return str(values.get("registered_name", "")).startswith("keras_hub>")


def from_keras_hub(backbone: Any, **options: Any) -> BertEncoder:
    """Makes an encoder of a KerasHub backbone in memory, with the same weights.

    Args:
        backbone: a `BertBackbone`, `RobertaBackbone`, `XLMRobertaBackbone`, `DistilBertBackbone`,
            `AlbertBackbone` or `ElectraBackbone`.
        options: of `BertEncoder`.

    Raises:
        UsageError: another class, or one with values that we have not.
    """
    name = type(backbone).__name__
    if name not in BACKBONES:
        raise UsageError(f"Expected one of {', '.join(BACKBONES)}. Received: {name}")
    try:
        config = read_config_of(BACKBONES[name], backbone.get_config(), name)
    except ArtifactError as error:
        raise UsageError(str(error)) from error
    encoder = BertEncoder(config, **options)
    theirs = {variable.path: variable for variable in backbone.weights}
    names = names_by(BACKBONES[name].modules, LEAVES, config)
    for entry in _entries(names, encoder):
        entry.variable.assign(entry.leaf.ours(tensors.finite(theirs[entry.tensor])))
    names.clear(encoder.weights)
    return encoder


def to_keras_hub(encoder: BertEncoder) -> Any:
    """Makes a KerasHub backbone of an encoder, with the same outputs.

    Their pooler, which not every encoder of ours has, is then all zeros.

    Raises:
        UsageError: they have no such model.
        ImportError: KerasHub is not installed.
    """
    try:
        import keras_hub
    except ImportError as error:
        raise ImportError("A backbone needs KerasHub: pip install keras-hub") from error
    config = encoder.config
    name, backbone = next(
        (name, each) for name, each in BACKBONES.items() if each.family == config.family
    )
    values = {theirs: getattr(config, ours) for ours, theirs in backbone.keys.items()}
    told = read_config_of(backbone, values, name).to_dict()
    free = ("attention_dropout", "initializer_range", "pooler")
    differ = {
        key: value
        for key, value in config.to_dict().items()
        if key not in free and told[key] != value
    }
    if differ:
        raise UsageError(f"KerasHub's {name} is always otherwise: {differ}")
    made = getattr(keras_hub.models, name)(**values, dtype=encoder.dtype_policy)
    entries = _entries(names_by(backbone.modules, LEAVES, config), encoder)
    arrays = {entry.tensor: entry.leaf.theirs(tensors.finite(entry.variable)) for entry in entries}
    if config.family == "roberta":  # their positions hold the one segment that they have not
        (position,) = (entry.tensor for entry in entries if entry.path == POSITIONS)
        segment: Any = encoder.embeddings.segment
        arrays[position] = arrays[position] + tensors.finite(segment.embeddings)[0]
    for variable in made.weights:
        variable.assign(arrays.get(variable.path, np.zeros(variable.shape)))
    return made


def save(model: BertEncoder | Task, directory: Path) -> None:
    """Writes the encoder as a preset folder of KerasHub.

    Raises:
        UsageError: a task, or an encoder that they have not.
    """
    if not isinstance(model, BertEncoder):
        raise UsageError(
            f"Only encoders can be written for KerasHub. Received: {type(model).__name__}. "
            "Write task.encoder."
        )
    to_keras_hub(model).save_to_preset(str(directory))


def _entries(names: Names, encoder: BertEncoder) -> list[Entry]:
    """The encoder's variables with the paths of those of a backbone in memory."""
    return names.entries([weight for weight in encoder.weights if names.knows(weight.path)])


def _numbered(dataset: str) -> str:
    """A dataset's name in which the first block has a number as the others have."""
    return dataset.replace("layers/transformer_encoder/", "layers/transformer_encoder_0/")
