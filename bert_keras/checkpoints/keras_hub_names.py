"""What KerasHub calls its models' variables, in memory and in files. Nothing but tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from bert_keras.config import BertConfig

# Our layers -> theirs: the path of a variable in memory.
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
# Their layers in memory -> in model.weights.h5, where layers are known by class and number.
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
    return {f"block_#/{ours}": f"{name}/{theirs}" for ours, theirs in _BLOCK.items()}


def _joint(name: str) -> dict[str, str]:
    """Tables of a layer that holds two of them."""
    return {
        "embeddings/token": f"{name}/token_embedding",
        "embeddings/position": f"{name}/position_embedding",
        "embeddings/layer_norm": "embeddings_layer_norm",
    }


@dataclasses.dataclass(frozen=True, kw_only=True)
class Head:
    """What a task class of theirs has on top of its backbone.

    Attributes:
        class_name: our class.
        modules: our layers -> theirs in memory, and in task.weights.h5.
        whole: our variables -> theirs, likewise, where the name does not follow from the layer's.
        keys: our options -> theirs.
        fixed: our options that every such task has.
    """

    class_name: str
    modules: Mapping[str, tuple[str, str]] = dataclasses.field(default_factory=dict)
    whole: Mapping[str, tuple[str, str]] = dataclasses.field(default_factory=dict)
    keys: Mapping[str, str] = dataclasses.field(default_factory=dict)
    fixed: Mapping[str, Any] = dataclasses.field(default_factory=dict)


_CLASSES = {"num_classes": "num_classes", "dropout": "dropout"}
# BERT and ALBERT label the pooled output.
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
    """With their own epsilon, whatever the backbone's is."""
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
    """A backbone class of theirs.

    Attributes:
        family: ours.
        modules: our layers -> theirs in memory, `#` for the block's number.
        keys: our config values -> theirs.
        fixed: our config values that every such backbone has.
        heads: the endings of the names of its task classes -> what they add.
        dense: their plain dense layers, in the order in which a file numbers them.
    """

    family: str
    modules: Mapping[str, str]
    keys: Mapping[str, str]
    fixed: Mapping[str, Any]
    heads: Mapping[str, Head] = dataclasses.field(default_factory=dict)
    dense: tuple[str, ...] = ()

    def file_modules(self, config: BertConfig) -> dict[str, str]:
        """Our layers -> theirs in model.weights.h5."""
        has_projection = config.table_size != config.hidden_size
        dense = [name for name in self.dense if has_projection or "projection" not in name]
        found = {}
        for ours, theirs in self.modules.items():
            head, _, rest = theirs.partition("/")
            if ours.startswith("block_#/"):
                found[ours] = f"layers/transformer_encoder_#/{_FILE[rest]}"
            elif rest:
                found[ours] = f"layers/token_and_position_embedding/{rest}"
            elif theirs in _FILE:
                found[ours] = f"layers/{_FILE[theirs]}"
            elif head in dense:
                number = dense.index(head)
                found[ours] = f"layers/dense_{number}" if number else "layers/dense"
        return found


_TANH = {"activation": "gelu_tanh", "layer_norm_epsilon": 1e-12, "pooler": True}
_SEGMENTS = {"num_segments": "num_segments"}
_ROBERTA = Backbone(
    family="roberta",
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
        family="bert",
        modules={**_TABLES, **_blocks("transformer_layer_#"), "pooler/dense": "pooled_dense"},
        keys={**_SIZES, **_SEGMENTS},
        fixed=_TANH,
        heads={"TextClassifier": _LABELS, "MaskedLM": _mlm("gelu"), "TextEmbedder": _VECTORS},
        dense=("pooled_dense",),
    ),
    "RobertaBackbone": _ROBERTA,
    "XLMRobertaBackbone": dataclasses.replace(
        _ROBERTA, heads={**_ROBERTA.heads, "TextEmbedder": _VECTORS}
    ),
    "DistilBertBackbone": Backbone(
        family="distilbert",
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
        family="albert",
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
        family="electra",
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
