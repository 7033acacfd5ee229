"""Names of the tensors of a Hugging Face checkpoint, and tensors that follow from its config."""

from __future__ import annotations

import types
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from bert_keras import features
from bert_keras.checkpoints.hugging_face_family import Family
from bert_keras.checkpoints.hugging_face_names import FAMILIES, NATIVE
from bert_keras.checkpoints.name_mapping import LeafRule, NameMap, TensorSpec, begins
from bert_keras.checkpoints.wrapped_names import COUNTER
from bert_keras.config import BertConfig

_LEAVES = {
    "kernel": LeafRule("weight", transposed=True),
    "bias": LeafRule("bias"),
    "embeddings": LeafRule("weight"),
    "gamma": LeafRule("weight"),
    "beta": LeafRule("bias"),
    # Variables of our layers `crf` and `mix`, which Hugging Face's classes do not have.
    **{name: LeafRule(name) for name in ("transition", "start", "end", "scores", "scale")},
}
# Dense layers behind the pooling of a sentence encoder. sentence-transformers keeps each one in a
# file of its own.
_VECTOR_LAYERS = {
    f"{features.SENTENCE_VECTOR}/dense_#": "dense.#.linear",
    f"{features.SENTENCE_VECTOR}/residual_#": "dense.#.residual",
}
# Path prefixes of all heads.
_HEAD_ROWS = [family.heads for family in (*FAMILIES.values(), NATIVE)] + [_VECTOR_LAYERS]
HEADS = tuple(sorted({path.partition("/")[0] for rows in _HEAD_ROWS for path in rows}))

# Names of the first PyTorch port, which bert-base-uncased and other published files still have.
_OLD_NAMES = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}


def name_map(family: Family, *, prefixed: bool, num_heads: int = 1) -> NameMap:
    """Return the names of the tensors of a family.

    Args:
        family: names of the family's layers.
        prefixed: whether the encoder's tensors begin with the family's prefix, such as "bert.".
            They do in files of a model with a head.
        num_heads: number of heads of the encoder, for tensors that store several layers by head.
    """
    heads = dict.fromkeys(HEADS, "")
    prefix = family.prefix if prefixed else ""
    return NameMap(
        {**family.encoder, **family.heads, **_VECTOR_LAYERS},
        _LEAVES,
        whole={path: LeafRule(name) for path, name in family.whole.items()},
        prefixes={**heads, "": prefix},
        redundant=[
            COUNTER,
            *(
                start + name
                for name in (*family.redundant, *family.computed)
                for start in {"", prefix}
            ),
        ],
        unread=family.unread,
        interleaved=family.interleaved,
        num_heads=num_heads,
    )


def zeros(
    family: Family, values: Mapping[str, Any], names: NameMap, tensors: Collection[str]
) -> tuple[str, ...]:
    """Return the paths of variables that are zero because their model has no such tensors.

    Args:
        family: names of the family's layers. Its `zeros` are either all absent or all there.
        values: parsed config.json.
        names: map of the family's names.
        tensors: names of all tensors of the file.

    Returns:
        The paths; () if the file has one of the biases, or no head that they belong to.
    """
    paths = [path for key in family.zeros if values.get(key) is False for path in family.zeros[key]]
    if not paths:
        return ()
    specs = names.tensor_specs(types.SimpleNamespace(path=path) for path in paths)
    biases = {*(spec.tensor for spec in specs), *(n for n in names.redundant if n.endswith("bias"))}
    heads = {path.partition("/")[0] for path in paths}
    has_head = any(begins(path, heads) for name in tensors for path in names.owners(name))
    return tuple(paths) if has_head and biases.isdisjoint(tensors) else ()


class ComputedTensor(NamedTuple):
    """Tensor that follows from a config, with the attributes of a Keras variable."""

    path: str
    shape: tuple[int, ...]
    dtype: str
    value: np.ndarray


def tensor_specs(
    family: Family, config: BertConfig, variables: Iterable[Any], *, prefixed: bool
) -> list[TensorSpec]:
    """Return the tensors to write: those that store variables, and those that the family computes.

    Args:
        family: names of the family's layers.
        config: config of the encoder.
        variables: variables of the model.
        prefixed: see `name_map`.
    """
    names = name_map(family, prefixed=prefixed, num_heads=config.num_heads)
    specs = names.tensor_specs(variables)
    for name, compute in family.computed.items():
        name = (family.prefix if prefixed else "") + name
        values = compute(config)
        tensor = ComputedTensor(name, values.shape, str(values.dtype), values)
        specs.append(TensorSpec(tensor, name, LeafRule(name)))
    return specs


def current_name(tensor: str, family: Family | None = None) -> str:
    """Return the current name of a tensor that may come from an old file.

    Args:
        tensor: name in the file.
        family: family of the model, if it is known.
    """
    if family is not None:
        for other in family.other_prefixes:
            if tensor.startswith(other):
                tensor = family.prefix + tensor.removeprefix(other)
    for old, current in _OLD_NAMES.items():
        if tensor.endswith(old):
            return tensor.removesuffix(old) + current
    return tensor
