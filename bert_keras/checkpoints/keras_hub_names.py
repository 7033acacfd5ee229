"""KerasHub's names and layouts of variables, in memory and in its weights files."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from bert_keras import file_io
from bert_keras.checkpoints import hugging_face_names
from bert_keras.checkpoints.name_mapping import LeafRule, NameMap, Shape
from bert_keras.config import BertConfig
from bert_keras.errors import ArtifactError

_KINDS = ("kernel", "bias", "embeddings", "gamma", "beta")
LEAVES = {name: LeafRule(name) for name in _KINDS}
# Keras's weights files number the variables of a layer.
FILE_LEAVES = {name: LeafRule(f"vars/{int(name in ('bias', 'beta'))}") for name in _KINDS}
SEGMENTS = "embeddings/segment/embeddings"
POSITIONS = "embeddings/position/embeddings"


@dataclasses.dataclass(frozen=True)
class SplitHeads(LeafRule):
    """An attention variable whose axis of all heads is stored as two axes.

    For example a query kernel (hidden, hidden) is stored as (hidden, heads, head size).

    Attributes:
        num_heads: number of heads.
        axis: the axis of our variable that is split.
    """

    num_heads: int = 1
    axis: int = -1

    @property
    def same_rows(self) -> bool:
        """False: the stored tensor has other axes."""
        return False

    def shape(self, ours: Shape) -> Shape:
        """Return the stored shape: the split axis becomes (num_heads, head size)."""
        sizes, axis = list(ours), self.axis % len(ours)
        return (*sizes[:axis], self.num_heads, sizes[axis] // self.num_heads, *sizes[axis + 1 :])

    def to_checkpoint_layout(self, array: np.ndarray) -> np.ndarray:
        """Split the axis of all heads."""
        return array.reshape(self.shape(array.shape))

    def to_keras_layout(self, array: np.ndarray) -> np.ndarray:
        """Join the two axes again."""
        axis = self.axis % (array.ndim - 1)
        return array.reshape((*array.shape[:axis], -1, *array.shape[axis + 2 :]))


@dataclasses.dataclass(frozen=True)
class LaterRows(LeafRule):
    """RoBERTa's position table, which KerasHub stores without its unused first rows.

    Attributes:
        offset: number of unused rows before the first position.
        added: vector of shape (size,) that is added to every row when the table is written.
    """

    offset: int = 0
    added: Any = dataclasses.field(default=None, compare=False)

    @property
    def same_rows(self) -> bool:
        """False: the stored tensor has fewer rows."""
        return False

    def shape(self, ours: Shape) -> Shape:
        """Return the stored shape: (positions, size)."""
        return (ours[0] - self.offset, *ours[1:])

    def to_checkpoint_layout(self, array: np.ndarray) -> np.ndarray:
        """Remove the unused rows and add `added` to the others."""
        rows = array[self.offset :]
        return rows if self.added is None else rows + self.added

    def to_keras_layout(self, array: np.ndarray) -> np.ndarray:
        """Insert rows of zeros before the first position."""
        return np.pad(array, [(self.offset, 0), *[(0, 0)] * (array.ndim - 1)])


def read_config_of(backbone: Backbone, values: Mapping[str, Any], what: str) -> BertConfig:
    """Translate the config of a KerasHub backbone into ours.

    Args:
        backbone: description of the backbone's class.
        values: arguments of the backbone's constructor.
        what: name of its file or class, for messages.

    Raises:
        ArtifactError: if a value is missing or not supported.
    """
    if (number := values.get("num_inner_repetitions", 1)) != 1:
        message = f"not supported: num_inner_repetitions={number!r:.100}. Supported: 1"
        raise ArtifactError(f"{what}: {message}")
    known = {*backbone.keys.values(), *hugging_face_names.KERAS_LAYER, "num_inner_repetitions"}
    file_io.refuse_unknown_keys(what, values, known)
    if missing := sorted(set(backbone.keys.values()) - set(values)):
        raise ArtifactError(
            f"{what}: missing: {', '.join(missing)}. Add the arguments that it was made with."
        )
    ours = {name: values[theirs] for name, theirs in backbone.keys.items()}
    ours |= {"attention_dropout": ours["dropout"], **backbone.fixed, "family": backbone.families[0]}
    # KerasHub's ALBERT always projects the embeddings; ours does so only for different widths.
    if ours["family"] == "albert" and ours["embedding_size"] == ours["hidden_size"]:
        message = "embedding_dim=hidden_dim. Supported: an ALBERT with two different values"
        raise ArtifactError(f"{what}: not supported: {message}")
    try:
        return BertConfig.from_dict(ours)
    except ValueError as error:
        raise ArtifactError(f"{what}: {error}") from error


def names_by(
    modules: Mapping[str, str],
    leaves: Mapping[str, LeafRule],
    config: BertConfig,
    segment: np.ndarray | None = None,
) -> NameMap:
    """Return the names of a backbone's variables, in memory or in a file.

    Args:
        modules: path of our layer -> KerasHub's name.
        leaves: name of our variable -> KerasHub's rule.
        config: config of the encoder.
        segment: vector to add to every row of the position table when it is written.
    """
    whole: dict[str, LeafRule] = {**split_heads(modules, leaves, config.num_heads)}
    if config.position_offset:
        table = f"{modules['embeddings/position']}/{leaves['embeddings'].name}"
        whole[POSITIONS] = LaterRows(table, offset=config.position_offset, added=segment)
    # KerasHub's RoBERTa has no segment table: its vector is part of every position.
    is_without = config.num_segments > 0 and "embeddings/segment" not in modules
    return NameMap(modules, leaves, "/", whole, zeros=(SEGMENTS,) if is_without else ())


def split_heads(
    modules: Mapping[str, str], leaves: Mapping[str, LeafRule], num_heads: int
) -> dict[str, SplitHeads]:
    """Return our attention variables -> their names in Keras's `MultiHeadAttention` layer."""
    whole = {}
    for name in ("query", "key", "value", "output"):
        path = f"block_#/attention/{name}"
        kernel, bias = (f"{modules[path]}/{leaves[leaf].name}" for leaf in ("kernel", "bias"))
        axis = 0 if name == "output" else -1
        whole[f"{path}/kernel"] = SplitHeads(kernel, num_heads=num_heads, axis=axis)
        if name != "output":
            whole[f"{path}/bias"] = SplitHeads(bias, num_heads=num_heads)
    return whole


