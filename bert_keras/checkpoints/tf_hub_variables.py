"""The variables of an encoder that `export.tf_hub` wrote, as plain floats under our paths."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bert_keras.checkpoints.tf_variables import VariableFile
from bert_keras.errors import ArtifactError
from bert_keras.tokenizers.hub_files import TAKE_A_WHOLE_ONE

# Keys of the JSON file -> the attributes on the way from the SavedModel to the list of variables.
LISTS = {"variables": ("variables",), "mlm_variables": ("mlm", "variables")}
_LORA = ("lora_kernel_a", "lora_kernel_b")
_SCALE = "_scale"
_READABLE = "int8"


class ExportedVariables(VariableFile):
    """The weights of an exported encoder under our paths, as plain floats.

    Args:
        path: the prefix of the checkpoint.
        file: the JSON file, for messages.
        values: its checked content.

    Raises:
        ArtifactError: the checkpoint is not whole, or the file is of another one.
        ImportError: TensorFlow is not installed.
    """

    def __init__(self, path: Path, file: Path, values: Mapping[str, Any]):
        super().__init__(path)
        graph = self.objects()
        keys: dict[str, str] = {}
        for name, way in LISTS.items():
            stored = _listed_keys(graph, way) if values[name] else {}
            for variable, position in values[name].items():
                key = stored.get(position)
                if key is None or key not in self._stored:
                    raise ArtifactError(
                        f"{file}: {variable} is number {position} of {'.'.join(way)}, which "
                        f"{path} does not have. {TAKE_A_WHOLE_ONE}"
                    )
                keys[variable] = key
        if len({*keys.values()}) < len(keys):
            raise ArtifactError(f"{file}: two paths name one variable. {TAKE_A_WHOLE_ONE}")
        self._file, self._keys = file, keys
        self._adapters, self._types = values["adapters"], values["quantization"]
        if others := {k: v for k, v in self._types.items() if v != _READABLE}:
            name, kind = next(iter(others.items()))
            raise ArtifactError(
                f"{path}: only int8 weights can be read as floats. Received: {kind} of {name}. "
                "Open the folder that `save_to_preset` wrote of this model."
            )
        parts = {part for name in self._adapters for part in _lora(name)}
        parts |= {name + _SCALE for name in self._types}
        self._sizes = {name: tuple(self._stored[key]) for name, key in keys.items()}
        self.shapes = {name: shape for name, shape in self._sizes.items() if name not in parts}
        for name in {*self._adapters, *self._types}:
            self._check_parts(name)

    def _check_parts(self, name: str) -> None:
        """Compare the shapes of a changed weight with those of its adapter and of its scales.

        Raises:
            ArtifactError: they do not belong together.
        """
        shape = self.shapes.get(name, ())
        expected: dict[str, tuple[int | None, ...]] = {}
        if name in self._adapters:
            first, second = _lora(name)
            rank = (self._sizes.get(first) or (0,))[-1]
            expected |= {first: (*shape[:1], rank), second: (rank, *shape[1:])}
        if name in self._types:
            expected[name + _SCALE] = shape[1:] if _is_kernel(name) else shape[:1]
        found = {part: self._sizes.get(part) for part in expected}
        if len(shape) != 2 or found != expected:
            raise ArtifactError(
                f"{self._file}: the adapter or the scales of {name} do not fit its shape "
                f"{list(shape)}. Received: {found!r:.300}. {TAKE_A_WHOLE_ONE}"
            )

    def rows(self, name: str) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the values of one weight, in parts where it is large: first row, rows."""
        if name not in self._adapters and name not in self._types:
            yield from super().rows(name)
            return
        weight = self._numbers(name).astype("float32")
        if name in self._types:
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
        if values.dtype.kind not in "fiV":  # bfloat16 is of a kind of its own
            raise ArtifactError(
                f"{self.path}: {name}: expected numbers. Received: {values.dtype}. "
                f"{TAKE_A_WHOLE_ONE}"
            )
        return values


def _listed_keys(graph: Any, way: Iterable[str]) -> dict[int, str]:
    """Return the keys of the variables in a list of the SavedModel, by position.

    TensorFlow stores a variable once, under the first way to it, so the key of
    `mlm.variables[0]` may be `variables/0/…`.

    Args:
        graph: the objects of the checkpoint, of which the first is the root.
        way: names of attributes from the root to the list.
    """
    nodes = graph.nodes

    def below(number: int) -> dict[str, int]:
        children = nodes[number].children
        return {c.local_name: c.node_id for c in children if 0 < c.node_id < len(nodes)}

    number: int | None = 0 if len(nodes) else None
    for name in way:
        number = None if number is None else below(number).get(name)
    found = {} if number is None else below(number)
    return {
        int(name): nodes[node].attributes[0].checkpoint_key
        for name, node in found.items()
        if name.isdecimal() and nodes[node].attributes
    }


def _lora(kernel: str) -> tuple[str, str]:
    """Return the paths of the adapter of a kernel."""
    layer = kernel.rpartition("/")[0]
    return f"{layer}/{_LORA[0]}", f"{layer}/{_LORA[1]}"


def _is_kernel(name: str) -> bool:
    return name.endswith("/kernel")
