"""Layers within layers."""

from __future__ import annotations

from typing import Any

import keras

from bert_keras.layers import kernels


def inner(layer: keras.layers.Layer, *inputs: Any, **options: Any) -> Any:
    """`layer(...)` of a built layer that is a part of the one that calls it, at less cost.

    Keras prepares every call: checks, casts, scopes. A part's inputs are of its own policy and its
    owner was prepared, so nothing of it is needed, but on PyTorch, where nothing is compiled, it
    takes longer than a small layer. Where a part is quantised, has PyTorch's hooks, or its outputs
    may be laid out over devices, Keras has its way.
    """
    if not is_prepared(layer):
        return layer(*inputs, **options)
    if type(layer) is keras.layers.Dense and layer.bias is not None:
        (x,) = inputs
        return layer.activation(kernels.affine(x, layer.kernel, layer.bias))
    return layer.call(*inputs, **options)


def is_prepared(layer: keras.layers.Layer) -> bool:
    """Whether a part can do without Keras's way to call it; see `inner`."""
    return not (
        layer.quantization_mode is not None
        or keras.distribution.distribution() is not None
        or getattr(layer, "_forward_hooks", None)
        or getattr(layer, "_forward_pre_hooks", None)
    )
