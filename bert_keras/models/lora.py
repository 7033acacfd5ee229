"""Low-rank adapters: little is trained, and in the end nothing is added (Hu et al., 2022).

An adapter is Keras's own: a `Dense` computes with kernel + alpha / rank * A @ B. A begins at random
and B at zero, so that at first nothing changes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import keras

from bert_keras.errors import UsageError
from bert_keras.models.encoder import BertEncoder

# What can be adapted in each block, by name -> where it is.
LAYERS = {
    "query": ("attention", "query"),
    "key": ("attention", "key"),
    "value": ("attention", "value"),
    "attention_output": ("attention", "output_projection"),
    "intermediate": ("feedforward", "intermediate"),
    "output": ("feedforward", "output_projection"),
}


@dataclasses.dataclass(frozen=True)
class _Variables:
    variables: list[Any]


def enable_lora(
    encoder: BertEncoder,
    rank: int,
    *,
    alpha: float | None = None,
    layers: Sequence[str] = ("query", "value"),
) -> None:
    """Adds adapters to every block, and freezes all else in the encoder, its pooler included.

    Compile the task afterwards: what is trained has changed. A pooler that is new, as in a
    checkpoint that had none, must learn: `encoder.pooler.trainable = True`. Where layers share a
    block, they share its adapters.

    Args:
        encoder: the encoder; the head of a task over it is trained as before.
        rank: width between A and B.
        alpha: of the scale alpha / rank; None for a scale of 1.
        layers: which projections: names of `LAYERS`. Query and value are the paper's.

    Raises:
        ValueError: a bad rank or alpha, an unknown layer or none, or adapters that are there.
    """
    if not isinstance(rank, int) or rank < 1:
        raise ValueError(f"`rank` must be a whole number of at least 1. Received: rank={rank!r}")
    if alpha is not None and alpha <= 0:
        raise ValueError(f"`alpha` must be above 0. Received: alpha={alpha}")
    if isinstance(layers, str) or not layers or set(layers) - set(LAYERS):
        raise ValueError(
            f"`layers` must be some of {', '.join(LAYERS)}. Received: layers={layers!r}"
        )
    if adapted(encoder):
        raise ValueError("The encoder has adapters already: merge_lora() first.")
    frozen = [variable for variable in encoder.weights if variable.trainable]
    for variable in frozen:
        variable.trainable = False
    # Not as a list, which Keras would take for more variables of the encoder.
    encoder.frozen_for_lora = _Variables(frozen)
    for block in encoder.blocks:
        for name in dict.fromkeys(layers):
            brick, projection = LAYERS[name]
            getattr(getattr(block, brick), projection).enable_lora(rank, lora_alpha=alpha)
    _forget_graphs(encoder)


def merge_lora(encoder: BertEncoder) -> None:
    """Folds the adapters into their kernels, and makes trainable what they had frozen.

    The outputs stay as they are. Compile the task again to train on.

    Raises:
        ValueError: there are no adapters.
    """
    layers = adapted(encoder)
    if not layers:
        raise ValueError("The encoder has no adapters: enable_lora(rank) adds them.")
    for layer in layers:
        kernel = _kernel(layer)
        kernel.assign(_merged(layer))
        # A graph made before, with the adapters in it, stays right.
        layer.lora_kernel_b.assign(keras.ops.zeros(layer.lora_kernel_b.shape))
        layer.lora_enabled, layer.lora_rank, layer.lora_alpha = False, None, None
        # `del` would do this and, each time, collect all garbage of the process.
        for name in ("lora_kernel_a", "lora_kernel_b"):
            layer._untrack_variable(getattr(layer, name))
            setattr(layer, name, None)
    by_hand = _Variables([_kernel(layer) for layer in layers])
    for variable in getattr(encoder, "frozen_for_lora", by_hand).variables:
        variable.trainable = True
    _forget_graphs(encoder)


def adapted(model: keras.Model) -> list[Any]:
    """The dense layers that have an adapter, anywhere in a model.

    Raises:
        UsageError: another layer has one, given to it by hand.
    """
    found = [layer for layer in model._flatten_layers() if getattr(layer, "lora_enabled", False)]
    for layer in found:
        if not isinstance(layer, keras.layers.Dense):
            raise UsageError(
                f"{layer.path}: a {type(layer).__name__} with an adapter can be neither merged "
                "nor written. Adapt dense layers only, as encoder.enable_lora(rank) does."
            )
    return found


class MergedKernel:
    """A kernel with its adapter folded in, to be read as the variable it stands for.

    It is computed when it is asked for: a model is never in memory twice.

    Attributes:
        path: of the kernel.
        name: of the kernel.
        shape: of the kernel.
        dtype: of the kernel.
    """

    def __init__(self, layer: Any):
        self._layer = layer
        kernel = _kernel(layer)
        self.path, self.name = kernel.path, kernel.name
        self.shape, self.dtype = kernel.shape, kernel.dtype

    @property
    def value(self) -> Any:
        """What the layer computes with: a NumPy array."""
        return _merged(self._layer)


def plain_weights(model: keras.Model) -> list[Any]:
    """The weights as they are without adapters: with these folded in, under the usual paths.

    Args:
        model: an encoder or a task.

    Returns:
        `model.weights`, with a `MergedKernel` for each kernel that has an adapter.

    Raises:
        UsageError: a layer other than a `Dense` has an adapter.
    """
    kernels, gone = {}, set()
    for layer in adapted(model):
        kernels[id(_kernel(layer))] = MergedKernel(layer)
        gone |= {id(layer.lora_kernel_a), id(layer.lora_kernel_b)}
    return [kernels.get(id(w), w) for w in model.weights if id(w) not in gone]


def _kernel(layer: Any) -> Any:
    """The kernel alone; `layer.kernel` is a tensor with the adapter in it."""
    return next(weight for weight in layer.weights if weight.name == "kernel")


def _merged(layer: Any) -> Any:
    # By NumPy: `layer.kernel` has the precision of the compute dtype, and products on an
    # accelerator may have that of fewer bits.
    variables = (_kernel(layer), layer.lora_kernel_a, layer.lora_kernel_b)
    kernel, a, b = (keras.ops.convert_to_numpy(variable) for variable in variables)
    change = layer.lora_alpha / layer.lora_rank * (a @ b)
    return (kernel.astype("float32") + change).astype(kernel.dtype)


def _forget_graphs(model: keras.Model) -> None:
    """Lets `fit`, `evaluate` and `predict` of the encoder itself be compiled anew."""
    model.train_function = model.test_function = model.predict_function = None
