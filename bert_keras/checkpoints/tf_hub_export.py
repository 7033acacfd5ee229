"""Encoders that `export.tf_hub` wrote, read exactly as they were exported.

Such a SavedModel has the file `assets.extra/bert_keras.json` (`tokenizers.hub_files`) with the
class, its options, the config, the tokenizer's switches, and the variables by path:

- "variables": path -> position in the list `variables` of the SavedModel;
- "mlm_variables": likewise, of the masked language model's head in `mlm.variables`;
- "adapters": path of a kernel -> scale of its adapter's product;
- "quantization": path of a kernel or table -> type.

TensorFlow's reader of checkpoints reads the variables. Nothing else of the SavedModel is opened.
Nothing is guessed, so no `trust` is needed. Adapters are folded into their kernels and int8 weights
are floats again, as other libraries read them in a folder of ours.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bert_keras import atomic
from bert_keras.checkpoints import tensors
from bert_keras.checkpoints.checkpoint import Checkpoint, Shapes
from bert_keras.checkpoints.format import Leaf, Names
from bert_keras.checkpoints.manifest import json_bytes
from bert_keras.checkpoints.tf_hub import INDEX, VARIABLES
from bert_keras.checkpoints.tf_hub_variables import LISTS, ExportedVariables
from bert_keras.config import BertConfig
from bert_keras.errors import ArtifactError
from bert_keras.models import BertEncoder, MaskedLM, Pretrainer, Task
from bert_keras.models.lora import adapter_scales, quantised_weights
from bert_keras.tokenizers import Tokenizer, hub_files
from bert_keras.tokenizers.hub_files import TAKE_A_WHOLE_ONE

# Files of a repository: the small ones to know an export by, then the weights.
FILES = (*hub_files.FILES, f"encoder/{INDEX}")
WEIGHTS = tuple(f"{start}{VARIABLES}.data-*" for start in ("", "encoder/"))


def write(
    task: Task | BertEncoder,
    tokenizer: Tokenizer,
    vocabulary: bytes,
    variables: Mapping[str, Sequence[Any]],
    folder: Path,
) -> None:
    """Write the file into the folder of an exported encoder.

    Args:
        task: the exported model.
        tokenizer: of the model.
        vocabulary: the content of its vocab.txt.
        variables: the lists "variables" and, of a model with the head, "mlm_variables" of the
            SavedModel, each in its order.
        folder: of the SavedModel.
    """
    encoder = task.encoder if isinstance(task, Task) else task
    has_head = "mlm_variables" in variables
    options: dict[str, Any] = {"activation": None, "layer_norm_epsilon": None}
    if isinstance(task, MaskedLM):
        options = task.options
    parts = [encoder, *([task.mlm] if has_head and isinstance(task, MaskedLM | Pretrainer) else [])]
    weights = {id(weight) for part in parts for weight in part.weights}
    positions: dict[str, dict[str, int]] = {}
    for name, listed in variables.items():
        known = {path for paths in positions.values() for path in paths}
        # The seeds of dropout are variables too, and no weights.
        found = {v.path: i for i, v in enumerate(listed) if id(v) in weights}
        positions[name] = {path: i for path, i in found.items() if path not in known}
    changes = {
        "adapters": {k: v for part in parts for k, v in adapter_scales(part).items()},
        "quantization": {k: v for part in parts for k, v in quantised_weights(part).items()},
    }
    values = {
        "format": hub_files.FORMAT,
        "class": MaskedLM.__name__ if has_head else BertEncoder.__name__,
        "options": dict(options) if has_head else {},
        "config": encoder.config.to_dict(),
        "tokenizer": hub_files.describe(tokenizer, vocabulary),
        **positions,
        **{key: change for key, change in changes.items() if change},
    }
    path = folder / hub_files.FILE
    path.parent.mkdir(exist_ok=True)
    atomic.write_bytes(path, json_bytes(values))


@dataclasses.dataclass(frozen=True)
class ExportedFolder(Checkpoint):
    """The encoder of a pair that `export.tf_hub` wrote.

    Attributes:
        directory: where it is.
        values: the content of its `assets.extra/bert_keras.json`.
    """

    directory: Path
    values: dict[str, Any]

    @classmethod
    def open(cls, directory: Path) -> ExportedFolder:
        """Read the small file.

        Raises:
            ArtifactError: it is damaged, or contradicts itself.
        """
        path, values = directory / hub_files.FILE, hub_files.read(directory)
        classes = (BertEncoder.__name__, MaskedLM.__name__)
        if values.get("class") not in classes:
            raise ArtifactError(
                f"{path}: `class` must be {' or '.join(classes)}. "
                f"Received: {values.get('class')!r:.100}. {TAKE_A_WHOLE_ONE}"
            )
        if ("mlm_variables" in values) != (values["class"] == MaskedLM.__name__):
            raise ArtifactError(
                f"{path}: contradicts itself: class={values['class']!r}, and `mlm_variables` is "
                f"{'there' if 'mlm_variables' in values else 'missing'}. {TAKE_A_WHOLE_ONE}"
            )
        rules = {
            **dict.fromkeys(LISTS, (_is_position, "whole numbers of at least 0")),
            "adapters": (_is_scale, "finite numbers"),
            "quantization": (_is_name, "names of types"),
        }
        for key, (is_good, what) in rules.items():
            hub_files.require_object(path, key, values.setdefault(key, {}))
            bad = {name: value for name, value in values[key].items() if not is_good(value)}
            if bad:
                raise ArtifactError(
                    f"{path}: `{key}` must hold {what}. Received: {bad!r:.200}. {TAKE_A_WHOLE_ONE}"
                )
        return cls(directory, values)

    @property
    def _path(self) -> Path:
        return self.directory / hub_files.FILE

    @property
    def class_name(self) -> str:
        """The exported class; a `Pretrainer` is exported without its pair head, as a `MaskedLM`."""
        return self.values["class"]

    def head_class(self, class_name: str) -> str | None:
        """Return the exported class."""
        del class_name
        return self.class_name

    @property
    def is_told_by_tensors(self) -> bool:
        """False: the file tells the config."""
        return False

    def source(self, *, verify: bool = False) -> tensors.Tensors:
        """Open the variables."""
        del verify  # the reader checks what it reads
        return ExportedVariables(self.directory / VARIABLES, self._path, self.values)

    def read_config(self, shapes: Shapes, allow_missing: tuple[str, ...]) -> BertConfig:
        """Return the exported config."""
        del shapes, allow_missing
        try:
            return BertConfig.from_dict(self.values["config"])
        except ValueError as error:
            raise ArtifactError(f"{self._path}: {error} {TAKE_A_WHOLE_ONE}") from error

    def saved_options(
        self, class_name: str, config: BertConfig, shapes: Shapes
    ) -> tuple[dict[str, Any], Path]:
        """Return the options of the exported class."""
        del config, shapes
        return self.values["options"] if class_name == self.class_name else {}, self._path

    def names(self, class_name: str, config: BertConfig, shapes: Shapes) -> Names:
        """Return our own paths, which are the names here."""
        del class_name, config
        paths = [path.rpartition("/") for path in shapes]
        modules = {Names.generic(module): Names.generic(module) for module, _, _ in paths}
        return Names(modules, {name: Leaf(name) for _, _, name in paths}, "/")


def _is_position(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_scale(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _is_name(value: Any) -> bool:
    return isinstance(value, str)
