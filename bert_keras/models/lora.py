"""Low-rank adapters: little is trained, and in the end nothing is added (Hu et al., 2022).

An adapter is Keras's own: a `Dense` computes with kernel + alpha / rank * A @ B. A begins at random
and B at zero, so that at first nothing changes. A saved model keeps its adapters, and its frozen
parts stay frozen (`layers.core`, `layers.state`).
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import keras

from bert_keras.errors import UsageError
from bert_keras.layers import state
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


def enable_lora(
    encoder: BertEncoder,
    rank: int,
    *,
    alpha: float | None = None,
    layers: Sequence[str] = ("query", "value"),
) -> None:
    """Add adapters to every block, and freeze all else in the encoder, its pooler included.

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
    if not isinstance(rank, Integral) or isinstance(rank, bool) or rank < 1:
        raise ValueError(f"`rank` must be a whole number of at least 1. Received: rank={rank!r}")
    if alpha is not None and alpha <= 0:
        raise ValueError(f"`alpha` must be above 0. Received: alpha={alpha}")
    if isinstance(layers, str) or not layers or set(layers) - set(LAYERS):
        raise ValueError(
            f"`layers` must be some of {', '.join(LAYERS)}. Received: layers={layers!r}"
        )
    rank, alpha = int(rank), alpha if alpha is None or isinstance(alpha, int) else float(alpha)
    if adapted(encoder):
        raise ValueError("The encoder has adapters already: merge_lora() first.")
    variables = state.variables_by_name(encoder)
    # Names, for the config of the encoder; `merge_lora` leaves these frozen.
    encoder.frozen_before_adapters = tuple(
        name for name, variable in variables.items() if not variable.trainable
    )
    for variable in variables.values():
        variable.trainable = False
    for block in encoder.blocks:
        for name in dict.fromkeys(layers):
            brick, projection = LAYERS[name]
            getattr(getattr(block, brick), projection).enable_lora(rank, lora_alpha=alpha)
    _forget_graphs(encoder)


def merge_lora(encoder: BertEncoder) -> None:
    """Fold the adapters into their kernels, and make trainable what they had frozen.

    The outputs stay as they are. Compile the task again to train on.

    Raises:
        ValueError: there are no adapters, or a kernel with one is quantised.
    """
    layers = adapted(encoder)
    if not layers:
        raise ValueError("The encoder has no adapters: enable_lora(rank) adds them.")
    if rounded := [layer.path for layer in layers if layer.quantization_mode is not None]:
        raise ValueError(
            "A quantised kernel cannot hold an adapter without rounding again. `save_to_preset` "
            f"writes both as floats. Received: {', '.join(rounded)}"
        )
    for layer in layers:
        _main_weight(layer).assign(PlainWeight(layer).value)
        # A graph made before, with the adapters in it, stays right.
        layer.lora_kernel_b.assign(keras.ops.zeros(layer.lora_kernel_b.shape))
        layer.lora_enabled, layer.lora_rank, layer.lora_alpha = False, None, None
        # `del` would do this and, each time, collect all garbage of the process.
        for name in ("lora_kernel_a", "lora_kernel_b"):
            layer._untrack_variable(getattr(layer, name))
            setattr(layer, name, None)
    if encoder.frozen_before_adapters is None:  # adapters were added by hand
        for layer in layers:
            _main_weight(layer).trainable = True
    else:
        for name, variable in state.variables_by_name(encoder).items():
            variable.trainable = name not in encoder.frozen_before_adapters
    encoder.frozen_before_adapters = None
    state.track_parameters(encoder)
    _forget_graphs(encoder)


def adapted(model: keras.Layer) -> list[Any]:
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


class PlainWeight:
    """A kernel or table as floats, with its adapter folded in: read as a variable is.

    It is computed when it is asked for: a model is never in memory twice.

    Attributes:
        path: of the variable.
        name: of the variable.
        shape: of the variable.
        dtype: of the variable before it was quantised.
    """

    def __init__(self, layer: Any):
        self._layer = layer
        weight = _main_weight(layer)
        self.path, self.name, self.shape = weight.path, weight.name, weight.shape
        self.dtype = layer.variable_dtype

    @property
    def value(self) -> Any:
        """Return the kernel that the layer computes with: a NumPy array."""
        layer = self._layer
        weight = _array(_main_weight(layer)).astype("float32")
        if layer.quantization_mode is not None:
            scale = _array(getattr(layer, f"{self.name}_scale"))
            # One scale for each column of a kernel, and for each row of a table.
            weight /= scale if self.name == "kernel" else scale[:, None]
        if layer.lora_enabled:
            # By NumPy: `layer.kernel` has the precision of the compute dtype, and products on an
            # accelerator may have that of fewer bits.
            product = _array(layer.lora_kernel_a) @ _array(layer.lora_kernel_b)
            weight += layer.lora_alpha / layer.lora_rank * product
        return weight.astype(self.dtype)


def plain_weights(model: keras.Model) -> list[Any]:
    """Return the weights as they are without adapters and without quantization.

    Args:
        model: an encoder or a task.

    Returns:
        `model.weights` under the usual paths, with a `PlainWeight` for each kernel or table that
        has an adapter or is quantised.

    Raises:
        UsageError: a layer other than a `Dense` has an adapter, or one is quantised to another type
            than int8.
    """
    plain, left_out = {}, set()
    for layer in adapted(model):
        left_out |= {id(layer.lora_kernel_a), id(layer.lora_kernel_b)}
        plain[id(_main_weight(layer))] = PlainWeight(layer)
    for layer in quantised(model):
        if layer.quantization_mode != "int8":
            raise UsageError(
                f"{layer.path}: only int8 weights can be written as floats. Save the model before "
                f"it is quantised. Received: {layer.quantization_mode}"
            )
        weight = _main_weight(layer)
        left_out.add(id(getattr(layer, f"{weight.name}_scale")))
        plain[id(weight)] = PlainWeight(layer)
    return [plain.get(id(weight), weight) for weight in model.weights if id(weight) not in left_out]


def adapter_scales(model: keras.Layer) -> dict[str, float]:
    """Return the factor of the product A @ B of each adapter, by the path of its kernel.

    Raises:
        UsageError: a layer other than a `Dense` has an adapter.
    """
    return {
        _main_weight(layer).path: layer.lora_alpha / layer.lora_rank for layer in adapted(model)
    }


def quantised_weights(model: keras.Layer) -> dict[str, str]:
    """Return the types of the quantised weights, by path."""
    return {_main_weight(layer).path: layer.quantization_mode for layer in quantised(model)}


def quantised(model: keras.Layer) -> list[Any]:
    """Return the layers whose weights are quantised, anywhere in a model."""
    return [layer for layer in model._flatten_layers() if layer.quantization_mode is not None]


def _main_weight(layer: Any) -> Any:
    """Return the variable itself; `layer.kernel` is a tensor with the adapter in it."""
    return next(weight for weight in layer.weights if weight.name in ("kernel", "embeddings"))


def _array(variable: Any) -> Any:
    return keras.ops.convert_to_numpy(variable)


def _forget_graphs(model: keras.Model) -> None:
    """Lets `fit`, `evaluate` and `predict` of the encoder itself be compiled anew."""
    model.train_function = model.test_function = model.predict_function = None
