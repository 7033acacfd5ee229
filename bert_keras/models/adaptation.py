"""Changes to a trained encoder: low-rank adapters (Hu et al., 2022), fewer heads, fewer layers.

An adapter is Keras's own: a `Dense` computes with kernel + alpha / rank * A @ B. A begins at random
and B at zero, so that at first nothing changes. A saved model keeps its adapters, and its frozen
parts stay frozen (`layers.core`, `layers.state`).
"""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

import keras
from keras import ops

from bert_keras.layers import state
from bert_keras.layers.state import PlainWeight, adapted, main_weight, plain_weights

if TYPE_CHECKING:
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
            f"`layers` must be a tuple of some of {', '.join(LAYERS)}, such as ('query', 'value'). "
            f"Received: layers={layers!r}"
        )
    rank, alpha = int(rank), alpha if alpha is None or isinstance(alpha, int) else float(alpha)
    if adapted(encoder):
        raise ValueError(
            "The encoder has adapters already: merge_lora() adds them to their kernels. Call it "
            "before enable_lora()."
        )
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
        raise ValueError(
            "The encoder has no adapters: enable_lora(rank) makes them. Call it and train before "
            "merge_lora()."
        )
    if rounded := [layer.path for layer in layers if layer.quantization_mode is not None]:
        raise ValueError(
            "An adapter cannot be added to a quantised kernel without rounding again. Write the "
            "model with `save_to_preset`, and open the folder with plain=True: kernels are then "
            f"floats with the adapters added. Received: quantised kernels in {', '.join(rounded)}"
        )
    for layer in layers:
        main_weight(layer).assign(PlainWeight(layer).value)
        # A graph made before, with the adapters in it, stays right.
        layer.lora_kernel_b.assign(keras.ops.zeros(layer.lora_kernel_b.shape))
        layer.lora_enabled, layer.lora_rank, layer.lora_alpha = False, None, None
        # `del` would do this and, each time, collect all garbage of the process.
        for name in ("lora_kernel_a", "lora_kernel_b"):
            layer._untrack_variable(getattr(layer, name))
            setattr(layer, name, None)
    if encoder.frozen_before_adapters is None:  # adapters were added by hand
        for layer in layers:
            main_weight(layer).trainable = True
    else:
        for name, variable in state.variables_by_name(encoder).items():
            variable.trainable = name not in encoder.frozen_before_adapters
    encoder.frozen_before_adapters = None
    state.track_parameters(encoder)
    _forget_graphs(encoder)


def _forget_graphs(model: keras.Model) -> None:
    """Lets `fit`, `evaluate` and `predict` of the encoder itself be compiled anew."""
    model.train_function = model.test_function = model.predict_function = None


# === Pruning ===
# Both give a new encoder and leave the old one as it is; weights are copied, adapters folded in.


_BLOCK = re.compile(r"^block_(\d+)/")
# Which axis of these holds the heads; those of the output are its input.
_HEADS = {
    **{f"attention/{name}/kernel": 1 for name in ("query", "key", "value")},
    **{f"attention/{name}/bias": 0 for name in ("query", "key", "value")},
    "attention/output/kernel": 0,
}


def prune_heads(
    encoder: BertEncoder, heads: Mapping[int, Sequence[int]], **options: Any
) -> BertEncoder:
    """An encoder without some attention heads, their matrices really smaller (Michel et al., 2019).

    Its outputs are those of the old one with these heads' outputs set to zero.

    Args:
        encoder: the encoder; what was pruned from it before stays so.
        heads: block -> numbers of its heads, as they were before anything was pruned. Where layers
            share a block, all of them lose its heads.
        options: of `BertEncoder`.

    Raises:
        ValueError: no such block or head, or none would remain.
    """
    config = encoder.config
    if unknown := sorted(set(heads) - set(range(config.unique_layers))):
        raise ValueError(
            f"`heads` must have block numbers from 0 to {config.unique_layers - 1} as keys. "
            f"Received: {', '.join(map(repr, unknown))}"
        )
    before = config.pruned_heads or ((),) * config.unique_layers
    after = tuple((*old, *heads.get(block, ())) for block, old in enumerate(before))
    smaller = type(encoder)(config.replace(pruned_heads=after), **_options(encoder, options))
    old_weights = {weight.path: weight.value for weight in plain_weights(encoder)}
    for weight in smaller.weights:
        values = old_weights[weight.path]
        block, rest = _split(weight.path)
        if rest in _HEADS:
            gone = (smaller.config.pruned_heads or before)[block]
            kept = [
                place
                for place, head in enumerate(_remaining(config.num_heads, before[block]))
                if head not in gone
            ]
            values = _take(values, _HEADS[rest], kept, config.head_size)
        weight.assign(values)
    return smaller


def keep_layers(encoder: BertEncoder, layers: int | Sequence[int], **options: Any) -> BertEncoder:
    """An encoder with some of the layers, in their order (Sajjad et al., 2023).

    Args:
        encoder: the encoder; its layers share no blocks.
        layers: how many of the first, or the numbers of those to keep.
        options: of `BertEncoder`.

    Raises:
        ValueError: no such layer, none at all, or layers that share a block.
    """
    config = encoder.config
    numbers = range(int(layers)) if isinstance(layers, Integral) else layers
    chosen = list(map(operator.index, numbers))  # pyright: ignore[reportArgumentType]
    is_good = bool(chosen) and chosen == sorted(set(chosen)) and chosen[-1] < config.num_layers
    if not is_good or chosen[0] < 0:
        raise ValueError(
            f"`layers` must be a number from 1 to {config.num_layers}, or a list of ascending "
            f"layer numbers from 0 to {config.num_layers - 1}. Received: layers={layers!r}"
        )
    if config.unique_layers != config.num_layers:
        raise ValueError(
            "The layers share blocks, so a layer has no weights of its own. For fewer layers make "
            "BertEncoder(encoder.config.replace(num_layers=…)) and call its "
            f"set_weights(encoder.get_weights()). Received: num_layers={config.num_layers}, "
            f"num_unique_layers={config.num_unique_layers}"
        )
    changes: dict[str, Any] = {"num_layers": len(chosen), "num_unique_layers": len(chosen)}
    if config.pruned_heads:
        changes["pruned_heads"] = [config.pruned_heads[layer] for layer in chosen]
    smaller = type(encoder)(config.replace(**changes), **_options(encoder, options))
    old_weights = {weight.path: weight.value for weight in plain_weights(encoder)}
    for weight in smaller.weights:
        block, rest = _split(weight.path)
        path = weight.path if block < 0 else f"block_{chosen[block]}/{rest}"
        weight.assign(old_weights[path])
    return smaller


def _options(encoder: BertEncoder, options: dict[str, Any]) -> dict[str, Any]:
    return {"name": encoder.name, "dtype": encoder.dtype_policy, **encoder.options, **options}


def _split(path: str) -> tuple[int, str]:
    """The number of a variable's block, -1 for none, and the rest of its path."""
    match = _BLOCK.match(path)
    return (int(match[1]), path[match.end() :]) if match else (-1, path)


def _remaining(num_heads: int, pruned: Sequence[int]) -> list[int]:
    return [head for head in range(num_heads) if head not in pruned]


def _take(values: Any, axis: int, heads: list[int], head_size: int) -> Any:
    """The parts of some heads, along an axis of all of them."""
    columns = [head * head_size + column for head in heads for column in range(head_size)]
    return ops.take(values, columns, axis=axis)