# === Names ===

# Path of our layer -> path of KerasHub's layer in memory.
_BLOCK = {
    "attention/query": "self_attention_layer/query",
    "attention/key": "self_attention_layer/key",
    "attention/value": "self_attention_layer/value",
    "attention/output": "self_attention_layer/attention_output",
    "attention_layer_norm": "self_attention_layer_norm",
    "feedforward/intermediate": "feedforward_intermediate_dense",
    "feedforward/output": "feedforward_output_dense",
    "feedforward_layer_norm": "feedforward_layer_norm",
}
_TABLES = {
    "embeddings/token": "token_embedding",
    "embeddings/segment": "segment_embedding",
    "embeddings/position": "position_embedding",
    "embeddings/layer_norm": "embeddings_layer_norm",
}
# KerasHub's layer in memory -> its name in model.weights.h5, which follows from class and number.
_FILE = {
    "token_embedding": "reversible_embedding",
    "segment_embedding": "embedding",
    "position_embedding": "position_embedding",
    "embeddings_layer_norm": "layer_normalization",
    "self_attention_layer/query": "_self_attention_layer/query_dense",
    "self_attention_layer/key": "_self_attention_layer/key_dense",
    "self_attention_layer/value": "_self_attention_layer/value_dense",
    "self_attention_layer/attention_output": "_self_attention_layer/output_dense",
    "self_attention_layer_norm": "_self_attention_layer_norm",
    "feedforward_intermediate_dense": "_feedforward_intermediate_dense",
    "feedforward_output_dense": "_feedforward_output_dense",
    "feedforward_layer_norm": "_feedforward_layer_norm",
}
_SIZES = {
    "vocab_size": "vocabulary_size",
    "hidden_size": "hidden_dim",
    "num_layers": "num_layers",
    "num_heads": "num_heads",
    "intermediate_size": "intermediate_dim",
    "max_positions": "max_sequence_length",
    "dropout": "dropout",
}


