"""Encoders that `export.tf_hub` wrote for TensorFlow Hub, read back with their exact config."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bert_keras import features, file_io
from bert_keras.checkpoints import tensors
from bert_keras.checkpoints.checkpoint import Checkpoint, Shapes, encoder_of
from bert_keras.checkpoints.hugging_face_family import task_format
from bert_keras.checkpoints.manifest import json_bytes
from bert_keras.checkpoints.name_mapping import LeafRule, NameMap
from bert_keras.checkpoints.tf_checkpoint import VariableFile
from bert_keras.checkpoints.tf_hub import INDEX, VARIABLES
from bert_keras.config import BertConfig
from bert_keras.errors import ArtifactError
from bert_keras.layers.state import adapter_scales, quantised_weights
from bert_keras.task_names import ENCODER
from bert_keras.tokenizers import Tokenizer, exported_tokenizer
from bert_keras.tokenizers.exported_tokenizer import TAKE_A_WHOLE_ONE

if TYPE_CHECKING:
    from bert_keras.models import BertEncoder, Task

# Key of the JSON file -> names of attributes from the root of the SavedModel to a variable list.
LISTS = {"variables": ("variables",), "mlm_variables": ("mlm", "variables")}
_LORA = ("lora_kernel_a", "lora_kernel_b")
_SCALE = "_scale"
_READABLE = "int8"


class ExportedVariables(VariableFile):
    """The weights of an exported encoder as plain floats, named by our variable paths.

    Adapters are merged into their kernels, and int8 weights are divided by their scales.

    Args:
        path: prefix of the checkpoint.
        file: path of the JSON file, for messages.
        values: its checked content. "variables" and "mlm_variables": position of each variable in
            that list of the SavedModel, by our path. "adapters": scale of the adapter, by the
            kernel's path. "quantization": "int8", by the weight's path.

    Attributes:
        shapes: shape of each weight by our path, without adapters and scales, which are merged.

    Raises:
        ArtifactError: if the checkpoint is damaged, or the file belongs to another one.
        ImportError: if TensorFlow is not installed.
    """

    def __init__(self, path: Path, file: Path, values: Mapping[str, Any]):
        super().__init__(path)
        graph = self.objects()
        key_of_path: dict[str, str] = {}
        for name, attributes in LISTS.items():
            key_of_position = _listed_keys(graph, attributes) if values[name] else {}
            for variable, position in values[name].items():
                key = key_of_position.get(position)
                if key is None or key not in self._stored:
                    raise ArtifactError(
                        f"{file}: {variable} is number {position} of {'.'.join(attributes)}, which "
                        f"{path} does not have. {TAKE_A_WHOLE_ONE}"
                    )
                key_of_path[variable] = key
        if len({*key_of_path.values()}) < len(key_of_path):
            raise ArtifactError(f"{file}: two paths name one variable. {TAKE_A_WHOLE_ONE}")
        self._file, self._keys = file, key_of_path
        self._adapters, self._quantization = values["adapters"], values["quantization"]
        if unreadable := {k: v for k, v in self._quantization.items() if v != _READABLE}:
            name, kind = next(iter(unreadable.items()))
            raise ArtifactError(
                f"{path}: only int8 weights can be read as floats. Received: {kind} of {name}. "
                "Open the folder that `save_to_preset` wrote of this model."
            )
        merged = {part for name in self._adapters for part in _lora(name)}
        merged |= {name + _SCALE for name in self._quantization}
        self._all_shapes = {name: tuple(self._stored[key]) for name, key in key_of_path.items()}
        self.shapes = {n: shape for n, shape in self._all_shapes.items() if n not in merged}
        for name in {*self._adapters, *self._quantization}:
            self._check_parts(name)

    def _check_parts(self, name: str) -> None:
        """Compare the shape of a weight with the shapes of its adapter and of its scales.

        Raises:
            ArtifactError: if they do not fit.
        """
        shape = self.shapes.get(name, ())
        expected: dict[str, tuple[int | None, ...]] = {}
        if name in self._adapters:
            first, second = _lora(name)
            rank = (self._all_shapes.get(first) or (0,))[-1]
            expected |= {first: (*shape[:1], rank), second: (rank, *shape[1:])}
        if name in self._quantization:
            expected[name + _SCALE] = shape[1:] if _is_kernel(name) else shape[:1]
        received = {part: self._all_shapes.get(part) for part in expected}
        if len(shape) != 2 or received != expected:
            raise ArtifactError(
                f"{self._file}: the adapter or the scales of {name} do not fit its shape "
                f"{list(shape)}. Received: {received!r:.300}. {TAKE_A_WHOLE_ONE}"
            )

    def rows(self, name: str) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the values of one weight, a large one in parts: (index of first row, rows)."""
        if name not in self._adapters and name not in self._quantization:
            yield from super().rows(name)
            return
        weight = self._numbers(name).astype("float32")
        if name in self._quantization:
            scale = self._numbers(name + _SCALE)
            # One scale for each column of a kernel, and for each row of a table.
            weight /= scale if _is_kernel(name) else scale[:, None]
        if name in self._adapters:
            first, second = map(self._numbers, _lora(name))
            weight += self._adapters[name] * (first @ second)
        yield 0, weight

    def _numbers(self, name: str) -> np.ndarray:
        """Return the values of one variable as they are stored."""
        values = self._read(self._keys[name])
        if values.dtype.kind not in "fiV":  # NumPy gives bfloat16 the kind "V"
            raise ArtifactError(
                f"{self.path}: {name}: expected numbers. Received: {values.dtype}. "
                f"{TAKE_A_WHOLE_ONE}"
            )
        return values


