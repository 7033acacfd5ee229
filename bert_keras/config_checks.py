"""Checks of the single values of a `BertConfig`: choices, limits and types."""

# A caller without a type checker may pass anything: arguments are checked when it runs.
# pyright: reportUnnecessaryIsInstance=false

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

FAMILIES = (
    *("bert", "roberta", "distilbert", "albert", "electra"),
    *("xlm_roberta", "camembert", "data2vec_text", "mpnet", "modernbert"),
    *("deberta", "deberta_lm_head", "deberta_v2", "deberta_v2_lm_head", "ernie", "roformer"),
    *("rembert", "megatron_bert", "roberta_prelayernorm", "xlm_roberta_xl"),
    *("nomic_bert", "gte", "jina_embeddings_v3", "eurobert", "ultrabert"),
)
POSITION_EMBEDDINGS = ("absolute", "sinusoidal", "relative_key", "relative_key_query", "none")
ROTARY = ("rotary", "rotary_interleaved")
DISENTANGLED = ("disentangled", "disentangled_shared")
ATTENTION_POSITIONS = ("none", *ROTARY, "alibi", "buckets", *DISENTANGLED)
BLOCKS = ("post_norm", "pre_norm")
NORMS = ("layer", "rms")
ACTIVATIONS = ("gelu", "gelu_tanh", "relu", "silu", "tanh")

_CHOICES = {
    "activation": ACTIVATIONS,
    "position_embedding": POSITION_EMBEDDINGS,
    "attention_positions": ATTENTION_POSITIONS,
    "block": BLOCKS,
    "norm": NORMS,
    "family": FAMILIES,
}
# Limit of each count, several times that of any published encoder. A larger config is a mistake or
# an attack. The tensors alone cannot show that: ALBERT's layers share one block, for example.
MOST = {
    "vocab_size": 2**24,
    "hidden_size": 2**16,
    "num_layers": 512,
    "num_heads": 2**10,
    "num_key_value_heads": 2**10,
    "intermediate_size": 2**18,
    "max_positions": 2**20,
    "num_segments": 2**10,
    "num_tasks": 2**10,
    "embedding_size": 2**16,
    "num_unique_layers": 512,
    "position_offset": 2**10,
    "position_buckets": 2**16,
    "max_distance": 2**20,
    "window": 2**20,
    "global_every": 512,
    "global_offset": 512,
}
_MAY_BE_ZERO = (
    *("num_segments", "num_tasks", "position_offset", "position_buckets", "window"),
    "global_offset",
)
_MAY_BE_NONE = ("window", "local_rotary_base")
_RATES = ("dropout", "attention_dropout", "intermediate_dropout")
_FRACTIONS = ("layer_norm_epsilon", "initializer_range")
_BASES = ("rotary_base", "local_rotary_base")
_SCALES = ("rotary_scale",)
_MOST_BASE, _MOST_SCALE = 1e12, 1e6
_FLAGS = (
    *("pooler", "position_norm", "norm_bias", "embedding_norm", "first_norm", "gated"),
    *("attention_bias", "key_bias", "intermediate_bias", "output_bias", "rotary_values"),
)


def checked(name: str, value: Any) -> Any:
    """Return a value of a config as a Python value that JSON can hold.

    Values without a rule here are returned as they are.

    Args:
        name: name of the value in `BertConfig`.
        value: anything.

    Raises:
        ValueError: if it is not of the right type, or beyond its limits.
    """
    if value is None and name in _MAY_BE_NONE:
        return None
    if name in MOST:
        return _whole(name, value, at_least=0 if name in _MAY_BE_ZERO else 1)
    if name in _RATES:
        return _number(name, value, 0.0, 1.0, inclusive=True)
    if name in _FRACTIONS:
        return _number(name, value, 0.0, 1.0, inclusive=False)
    if name in _BASES:
        return _number(name, value, 1.0, _MOST_BASE, inclusive=False)
    if name in _SCALES:
        return _number(name, value, 1.0, _MOST_SCALE, inclusive=True)
    if name in _FLAGS and not isinstance(value, bool):
        raise ValueError(f"`{name}` must be true or false. Received: {name}={value!r:.100}")
    if name in _CHOICES and (not isinstance(value, str) or value not in _CHOICES[name]):
        raise ValueError(
            f"`{name}` must be one of {', '.join(_CHOICES[name])}. Received: {name}={value!r:.100}"
        )
    return value


def checked_heads(blocks: Any, num_blocks: int, num_heads: int) -> tuple[tuple[int, ...], ...]:
    """Return the numbers of removed heads sorted, as tuples of ints; () if none is removed.

    Args:
        blocks: the numbers for each block.
        num_blocks: number of blocks.
        num_heads: number of heads of a block before any was removed.

    Raises:
        ValueError: if they are not lists of heads for each block, or a block has no head left.
    """
    if blocks in ((), []):
        return ()
    good = type(blocks) in (tuple, list) and len(blocks) == num_blocks
    for heads in blocks if good else ():
        good = good and type(heads) in (tuple, list) and len(set(heads)) < num_heads
        good = good and all(is_whole(h) and 0 <= h < num_heads for h in heads)
    if not good:
        raise ValueError(
            f"`pruned_heads` must be {num_blocks} lists of heads from 0 to {num_heads - 1}, none "
            f"of them of all heads. Received: pruned_heads={blocks!r}"
        )
    result = tuple(tuple(sorted({int(h) for h in heads})) for heads in blocks)
    return result if any(result) else ()


def is_whole(value: Any) -> bool:
    """Return whether a value is an integer, NumPy's included, and not a bool."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def _whole(name: str, value: Any, *, at_least: int) -> int:
    """Return a whole number within its limits as a Python int.

    Raises:
        ValueError: if it is not a whole number, or beyond the limits.
    """
    if not is_whole(value) or not at_least <= value <= MOST[name]:
        raise ValueError(
            f"`{name}` must be an integer of at least {at_least} and at most {MOST[name]:,}. "
            f"Received: {name}={value!r:.100}"
        )
    return int(value)


def _number(name: str, value: Any, low: float, high: float, *, inclusive: bool) -> float:
    """Return a number between limits as a Python int or float.

    Raises:
        ValueError: if it is not a number, or beyond the limits.
    """
    number = math.nan  # NaN is beyond all limits
    if isinstance(value, Real) and not isinstance(value, bool):
        number = value if isinstance(value, int) else float(value)
    if not (low <= number < high if inclusive else low < number < high):
        interval = f"{'[' if inclusive else '('}{low:g}, {high:g})"
        raise ValueError(
            f"`{name}` must be a number in {interval}. Received: {name}={value!r:.100}"
        )
    return number