def _blocks(name: str) -> dict[str, str]:
    """Return the layers of a transformer block, which KerasHub calls `name`."""
    return {f"block_#/{ours}": f"{name}/{theirs}" for ours, theirs in _BLOCK.items()}


def _joint(name: str) -> dict[str, str]:
    """Return the embedding tables of KerasHub's joint layer for tokens and positions."""
    return {
        "embeddings/token": f"{name}/token_embedding",
        "embeddings/position": f"{name}/position_embedding",
        "embeddings/layer_norm": "embeddings_layer_norm",
    }


@dataclasses.dataclass(frozen=True, kw_only=True)
class Head:
    """The head that a task class of KerasHub has on top of its backbone.

    Attributes:
        class_name: name of our class.
        modules: path of our layer -> KerasHub's names (in memory, in task.weights.h5).
        whole: path of our variable -> the same, for names that do not follow from `modules`.
        keys: our option -> KerasHub's option.
        fixed: our option -> its value in every such task.
    """

    class_name: str
    modules: Mapping[str, tuple[str, str]] = dataclasses.field(default_factory=dict)
    whole: Mapping[str, tuple[str, str]] = dataclasses.field(default_factory=dict)
    keys: Mapping[str, str] = dataclasses.field(default_factory=dict)
    fixed: Mapping[str, Any] = dataclasses.field(default_factory=dict)


_CLASSES = {"num_classes": "num_classes", "dropout": "dropout"}
# BERT and ALBERT classify the pooled output.
_LABELS = Head(
    class_name="SequenceClassifier",
    modules={"label/output": ("logits", "layers/dense")},
    keys=_CLASSES,
    fixed={"hidden_activation": None},
)
_VECTORS = Head(
    class_name="SentenceEncoder", keys={"pooling": "pooling_mode", "normalize": "normalize"}
)


def _deep_labels(**fixed: Any) -> Head:
    """Return a classification head with a hidden layer."""
    return Head(
        class_name="SequenceClassifier",
        modules={
            "label/dense": ("pooled_dense", "layers/dense"),
            "label/output": ("logits", "layers/dense_1"),
        },
        keys=_CLASSES,
        fixed=fixed,
    )


