"""How KerasHub's backbones lay out what we have otherwise: heads, positions, configs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from bert_keras import strict_json
from bert_keras.checkpoints import config_keys
from bert_keras.checkpoints.format import Leaf, Names, Shape
from bert_keras.checkpoints.keras_hub_names import Backbone
from bert_keras.config import BertConfig
from bert_keras.errors import ArtifactError

_KINDS = ("kernel", "bias", "embeddings", "gamma", "beta")
LEAVES = {name: Leaf(name) for name in _KINDS}
# In files variables have numbers.
FILE_LEAVES = {name: Leaf(f"vars/{int(name in ('bias', 'beta'))}") for name in _KINDS}
SEGMENTS = "embeddings/segment/embeddings"
POSITIONS = "embeddings/position/embeddings"


@dataclasses.dataclass(frozen=True)
class SplitHeads(Leaf):
    """A variable of attention, whose axis of all heads they keep as two.

    Attributes:
        num_heads: how many.
        axis: of ours that is split.
    """

    num_heads: int = 1
    axis: int = -1

    @property
    def same_rows(self) -> bool:
        """They are others."""
        return False

    def shape(self, ours: Shape) -> Shape:
        """With an axis of heads, and one of a head's size."""
        sizes, axis = list(ours), self.axis % len(ours)
        return (*sizes[:axis], self.num_heads, sizes[axis] // self.num_heads, *sizes[axis + 1 :])

    def theirs(self, array: np.ndarray) -> np.ndarray:
        """Splits."""
        return array.reshape(self.shape(array.shape))

    def ours(self, array: np.ndarray) -> np.ndarray:
        """Joins."""
        axis = self.axis % (array.ndim - 1)
        return array.reshape((*array.shape[:axis], -1, *array.shape[axis + 2 :]))


@dataclasses.dataclass(frozen=True)
class LaterRows(Leaf):
    """The position table of RoBERTa, which they have from its first position on.

    Attributes:
        offset: rows before it, which no token uses.
        added: to every row, when it is written.
    """

    offset: int = 0
    added: Any = dataclasses.field(default=None, compare=False)

    @property
    def same_rows(self) -> bool:
        """They are others."""
        return False

    def shape(self, ours: Shape) -> Shape:
        """Fewer rows."""
        return (ours[0] - self.offset, *ours[1:])

    def theirs(self, array: np.ndarray) -> np.ndarray:
        """Without the rows before."""
        rows = array[self.offset :]
        return rows if self.added is None else rows + self.added

    def ours(self, array: np.ndarray) -> np.ndarray:
        """With empty rows before."""
        return np.pad(array, [(self.offset, 0), *[(0, 0)] * (array.ndim - 1)])


def read_config_of(backbone: Backbone, values: Mapping[str, Any], what: str) -> BertConfig:
    """Translates the config of a backbone; `what` is for messages.

    Raises:
        ArtifactError: an unsupported value, or one that is missing.
    """
    if values.get("num_inner_repetitions", 1) != 1:
        raise ArtifactError(f"{what}: not supported: num_inner_repetitions")
    known = {*backbone.keys.values(), *config_keys.KERAS_LAYER, "num_inner_repetitions"}
    strict_json.refuse_unknown(what, values, known)
    if missing := sorted(set(backbone.keys.values()) - set(values)):
        raise ArtifactError(f"{what}: missing: {', '.join(missing)}")
    ours = {name: values[theirs] for name, theirs in backbone.keys.items()}
    ours |= {"attention_dropout": ours["dropout"], **backbone.fixed, "family": backbone.family}
    if backbone.family == "albert" and ours["embedding_size"] == ours["hidden_size"]:
        raise ArtifactError(f"{what}: not supported: embedding_dim=hidden_dim with a projection")
    try:
        return BertConfig.from_dict(ours)
    except ValueError as error:
        raise ArtifactError(f"{what}: {error}") from error


def names_by(
    modules: Mapping[str, str],
    leaves: Mapping[str, Leaf],
    config: BertConfig,
    segment: np.ndarray | None = None,
) -> Names:
    """The names of a backbone's variables, in memory or in a file.

    Args:
        modules: our layers -> theirs.
        leaves: our variables -> theirs.
        config: of the encoder.
        segment: a vector to add to every position when they are written.
    """
    whole: dict[str, Leaf] = {**split_heads(modules, leaves, config.num_heads)}
    if config.position_offset:
        table = f"{modules['embeddings/position']}/{leaves['embeddings'].name}"
        whole[POSITIONS] = LaterRows(table, offset=config.position_offset, added=segment)
    # RoBERTa's one segment is part of every position there.
    is_without = config.num_segments > 0 and "embeddings/segment" not in modules
    return Names(modules, leaves, "/", whole, zeros=(SEGMENTS,) if is_without else ())


def split_heads(
    modules: Mapping[str, str], leaves: Mapping[str, Leaf], num_heads: int
) -> dict[str, SplitHeads]:
    """The variables of attention where it is Keras's own layer, with whole names."""
    whole = {}
    for name in ("query", "key", "value", "output"):
        path = f"block_#/attention/{name}"
        kernel, bias = (f"{modules[path]}/{leaves[leaf].name}" for leaf in ("kernel", "bias"))
        axis = 0 if name == "output" else -1
        whole[f"{path}/kernel"] = SplitHeads(kernel, num_heads=num_heads, axis=axis)
        if name != "output":
            whole[f"{path}/bias"] = SplitHeads(bias, num_heads=num_heads)
    return whole
