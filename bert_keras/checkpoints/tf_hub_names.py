"""What Google's encoders on TensorFlow Hub and Kaggle call their variables. Tables, and renaming.

The names are those of TensorFlow's Model Garden (official/nlp/modeling), which exported them.
"""

from __future__ import annotations

import re

from bert_keras.checkpoints.format import Leaf, Names
from bert_keras.checkpoints.keras_hub_layout import LEAVES, split_heads

_BLOCK = {
    "attention/query": "self_attention/query",
    "attention/key": "self_attention/key",
    "attention/value": "self_attention/value",
    "attention/output": "self_attention/attention_output",
    "attention_layer_norm": "self_attention_layer_norm",
    "feedforward/intermediate": "intermediate",
    "feedforward/output": "output",
    "feedforward_layer_norm": "output_layer_norm",
}
_MODULES = {
    "embeddings/token": "word_embeddings",
    "embeddings/position": "position_embedding",
    "embeddings/segment": "type_embeddings",
    "embeddings/layer_norm": "embeddings/layer_norm",
    "embeddings/projection": "embedding_projection",
    "pooler/dense": "pooler_transform",
    "mlm/dense": "cls/predictions/transform/dense",
    "mlm/layer_norm": "cls/predictions/transform/LayerNorm",
    "mlm": "cls/predictions/output_bias",
}
POOLER, HEAD = "pooler_transform/kernel", "cls/predictions/transform/dense/kernel"
PROJECTION = "embedding_projection/kernel"
# The first models of 2019 and 2020 -> those after them.
_OLD = {
    "embedding_postprocessor/type_embeddings": "type_embeddings/embeddings",
    "embedding_postprocessor/position_embeddings": "position_embedding/embeddings",
    "embedding_postprocessor/layer_norm/": "embeddings/layer_norm/",
    "encoder/layer_": "transformer/layer_",
    "/self_attention_output/": "/self_attention/attention_output/",
}
_STARTS = (
    *("word_embeddings/", "position_embedding/", "type_embeddings/", "embeddings/layer_norm/"),
    *("embedding_projection/", "embedding_postprocessor/", "encoder/layer_", "transformer/"),
    *("pooler_transform/", "cls/predictions/"),
)
_MODEL = re.compile(rf"^(?:.*?/)?(?={'|'.join(map(re.escape, _STARTS))})")
_MODULE = re.compile(r"^module(?:_\d+)?/")


def current_name(variable: str) -> str:
    """The name by which the tables know a variable that may be of a named model, or an old one."""
    variable = _MODEL.sub("", variable)
    for old, current in _OLD.items():
        variable = variable.replace(old, current)
    return variable


def tf1_name(variable: str) -> str:
    """The name by which `google_tf1` knows a variable of a module of TensorFlow 1."""
    return _MODULE.sub("", variable)


def names_of(num_heads: int, *, shared: bool) -> Names:
    """The names of an encoder, with or without the head of a masked language model.

    Args:
        num_heads: of a block; their attention has an axis for the heads.
        shared: whether all layers share one block, as in ALBERT.
    """
    block = "transformer" if shared else "transformer/layer_#"
    blocks = {f"block_#/{ours}": f"{block}/{theirs}" for ours, theirs in _BLOCK.items()}
    modules = {**_MODULES, **blocks}
    whole: dict[str, Leaf] = {**split_heads(modules, LEAVES, num_heads)}
    return Names(modules, LEAVES, "/", whole)