def _mlm(activation: str) -> Head:
    """Return the MLM head. Its layer norm always has epsilon 1e-5."""
    return Head(
        class_name="MaskedLM",
        modules={
            f"mlm/{ours}": (f"mlm_head/{theirs}", f"layers/masked_lm_head/_{theirs}")
            for ours, theirs in {
                "dense": "intermediate_dense",
                "layer_norm": "intermediate_layer_norm",
            }.items()
        },
        whole={"mlm/bias": ("mlm_head/output_bias", "layers/masked_lm_head/vars/0")},
        fixed={"activation": activation, "layer_norm_epsilon": 1e-5},
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Backbone:
    """A backbone class of KerasHub.

    Attributes:
        families: the model families that it computes; its configs are read as the first of them.
        modules: path of our layer -> KerasHub's path in memory; `#` stands for the block number.
        keys: our config key -> KerasHub's argument.
        fixed: our config key -> its value in every such backbone.
        heads: ending of the name of a task class -> its head.
        dense: names of its plain dense layers, in the order in which a weights file numbers them.
    """

    families: tuple[str, ...]
    modules: Mapping[str, str]
    keys: Mapping[str, str]
    fixed: Mapping[str, Any]
    heads: Mapping[str, Head] = dataclasses.field(default_factory=dict)
    dense: tuple[str, ...] = ()

    def file_modules(self, config: BertConfig) -> dict[str, str]:
        """Return the path of each of our layers -> its name in model.weights.h5."""
        has_projection = config.table_size != config.hidden_size
        dense = [name for name in self.dense if has_projection or "projection" not in name]
        file_names = {}
        for ours, theirs in self.modules.items():
            layer, _, rest = theirs.partition("/")
            if ours.startswith("block_#/"):
                file_names[ours] = f"layers/transformer_encoder_#/{_FILE[rest]}"
            elif rest:
                file_names[ours] = f"layers/token_and_position_embedding/{rest}"
            elif theirs in _FILE:
                file_names[ours] = f"layers/{_FILE[theirs]}"
            elif layer in dense:
                number = dense.index(layer)
                file_names[ours] = f"layers/dense_{number}" if number else "layers/dense"
        return file_names


_TANH = {"activation": "gelu_tanh", "layer_norm_epsilon": 1e-12, "pooler": True}
_SEGMENTS = {"num_segments": "num_segments"}
_ROBERTA = Backbone(
    families=("roberta", "xlm_roberta"),
    modules={**_joint("embeddings"), **_blocks("transformer_layer_#")},
    keys=_SIZES,
    fixed={
        "activation": "gelu",
        "layer_norm_epsilon": 1e-5,
        "pooler": False,
        "num_segments": 1,
        "position_offset": 2,
    },
    heads={"TextClassifier": _deep_labels(hidden_activation="tanh"), "MaskedLM": _mlm("gelu")},
)

BACKBONES = {
    "BertBackbone": Backbone(
        families=("bert",),
        modules={**_TABLES, **_blocks("transformer_layer_#"), "pooler/dense": "pooled_dense"},
        keys={**_SIZES, **_SEGMENTS},
        fixed=_TANH,
        heads={"TextClassifier": _LABELS, "MaskedLM": _mlm("gelu"), "TextEmbedder": _VECTORS},
        dense=("pooled_dense",),
    ),
    "RobertaBackbone": _ROBERTA,
    "XLMRobertaBackbone": dataclasses.replace(
        _ROBERTA,
        families=("xlm_roberta", "roberta"),
        heads={**_ROBERTA.heads, "TextEmbedder": _VECTORS},
    ),
    "DistilBertBackbone": Backbone(
        families=("distilbert",),
        modules={**_joint("token_and_position_embedding"), **_blocks("transformer_layer_#")},
        keys=_SIZES,
        fixed={
            "activation": "gelu",
            "layer_norm_epsilon": 1e-12,
            "pooler": False,
            "num_segments": 0,
        },
        heads={
            "TextClassifier": _deep_labels(hidden_activation="relu", hidden_dropout=0.0),
            "MaskedLM": _mlm("gelu"),
        },
    ),
    "AlbertBackbone": Backbone(
        families=("albert",),
        modules={
            **_TABLES,
            "embeddings/projection": "embedding_projection",
            **_blocks("group_#_inner_layer_0"),
            "pooler/dense": "pooled_dense",
        },
        keys={
            **_SIZES,
            **_SEGMENTS,
            "embedding_size": "embedding_dim",
            "num_unique_layers": "num_groups",
        },
        fixed=_TANH,
        heads={"TextClassifier": _LABELS, "MaskedLM": _mlm("gelu_tanh")},
        dense=("embedding_projection", "pooled_dense"),
    ),
    "ElectraBackbone": Backbone(
        families=("electra",),
        modules={
            **_TABLES,
            "embeddings/projection": "embeddings_projection",
            **_blocks("transformer_layer_#"),
            "pooler/dense": "pooled_dense",
        },
        keys={
            **_SIZES,
            **_SEGMENTS,
            "embedding_size": "embedding_dim",
            "vocab_size": "vocab_size",
        },
        fixed=_TANH,
        dense=("embeddings_projection", "pooled_dense"),
    ),
}
