"""Changes to a trained encoder: low-rank adapters (Hu et al., 2022), fewer heads, fewer layers.

An adapter is Keras's own: a `Dense` computes with kernel + alpha / rank * A @ B. A has random
initial values and B zeros, so the first outputs are those without adapters. A saved model keeps its
adapters, and its frozen parts stay frozen (`layers.core`, `layers.state`).
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
from bert_keras.layers.state import (
    PlainWeight,
    adapted,
    assign_copy,
    main_weight,
    plain_weights,
)

if TYPE_CHECKING:
    from bert_keras.models.encoder import BertEncoder

# Projections of a block that can have an adapter: name -> attributes on the way to the layer.
LAYERS = {
    "query": ("attention", "query"),
    "key": ("attention", "key"),
    "value": ("attention", "value"),
    "attention_output": ("attention", "output_projection"),
    "intermediate": ("feedforward", "intermediate"),
    "gate": ("feedforward", "gate"),
    "output": ("feedforward", "output_projection"),
}


def enable_lora(
    encoder: BertEncoder,
    rank: int,
    *,
    alpha: float | None = None,
    layers: Sequence[str] = ("query", "value"),
) -> None:
    """Add adapters to every block, and freeze all other weights of the encoder.

    Compile the task afterwards, because its trainable variables have changed. The pooler is frozen
    too. A pooler with new weights, as for a checkpoint without one, must be trained: set
    `encoder.pooler.trainable = True`. Layers that share a block share its adapters.

    Args:
        encoder: the encoder, which is changed in place; the head of a task over it is trained as
            before.
        rank: rank of A @ B, where A is float [inputs, rank] and B float [rank, outputs].
        alpha: numerator of the scale alpha / rank of A @ B; None for a scale of 1.
        layers: projections that get an adapter, by their names in `LAYERS`. The paper adapts query
            and value.

    Raises:
        ValueError: `rank` or `alpha` is out of range, `layers` is empty or has an unknown name, or
            the encoder has adapters already.
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
    chosen = [
        getattr(getattr(block, sublayer), projection)
        for block in encoder.blocks
        for sublayer, projection in map(LAYERS.__getitem__, dict.fromkeys(layers))
    ]
    if None in chosen:
        raise ValueError(
            "The feed-forward layers of this encoder have no gate. Leave 'gate' out of `layers`. "
            f"Received: layers={layers!r}"
        )
    variables = state.variables_by_name(encoder)
    # `merge_lora` leaves these frozen. They are names, because the encoder's config has them too.
    encoder.frozen_before_adapters = tuple(
        name for name, variable in variables.items() if not variable.trainable
    )
    for variable in variables.values():
        variable.trainable = False
    for projection in chosen:
        projection.enable_lora(rank, lora_alpha=alpha)
    _forget_graphs(encoder)


def merge_lora(encoder: BertEncoder) -> None:
    """Add the adapters to their kernels, and make trainable again what `enable_lora` froze.

    The outputs do not change. Compile the task again before further training.

    Args:
        encoder: the encoder, which is changed in place.

    Raises:
        ValueError: the encoder has no adapters, or a kernel with one is quantised.
    """
    layers = adapted(encoder)
    if not layers:
        raise ValueError(
            "The encoder has no adapters: enable_lora(rank) makes them. Call it and train before "
            "merge_lora()."
        )
    if quantised := [layer.path for layer in layers if layer.quantization_mode is not None]:
        raise ValueError(
            "An adapter cannot be added to a quantised kernel without rounding again. Write the "
            "model with `save_to_preset`, and open the folder with plain=True: kernels are then "
            f"floats with the adapters added. Received: quantised kernels in {', '.join(quantised)}"
        )
    for layer in layers:
        main_weight(layer).assign(PlainWeight(layer).value)
        # A graph that was compiled with the adapter now adds zero to the merged kernel.
        layer.lora_kernel_b.assign(keras.ops.zeros(layer.lora_kernel_b.shape))
        layer.lora_enabled, layer.lora_rank, layer.lora_alpha = False, None, None
        # Not `del layer.lora_kernel_a`: Keras runs a full garbage collection after each.
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
    """Make the next `fit`, `evaluate` and `predict` of a model compile their steps again.

    The compiled steps hold the variables that were there before the change.
    """
    model.train_function = model.test_function = model.predict_function = None


# === Pruning ===
# Both functions return a new encoder with copied weights, and leave the old one as it is. Adapters
# are added to the copied kernels.


