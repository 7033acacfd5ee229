"""Smaller encoders out of larger ones: without some heads, with some of the layers.

Both give a new encoder and leave the old one as it is; weights are copied, adapters folded in.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

from keras import ops

from bert_keras.models.encoder import BertEncoder
from bert_keras.models.lora import plain_weights

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
            f"There are blocks 0 to {config.unique_layers - 1}. Received: heads of {unknown}"
        )
    before = config.pruned_heads or ((),) * config.unique_layers
    after = tuple((*old, *heads.get(block, ())) for block, old in enumerate(before))
    smaller = BertEncoder(config.replace(pruned_heads=after), **_options(encoder, options))
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
            f"`layers` must be a number from 1 to {config.num_layers}, or numbers from 0 to "
            f"{config.num_layers - 1} that ascend. Received: layers={layers!r}"
        )
    if config.unique_layers != config.num_layers:
        raise ValueError(
            "The layers share blocks: take fewer by config.replace(num_layers=…). Received: "
            f"num_layers={config.num_layers}, num_unique_layers={config.num_unique_layers}"
        )
    changes: dict[str, Any] = {"num_layers": len(chosen), "num_unique_layers": len(chosen)}
    if config.pruned_heads:
        changes["pruned_heads"] = [config.pruned_heads[layer] for layer in chosen]
    smaller = BertEncoder(config.replace(**changes), **_options(encoder, options))
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
