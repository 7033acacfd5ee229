"""The exact weights of adapted and quantised layers, beside the file that other libraries open.

`model.safetensors` holds plain kernels: adapters are folded in, quantised weights are floats again.
Every library reads these, and they answer as the model does. Adapters cannot be split off again,
nor can rounded numbers be rounded back to the bit, so `bert_keras.safetensors` holds the kernels
without adapters, the adapters, and the quantised weights with their scales.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np

from bert_keras.checkpoints import safetensors_file, tensors, transfer
from bert_keras.checkpoints.format import Entry, Leaf
from bert_keras.checkpoints.manifest import STATE_WEIGHTS
from bert_keras.errors import ArtifactError
from bert_keras.layers import state as states

# Of a layer with an adapter or quantised weights, what both files would hold alike.
_SAME = "bias"
_EXACT = Leaf("")


def entries(model: keras.Model, state: Mapping[str, Any]) -> list[Entry]:
    """Return the variables that the file of a model in this state holds, with their names."""
    layers = states.layers_by_name(model)
    changed = dict.fromkeys([*state.get("quantization", {}), *_adapters(state)])
    return [
        Entry(variable, f"{name}/{variable.name}", _EXACT)
        for name in changed
        for variable in layers[name].weights
        if variable.name != _SAME
    ]


def write(model: keras.Model, state: Mapping[str, Any], directory: Path) -> str | None:
    """Write the file; return its sha256, or None where the model needs none.

    Raises:
        NumericError: a value is not finite.
    """
    path = directory / STATE_WEIGHTS
    kept = entries(model, state)
    if not kept:
        path.unlink(missing_ok=True)  # another model's
        return None
    return safetensors_file.write(path, kept)


def restore(model: keras.Model, state: Mapping[str, Any], directory: Path) -> None:
    """Freeze, adapt and quantise a filled model as it was saved, and give it its exact weights.

    Args:
        model: filled with the plain weights.
        state: of the saved model.
        directory: with the file of exact weights, if the state needs one.

    Raises:
        ArtifactError: the state is not this model's, or the file is missing or another model's.
    """
    path = directory / STATE_WEIGHTS
    try:
        states.check_state(state)
        if not state.get("adapters") and not state.get("quantization"):
            states.set_state(model, state)
            return
    except ValueError as error:
        raise ArtifactError(f"{directory}: {error}") from error
    with tensors.TensorFile(path) as file:
        for name, values in _adapters(state).items():
            # Before memory is taken for a rank that the state alone tells.
            ranks = [shape for key, shape in file.shapes.items() if key.startswith(f"{name}/lora_")]
            if len(ranks) != 2 or ranks[0][1:] + ranks[1][:1] != (values["rank"],) * 2:
                raise ArtifactError(
                    f"{path}: no adapter of rank {values['rank']} for {name}. Received: {ranks}"
                )
        try:
            states.set_state(model, state)
        except ValueError as error:
            raise ArtifactError(f"{directory}: {error}") from error
        kept = entries(model, state)
        expected = {entry.tensor: entry.shape for entry in kept}
        tensors.check(path, file.shapes, expected)
        for entry in transfer.each(kept, f"reading {path}"):
            values = file.read(entry.tensor)
            whole = values.dtype.kind in "iu", np.dtype(_numpy(entry.variable.dtype)).kind in "iu"
            if whole[0] != whole[1]:
                raise ArtifactError(
                    f"{path}: {entry.tensor}: expected {entry.variable.dtype}. "
                    f"Received: {values.dtype}"
                )
            entry.variable.assign(values)


def _numpy(dtype: str) -> str:
    return "float32" if dtype == "bfloat16" else dtype


def _adapters(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the adapted layers, of all adapters, with rank and alpha."""
    adapters = state.get("adapters", {}).values()
    return {name: values for layers in adapters for name, values in layers.items()}
