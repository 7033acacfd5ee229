"""Exact weights of adapted and quantised layers, in a file beside the plain weights.

In `model.safetensors` adapters are merged into the kernels, and quantised weights are converted to
floats. That cannot be undone exactly. Therefore `bert_keras.safetensors` holds the kernels without
adapters, the adapters, and the quantised weights with their scales.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras

from bert_keras.checkpoints import streaming, tensors
from bert_keras.checkpoints.manifest import MANIFEST, STATE_WEIGHTS
from bert_keras.checkpoints.name_mapping import LeafRule, TensorSpec
from bert_keras.errors import COPY_AGAIN, ArtifactError
from bert_keras.layers import state as states

# Variable of an adapted or quantised layer that is equal in both files, so it is stored once.
_SAME = "bias"
_EXACT = LeafRule("")


def state_specs(model: keras.Model, state: Mapping[str, Any]) -> list[TensorSpec]:
    """Return the variables in `bert_keras.safetensors`: those of adapted and quantised layers."""
    layers = states.layers_by_name(model)
    changed = dict.fromkeys([*state.get("quantization", {}), *_adapters(state)])
    return [
        TensorSpec(variable, f"{name}/{variable.name}", _EXACT)
        for name in changed
        for variable in layers[name].weights
        if variable.name != _SAME
    ]


def write_state(model: keras.Model, state: Mapping[str, Any], directory: Path) -> str | None:
    """Write `bert_keras.safetensors`; return its sha256. Without layers to write return None.

    Raises:
        NumericError: if a value is not finite.
    """
    path = directory / STATE_WEIGHTS
    specs = state_specs(model, state)
    if not specs:
        path.unlink(missing_ok=True)  # an earlier model may have left one
        return None
    return streaming.write_safetensors(path, specs)


def restore_state(model: keras.Model, state: Mapping[str, Any], directory: Path) -> None:
    """Restore frozen layers, adapters and quantisation of a model, with their exact weights.

    Args:
        model: model that is filled with the plain weights.
        state: state of the saved model; see `layers.state`.
        directory: folder with `bert_keras.safetensors`, if the state needs it.

    Raises:
        ArtifactError: if the state or the file is missing or does not fit the model.
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
            # The state alone states the rank: compare it before it decides how much is allocated.
            ranks = [shape for key, shape in file.shapes.items() if key.startswith(f"{name}/lora_")]
            if len(ranks) != 2 or ranks[0][1:] + ranks[1][:1] != (values["rank"],) * 2:
                raise ArtifactError(
                    f"{path}: no adapter of rank {values['rank']} for {name}. Received: {ranks}. "
                    f"{MANIFEST} and this file must be of one save. {COPY_AGAIN}"
                )
        try:
            states.set_state(model, state)
        except ValueError as error:
            raise ArtifactError(f"{directory}: {error}") from error
        kept = state_specs(model, state)
        expected = {spec.tensor: spec.shape for spec in kept}
        tensors.check(path, file.shapes, expected)
        for spec in streaming.with_progress(kept, f"reading {path}"):
            values = file.read(spec.tensor)
            if (values.dtype.kind in "iu") != ("int" in str(spec.variable.dtype)):
                raise ArtifactError(
                    f"{path}: {spec.tensor}: expected {spec.variable.dtype}. "
                    f"Received: {values.dtype}. {COPY_AGAIN}"
                )
            spec.variable.assign(values)


def _adapters(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return rank and alpha of each adapted layer, by its name."""
    adapters = state.get("adapters", {}).values()
    return {name: values for layers in adapters for name, values in layers.items()}
