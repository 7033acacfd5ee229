"""What Google's code for TensorFlow 1 calls the variables. Nothing but tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from bert_keras.checkpoints.format import Leaf

# The config file of each family. ELECTRA was published without one.
CONFIGS = {name: f"{name}_config.json" for name in ("bert", "albert", "electra")}
LEAVES = {
    "kernel": Leaf("kernel"),
    "bias": Leaf("bias"),
    "embeddings": Leaf(""),
    "gamma": Leaf("gamma"),
    "beta": Leaf("beta"),
}
HEADS = ("mlm", "nsp", "sop", "label", "span", "rtd", "generator")
_GENERATOR, _DISCRIMINATOR = "generator_predictions/output_bias", "discriminator_predictions/dense"
# The variables by which a class is known, all of them; the first that has them counts.
TOLD_BY = (
    ("Pretrainer", {"cls/seq_relationship/output_weights"}),
    ("ElectraPretrainer", {_GENERATOR, f"{_DISCRIMINATOR}/kernel"}),
    ("ReplacedTokenDetector", {f"{_DISCRIMINATOR}/kernel"}),
    ("MaskedLM", {"cls/predictions/output_bias"}),
    ("MaskedLM", {_GENERATOR}),
    ("QuestionAnswerer", {"cls/squad/output_weights"}),
    ("SequenceClassifier", {"output_weights"}),
)

_EMBEDDINGS = {
    "embeddings/token": "embeddings/word_embeddings",
    "embeddings/segment": "embeddings/token_type_embeddings",
    "embeddings/position": "embeddings/position_embeddings",
    "embeddings/layer_norm": "embeddings/LayerNorm",
}
_BLOCK = {
    "block_#/attention/query": "encoder/layer_#/attention/self/query",
    "block_#/attention/key": "encoder/layer_#/attention/self/key",
    "block_#/attention/value": "encoder/layer_#/attention/self/value",
    "block_#/attention/output": "encoder/layer_#/attention/output/dense",
    "block_#/attention_layer_norm": "encoder/layer_#/attention/output/LayerNorm",
    "block_#/feedforward/intermediate": "encoder/layer_#/intermediate/dense",
    "block_#/feedforward/output": "encoder/layer_#/output/dense",
    "block_#/feedforward_layer_norm": "encoder/layer_#/output/LayerNorm",
}
_MLM = {
    "mlm/dense": "cls/predictions/transform/dense",
    "mlm/layer_norm": "cls/predictions/transform/LayerNorm",
}
# Scores of classes: their matrix has a row per class.
_CLASSIFIERS = {
    "label/output/kernel": Leaf("output_weights", transposed=True),
    "label/output/bias": Leaf("output_bias"),
    "span/output/kernel": Leaf("cls/squad/output_weights", transposed=True),
    "span/output/bias": Leaf("cls/squad/output_bias"),
}


def _pairs(name: str) -> dict[str, Leaf]:
    return {
        "mlm/bias": Leaf("cls/predictions/output_bias"),
        f"{name}/dense/kernel": Leaf("cls/seq_relationship/output_weights", transposed=True),
        f"{name}/dense/bias": Leaf("cls/seq_relationship/output_bias"),
    }


@dataclasses.dataclass(frozen=True)
class GoogleFamily:
    """A family in Google's words.

    Attributes:
        prefix: of the encoder's variables.
        modules: our layers -> theirs, `#` for the block's number.
        whole: our variables -> theirs, where the rows do not say it.
    """

    prefix: str
    modules: Mapping[str, str]
    whole: Mapping[str, Leaf]


FAMILIES = {
    "bert": GoogleFamily(
        "bert/",
        {**_EMBEDDINGS, **_BLOCK, "pooler/dense": "pooler/dense", **_MLM},
        {**_pairs("nsp"), **_CLASSIFIERS},
    ),
    "albert": GoogleFamily(
        "bert/",
        {
            **_EMBEDDINGS,
            "embeddings/projection": "encoder/embedding_hidden_mapping_in",
            **{
                f"block_#/{ours}": f"encoder/transformer/group_#/inner_group_0/{theirs}"
                for ours, theirs in {
                    "attention/query": "attention_1/self/query",
                    "attention/key": "attention_1/self/key",
                    "attention/value": "attention_1/self/value",
                    "attention/output": "attention_1/output/dense",
                    "attention_layer_norm": "LayerNorm",
                    "feedforward/intermediate": "ffn_1/intermediate/dense",
                    "feedforward/output": "ffn_1/intermediate/output/dense",
                    "feedforward_layer_norm": "LayerNorm_1",
                }.items()
            },
            "pooler/dense": "pooler/dense",
            **_MLM,
        },
        {**_pairs("sop"), **_CLASSIFIERS},
    ),
    "electra": GoogleFamily(
        "electra/",
        {
            **_EMBEDDINGS,
            "embeddings/projection": "embeddings_project",
            **_BLOCK,
            "mlm/dense": "generator_predictions/dense",
            "mlm/layer_norm": "generator_predictions/LayerNorm",
            "generator/projection": "generator/embeddings_project",
            **{f"generator/{ours}": f"generator/{theirs}" for ours, theirs in _BLOCK.items()},
            "rtd/dense": "discriminator_predictions/dense",
            "rtd/output": "discriminator_predictions/dense_1",
        },
        {"mlm/bias": Leaf("generator_predictions/output_bias")},
    ),
}