def _listed_keys(graph: Any, way: Iterable[str]) -> dict[int, str]:
    """Return the checkpoint key of each variable in a list of the SavedModel, by its position.

    TensorFlow stores a variable only once, under the first path to it. So the key of
    `mlm.variables[0]` may be `variables/0/…`.

    Args:
        graph: object graph of the checkpoint. Its first node is the root.
        way: names of attributes from the root to the list.
    """
    nodes = graph.nodes

    def below(number: int) -> dict[str, int]:
        """Return the children of a node: attribute name -> number of the child node."""
        children = nodes[number].children
        return {c.local_name: c.node_id for c in children if 0 < c.node_id < len(nodes)}

    number: int | None = 0 if len(nodes) else None
    for name in way:
        number = None if number is None else below(number).get(name)
    variables = {} if number is None else below(number)
    return {
        int(name): nodes[node].attributes[0].checkpoint_key
        for name, node in variables.items()
        if name.isdecimal() and nodes[node].attributes
    }


def _lora(kernel: str) -> tuple[str, str]:
    """Return the paths of the two LoRA matrices of a kernel."""
    layer = kernel.rpartition("/")[0]
    return f"{layer}/{_LORA[0]}", f"{layer}/{_LORA[1]}"


def _is_kernel(name: str) -> bool:
    """Return whether a path is that of a kernel, and not of an embedding table."""
    return name.endswith("/kernel")


# === Reading ===
# An exported SavedModel has the file `assets.extra/bert_keras.json` (see
# `tokenizers.tokenizer_config`) with class, options, config, tokenizer settings and these keys:
#
# - "variables": path of a variable -> its position in the list `variables` of the SavedModel;
# - "mlm_variables": the same for the MLM head and the list `mlm.variables`;
# - "adapters": path of a kernel -> scale of its LoRA product;
# - "quantization": path of a kernel or table -> type, such as "int8".
#
# Only this file and the variables are read, with TensorFlow's checkpoint reader. No value has to be
# assumed, so `trust` is not needed.


_WITH_HEAD = "MaskedLM"  # class of an exported encoder with an MLM head
# Files to download: the small ones show that a repository is an export, the weights follow.
FILES = (*exported_tokenizer.FILES, f"encoder/{INDEX}")
WEIGHTS = tuple(f"{start}{VARIABLES}.data-*" for start in ("", "encoder/"))


