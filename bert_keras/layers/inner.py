"""Layers within layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

from bert_keras.layers import kernels, written_out


def inner(
    layer: keras.layers.Layer,
    *inputs: Any,
    activation: Callable[[Any], Any] | None = None,
    **options: Any,
) -> Any:
    """`layer(...)` of a built layer that is a part of the one that calls it, at less cost.

    Keras prepares every call: checks, casts, scopes. A part's inputs are of its own policy and its
    owner was prepared, so nothing of it is needed, but on PyTorch, where nothing is compiled, it
    takes longer than a small layer. Where a part is quantised, has PyTorch's hooks, or its outputs
    may be laid out over devices, Keras has its way.

    Args:
        layer: the part.
        inputs: its inputs.
        activation: a function of its output, one operation with it where the backend can.
        options: of its `call`.
    """
    if _needs_keras(layer):
        found = layer(*inputs, **options)
    elif isinstance(layer, keras.layers.Dense) and layer.bias is not None:
        (x,) = inputs
        if activation is not None and layer.activation is keras.activations.linear:
            return kernels.affine(x, layer.kernel, layer.bias, activation)
        found = kernels.affine(x, layer.kernel, layer.bias, layer.activation)
    elif isinstance(layer, keras.layers.Embedding) and written_out.is_asked() and not options:
        found = keras.ops.cast(kernels.rows(layer.embeddings, *inputs), layer.compute_dtype)
    else:
        found = layer.call(*inputs, **options)
    return found if activation is None else activation(found)


def freeze_with(owner: keras.layers.Layer, *parts: keras.layers.Layer) -> None:
    """Freeze layers that were given to a layer whose constructor was told `trainable=False`.

    Keras does so where `trainable` is set later. It leaves what a constructor is given as it was:
    then the layer reports no variable that trains, and the model around it trains all of them.
    """
    if not owner.trainable:
        for part in parts:
            part.trainable = False


def _needs_keras(layer: keras.layers.Layer) -> bool:
    return bool(
        layer.quantization_mode is not None
        or keras.distribution.distribution() is not None
        or getattr(layer, "_forward_hooks", None)
        or getattr(layer, "_forward_pre_hooks", None)
    )
