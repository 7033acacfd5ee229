"""Names of the axes of a model's inputs and outputs whose sizes are open."""

from __future__ import annotations

from collections.abc import Sequence

import keras

from bert_keras import features

BATCH, TEXTS, LENGTH, PREDICTIONS = "batch", "texts", "length", "predictions"

Axes = tuple[int | str, ...]


def input_axes(model: keras.Model) -> dict[str, Axes]:
    """Sizes and names by the input's name: {"token_ids": ("batch", "length"), ...}."""
    return {tensor.name: _axes(tensor.name, tensor.shape) for tensor in model.inputs}


def output_axes(model: keras.Model) -> dict[str, Axes]:
    """Likewise of the outputs, a tuple's as `flat` names them, in their order."""
    masked = features.MASK_POSITIONS in input_axes(model)
    return {
        name: _axes(features.MASK_POSITIONS if masked and name == features.MLM else name, x.shape)
        for name, x in flat(model.output).items()
    }


def flat(outputs: dict) -> dict:
    """Outputs by name alone: of a tuple "hidden_states" they are "hidden_states_0" and so on."""
    found = {}
    for name, value in outputs.items():
        if isinstance(value, tuple | list):
            found |= {f"{name}_{index}": tensor for index, tensor in enumerate(value)}
        else:
            found[name] = value
    return found


def _axes(name: str, shape: Sequence[int | None]) -> Axes:
    open_axes = [BATCH, *[LENGTH] * (len(shape) - 1)]
    if name == features.MASK_POSITIONS:
        open_axes[1] = PREDICTIONS
    elif name == features.CHOICE or (len(shape) == 3 and shape[1:] == (None, None)):
        open_axes[1] = TEXTS
    return tuple(size or axis for size, axis in zip(shape, open_axes, strict=True))