def write(
    task: Task | BertEncoder,
    tokenizer: Tokenizer,
    vocabulary: bytes,
    variables: Mapping[str, Sequence[Any]],
    folder: Path,
) -> None:
    """Write `assets.extra/bert_keras.json` into the folder of an exported encoder.

    Args:
        task: exported model.
        tokenizer: tokenizer of the model.
        vocabulary: content of its vocab.txt.
        variables: list "variables" of the SavedModel in its order, and "mlm_variables" if the model
            has an MLM head.
        folder: folder of the SavedModel.
    """
    encoder = encoder_of(task)
    has_head = "mlm_variables" in variables
    options: dict[str, Any] = {"activation": None, "layer_norm_epsilon": None}
    if task_format(type(task).__name__).is_mlm:
        options = task.options
    parts = [encoder, *([getattr(task, features.MLM)] if has_head else [])]
    weights = {id(weight) for part in parts for weight in part.weights}
    positions: dict[str, dict[str, int]] = {}
    for name, listed in variables.items():
        known = {path for paths in positions.values() for path in paths}
        # The random seeds of dropout layers are variables too, but not weights.
        own = {v.path: i for i, v in enumerate(listed) if id(v) in weights}
        positions[name] = {path: i for path, i in own.items() if path not in known}
    changes = {
        "adapters": {k: v for part in parts for k, v in adapter_scales(part).items()},
        "quantization": {k: v for part in parts for k, v in quantised_weights(part).items()},
    }
    values = {
        "format": exported_tokenizer.FORMAT,
        "class": _WITH_HEAD if has_head else ENCODER,
        "options": dict(options) if has_head else {},
        "config": encoder.config.to_dict(),
        "tokenizer": exported_tokenizer.describe(tokenizer, vocabulary),
        **positions,
        **{key: change for key, change in changes.items() if change},
    }
    path = folder / exported_tokenizer.FILE
    path.parent.mkdir(exist_ok=True)
    file_io.write_bytes(path, json_bytes(values))


@dataclasses.dataclass(frozen=True)
class ExportedFolder(Checkpoint):
    """The encoder of a preprocessor and encoder pair that `export.tf_hub` wrote.

    Attributes:
        directory: path of the encoder's SavedModel.
        values: parsed `assets.extra/bert_keras.json`.
    """

    directory: Path
    values: dict[str, Any]

    @classmethod
    def open(cls, directory: Path) -> ExportedFolder:
        """Read `assets.extra/bert_keras.json`.

        Raises:
            ArtifactError: if it is damaged, or contradicts itself.
        """
        path, values = directory / exported_tokenizer.FILE, exported_tokenizer.read(directory)
        classes = (ENCODER, _WITH_HEAD)
        if values.get("class") not in classes:
            raise ArtifactError(
                f"{path}: `class` must be {' or '.join(classes)}. "
                f"Received: {values.get('class')!r:.100}. {TAKE_A_WHOLE_ONE}"
            )
        if ("mlm_variables" in values) != (values["class"] == _WITH_HEAD):
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
            exported_tokenizer.require_object(path, key, values.setdefault(key, {}))
            bad = {name: value for name, value in values[key].items() if not is_good(value)}
            if bad:
                raise ArtifactError(
                    f"{path}: `{key}` must hold {what}. Received: {bad!r:.200}. {TAKE_A_WHOLE_ONE}"
                )
        return cls(directory, values)

    @property
    def _path(self) -> Path:
        """Path of `assets.extra/bert_keras.json`, for messages."""
        return self.directory / exported_tokenizer.FILE

    @property
    def class_name(self) -> str:
        """Name of the exported class. A `Pretrainer` is exported as a `MaskedLM`."""
        return self.values["class"]

    def head_class(self, class_name: str) -> str | None:
        """Return the exported class."""
        del class_name
        return self.class_name

    @property
    def needs_tensor_shapes(self) -> bool:
        """False: the JSON file states the whole config, so the weights stay unopened."""
        return False

    def source(self, *, verify: bool = False) -> tensors.Tensors:
        """Open the variables."""
        del verify  # TensorFlow's reader compares checksums
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

    def names(self, class_name: str, config: BertConfig, shapes: Shapes) -> NameMap:
        """Return a map of every variable path to itself: tensors have the paths as names here."""
        del class_name, config
        paths = [path.rpartition("/") for path in shapes]
        modules = {NameMap.generic(module): NameMap.generic(module) for module, _, _ in paths}
        return NameMap(modules, {name: LeafRule(name) for _, _, name in paths}, "/")


def _is_position(value: Any) -> bool:
    """Return whether a JSON value is a position in a list."""
    return type(value) is int and value >= 0


def _is_scale(value: Any) -> bool:
    """Return whether a JSON value is the scale of an adapter."""
    return type(value) in (int, float) and math.isfinite(value)


def _is_name(value: Any) -> bool:
    """Return whether a JSON value is the name of a type."""
    return isinstance(value, str)