_BLOCK = re.compile(r"^block_(\d+)/")
# Axis of each variable that has num_heads * head_size entries. The output projection reads the
# heads, so there it is the axis of the inputs.
_OF_HEADS = ("query", "key", "value", "position_query", "position_key")
_HEADS = {
    **{f"attention/{name}/kernel": 1 for name in _OF_HEADS},
    **{f"attention/{name}/bias": 0 for name in _OF_HEADS},
    "attention/output/kernel": 0,
}


def prune_heads(
    encoder: BertEncoder, heads: Mapping[int, Sequence[int]], **options: Any
) -> BertEncoder:
    """Return an encoder without some attention heads, with smaller matrices (Michel et al., 2019).

    Its outputs are those of the old encoder with the outputs of these heads set to zero.

    Args:
        encoder: the encoder; heads that were pruned from it before stay pruned.
        heads: numbers of the heads to remove, by block: {0: [1, 3]} removes two heads of the first
            block. Heads keep the numbers that they had before any pruning. Layers that share a
            block all lose its heads.
        options: arguments of `BertEncoder` that differ from those of `encoder`.

    Raises:
        ValueError: a block or head does not exist, or a block would have no head left.
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
            pruned = (smaller.config.pruned_heads or before)[block]
            kept = [
                place
                for place, head in enumerate(_remaining(config.num_heads, before[block]))
                if head not in pruned
            ]
            values = _keep_heads(values, _HEADS[rest], kept, config.head_size)
        assign_copy(weight, values)
    return smaller


def keep_layers(
    encoder: BertEncoder,
    layers: int | Sequence[int],
    *,
    copy_weights: bool = True,
    **options: Any,
) -> BertEncoder:
    """Return an encoder with some of the layers, in their order (Sajjad et al., 2023).

    Args:
        encoder: the encoder; its layers share no blocks.
        layers: number of layers to keep from the first on, or ascending numbers of the layers to
            keep: [0, 2, 4] keeps every second layer of six.
        copy_weights: False leaves the new weights as they are initialised, which reads no value
            of `encoder`.
        options: arguments of `BertEncoder` that differ from those of `encoder`.

    Raises:
        ValueError: a layer does not exist, `layers` is empty, or layers share a block.
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
    if any(config.is_local(old) != config.is_local(new) for new, old in enumerate(chosen)):
        raise ValueError(
            "Local and global layers alternate, and a layer would change from one to the other. "
            f"Keep the first layers, as with layers={len(chosen)}. Received: layers={chosen}"
        )
    if chosen[0] and not config.first_norm:
        raise ValueError(
            "The first layer does not normalise its input, and others do. Keep the first layer. "
            f"Received: layers={chosen}"
        )
    changes: dict[str, Any] = {"num_layers": len(chosen), "num_unique_layers": len(chosen)}
    if config.pruned_heads:
        changes["pruned_heads"] = [config.pruned_heads[layer] for layer in chosen]
    smaller = type(encoder)(config.replace(**changes), **_options(encoder, options))
    if not copy_weights:
        return smaller
    old_weights = {weight.path: weight.value for weight in plain_weights(encoder)}
    for weight in smaller.weights:
        block, rest = _split(weight.path)
        path = weight.path if block < 0 else f"block_{chosen[block]}/{rest}"
        assign_copy(weight, old_weights[path])
    return smaller


def _options(encoder: BertEncoder, options: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of an encoder besides its config, with those of the caller in place."""
    return {"name": encoder.name, "dtype": encoder.dtype_policy, **encoder.options, **options}


def _split(path: str) -> tuple[int, str]:
    """Return the block number of a variable, -1 outside the blocks, and the rest of its path.

    "block_3/attention/query/kernel" gives (3, "attention/query/kernel").
    """
    match = _BLOCK.match(path)
    return (int(match[1]), path[match.end() :]) if match else (-1, path)


def _remaining(num_heads: int, pruned: Sequence[int]) -> list[int]:
    """Return the original numbers of the heads that a block still has, in order."""
    return [head for head in range(num_heads) if head not in pruned]


def _keep_heads(values: Any, axis: int, heads: list[int], head_size: int) -> Any:
    """Return a variable of attention with the entries of some heads only.

    Args:
        values: a variable, whose `axis` has `head_size` successive entries for each head.
        axis: the axis of the heads.
        heads: indices of the heads to keep, among those that the variable has.
        head_size: entries of one head.

    Returns:
        A tensor like `values`, with len(heads) * head_size entries along `axis`.
    """
    entries = [head * head_size + entry for head in heads for entry in range(head_size)]
    return ops.take(values, entries, axis=axis)
