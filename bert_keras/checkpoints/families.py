"""How Hugging Face names the families: layers, heads, classes, config keys. Nothing but tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

# What the first PyTorch port called them is in `hugging_face`.
_EMBEDDINGS = {
    "embeddings/token": "embeddings.word_embeddings",
    "embeddings/segment": "embeddings.token_type_embeddings",
    "embeddings/position": "embeddings.position_embeddings",
    "embeddings/layer_norm": "embeddings.LayerNorm",
}
_BLOCK = {
    "block_#/attention/query": "encoder.layer.#.attention.self.query",
    "block_#/attention/key": "encoder.layer.#.attention.self.key",
    "block_#/attention/value": "encoder.layer.#.attention.self.value",
    "block_#/attention/distance": "encoder.layer.#.attention.self.distance_embedding",
    "block_#/attention/output": "encoder.layer.#.attention.output.dense",
    "block_#/attention_layer_norm": "encoder.layer.#.attention.output.LayerNorm",
    "block_#/feedforward/intermediate": "encoder.layer.#.intermediate.dense",
    "block_#/feedforward/output": "encoder.layer.#.output.dense",
    "block_#/feedforward_layer_norm": "encoder.layer.#.output.LayerNorm",
}
_CLASSIFIERS = {
    "label/output": "classifier",
    "tags/output": "classifier",
    "span/output": "qa_outputs",
    "choice/output": "classifier",
}
# RoBERTa and ELECTRA label a text by a layer of their own, not by the pooler.
_DEEP_LABEL = {"label/dense": "classifier.dense", "label/output": "classifier.out_proj"}

SIZES = {
    "vocab_size": "vocab_size",
    "hidden_size": "hidden_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "intermediate_size": "intermediate_size",
    "max_positions": "max_position_embeddings",
}
CONSTANTS = {
    "num_segments": "type_vocab_size",
    "activation": "hidden_act",
    "layer_norm_epsilon": "layer_norm_eps",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
    "initializer_range": "initializer_range",
    "position_embedding": "position_embedding_type",
}
# Their values where a config does not say them.
_DEFAULTS = {
    "type_vocab_size": 2,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-12,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "initializer_range": 0.02,
    "position_embedding_type": "absolute",
}
_TASKS = {
    "MaskedLM": "ForMaskedLM",
    "SequenceClassifier": "ForSequenceClassification",
    "TokenClassifier": "ForTokenClassification",
    "QuestionAnswerer": "ForQuestionAnswering",
    "MultipleChoice": "ForMultipleChoice",
}
_CLASSIFYING = ("SequenceClassifier", "TokenClassifier", "MultipleChoice")


def _classes(name: str, **more: str) -> dict[str, str]:
    endings = {"BertEncoder": "Model", "SentenceEncoder": "Model", **_TASKS, **more}
    return {ours: f"{name}{ending}" for ours, ending in endings.items()}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Family:
    """A family in Hugging Face's words.

    Attributes:
        model_types: what its config.json is called; the first is written.
        prefix: of the encoder's tensors under a head.
        encoder: our layers -> theirs, `#` for the block's number.
        heads: our head layers -> theirs, whole names.
        classes: our classes -> theirs.
        other_classes: second names of theirs, by ours.
        sizes: our config values -> theirs; a config must say them.
        constants: as `sizes`, but `defaults` are taken where a config does not say them.
        defaults: by their keys.
        fixed: our config values that every model of the family has.
        pad_token_id: what is written.
        redundant: buffers and second names of tied tensors, which carry nothing of their own.
        hidden_activation: of the layer within the heads that label a text or a choice; None where
            the pooler does that work.
        hidden_dropout: before that layer; None for that of the head.
        mlm_activation: of the MLM head; None for the encoder's.
        head_dropout: our classes -> what a config calls the dropout of their heads.
    """

    model_types: tuple[str, ...]
    prefix: str
    encoder: Mapping[str, str]
    heads: Mapping[str, str]
    classes: Mapping[str, str]
    other_classes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    sizes: Mapping[str, str] = dataclasses.field(default_factory=lambda: dict(SIZES))
    constants: Mapping[str, str] = dataclasses.field(default_factory=lambda: dict(CONSTANTS))
    defaults: Mapping[str, Any] = dataclasses.field(default_factory=lambda: dict(_DEFAULTS))
    fixed: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    pad_token_id: int = 0
    redundant: tuple[str, ...] = ("embeddings.position_ids",)
    hidden_activation: Mapping[str, str] = dataclasses.field(default_factory=dict)
    hidden_dropout: float | None = None
    mlm_activation: str | None = None
    head_dropout: Mapping[str, str] = dataclasses.field(
        default_factory=lambda: dict.fromkeys(_CLASSIFYING, "classifier_dropout")
    )

    def calls(self, ours: str) -> tuple[str, ...]:
        """All names of theirs for a class of ours."""
        tables = (self.classes, self.other_classes)
        return tuple(table[ours] for table in tables if ours in table)


FAMILIES = {
    "bert": Family(
        model_types=("bert",),
        prefix="bert.",
        encoder={**_EMBEDDINGS, **_BLOCK, "pooler/dense": "pooler.dense"},
        heads={
            "mlm/dense": "cls.predictions.transform.dense",
            "mlm/layer_norm": "cls.predictions.transform.LayerNorm",
            "mlm": "cls.predictions",
            "nsp/dense": "cls.seq_relationship",
            "sop/dense": "cls.seq_relationship",
            **_CLASSIFIERS,
        },
        classes=_classes("Bert", Pretrainer="ForPreTraining"),
        redundant=(
            "embeddings.position_ids",
            "cls.predictions.decoder.weight",
            "cls.predictions.decoder.bias",
        ),
    ),
    "roberta": Family(
        model_types=("roberta", "xlm-roberta"),
        prefix="roberta.",
        encoder={**_EMBEDDINGS, **_BLOCK, "pooler/dense": "pooler.dense"},
        heads={
            "mlm/dense": "lm_head.dense",
            "mlm/layer_norm": "lm_head.layer_norm",
            "mlm": "lm_head",
            **_CLASSIFIERS,
            **_DEEP_LABEL,
        },
        classes=_classes("Roberta"),
        other_classes=_classes("XLMRoberta"),
        pad_token_id=1,
        redundant=("embeddings.position_ids", "lm_head.decoder.weight", "lm_head.decoder.bias"),
        hidden_activation={"SequenceClassifier": "tanh"},
        mlm_activation="gelu",
    ),
    "distilbert": Family(
        model_types=("distilbert",),
        prefix="distilbert.",
        encoder={
            **{name: theirs for name, theirs in _EMBEDDINGS.items() if "segment" not in name},
            "block_#/attention/query": "transformer.layer.#.attention.q_lin",
            "block_#/attention/key": "transformer.layer.#.attention.k_lin",
            "block_#/attention/value": "transformer.layer.#.attention.v_lin",
            "block_#/attention/output": "transformer.layer.#.attention.out_lin",
            "block_#/attention_layer_norm": "transformer.layer.#.sa_layer_norm",
            "block_#/feedforward/intermediate": "transformer.layer.#.ffn.lin1",
            "block_#/feedforward/output": "transformer.layer.#.ffn.lin2",
            "block_#/feedforward_layer_norm": "transformer.layer.#.output_layer_norm",
        },
        heads={
            "mlm/dense": "vocab_transform",
            "mlm/layer_norm": "vocab_layer_norm",
            "mlm": "vocab_projector",
            **_CLASSIFIERS,
            "label/dense": "pre_classifier",
            "choice/dense": "pre_classifier",
        },
        classes=_classes("DistilBert"),
        sizes={
            "vocab_size": "vocab_size",
            "hidden_size": "dim",
            "num_layers": "n_layers",
            "num_heads": "n_heads",
            "intermediate_size": "hidden_dim",
            "max_positions": "max_position_embeddings",
        },
        constants={
            "activation": "activation",
            "dropout": "dropout",
            "attention_dropout": "attention_dropout",
            "initializer_range": "initializer_range",
            "position_embedding": "sinusoidal_pos_embds",
        },
        defaults={
            "activation": "gelu",
            "dropout": 0.1,
            "attention_dropout": 0.1,
            "initializer_range": 0.02,
            "sinusoidal_pos_embds": False,
        },
        fixed={"num_segments": 0, "pooler": False, "layer_norm_epsilon": 1e-12},
        redundant=("embeddings.position_ids", "vocab_projector.weight"),
        hidden_activation={"SequenceClassifier": "relu", "MultipleChoice": "relu"},
        hidden_dropout=0.0,
        head_dropout={
            "SequenceClassifier": "seq_classif_dropout",
            "MultipleChoice": "seq_classif_dropout",
            "QuestionAnswerer": "qa_dropout",
        },
    ),
    "albert": Family(
        model_types=("albert",),
        prefix="albert.",
        encoder={
            **_EMBEDDINGS,
            "embeddings/projection": "encoder.embedding_hidden_mapping_in",
            **{
                f"block_#/{ours}": f"encoder.albert_layer_groups.#.albert_layers.0.{theirs}"
                for ours, theirs in {
                    "attention/query": "attention.query",
                    "attention/key": "attention.key",
                    "attention/value": "attention.value",
                    "attention/output": "attention.dense",
                    "attention_layer_norm": "attention.LayerNorm",
                    "feedforward/intermediate": "ffn",
                    "feedforward/output": "ffn_output",
                    "feedforward_layer_norm": "full_layer_layer_norm",
                }.items()
            },
            "pooler/dense": "pooler",
        },
        heads={
            "mlm/dense": "predictions.dense",
            "mlm/layer_norm": "predictions.LayerNorm",
            "mlm": "predictions",
            "sop/dense": "sop_classifier.classifier",
            **_CLASSIFIERS,
        },
        classes=_classes("Albert", Pretrainer="ForPreTraining"),
        sizes={**SIZES, "embedding_size": "embedding_size"},
        constants={**CONSTANTS, "num_unique_layers": "num_hidden_groups"},
        defaults={
            **_DEFAULTS,
            "hidden_act": "gelu_new",
            "hidden_dropout_prob": 0.0,
            "attention_probs_dropout_prob": 0.0,
            "num_hidden_groups": 1,
        },
        redundant=(
            "embeddings.position_ids",
            "predictions.decoder.weight",
            "predictions.decoder.bias",
        ),
        head_dropout=dict.fromkeys(_CLASSIFYING, "classifier_dropout_prob"),
    ),
    "electra": Family(
        model_types=("electra",),
        prefix="electra.",
        encoder={**_EMBEDDINGS, "embeddings/projection": "embeddings_project", **_BLOCK},
        heads={
            "mlm/dense": "generator_predictions.dense",
            "mlm/layer_norm": "generator_predictions.LayerNorm",
            "mlm": "generator_lm_head",
            "rtd/dense": "discriminator_predictions.dense",
            "rtd/output": "discriminator_predictions.dense_prediction",
            **_CLASSIFIERS,
            **_DEEP_LABEL,
            "choice/dense": "sequence_summary.summary",
        },
        classes=_classes("Electra", ReplacedTokenDetector="ForPreTraining"),
        sizes={**SIZES, "embedding_size": "embedding_size"},
        fixed={"pooler": False},
        redundant=("embeddings.position_ids", "generator_lm_head.weight"),
        hidden_activation={"SequenceClassifier": "gelu", "MultipleChoice": "gelu"},
        mlm_activation="gelu",
    ),
}

_BERT, _ELECTRA = FAMILIES["bert"], FAMILIES["electra"]
# Names for what no family of theirs has, such as a BERT that shares blocks: every layer there is.
NATIVE = Family(
    model_types=("bert_keras",),
    prefix=_BERT.prefix,
    encoder={**_ELECTRA.encoder, **_BERT.encoder},
    heads={
        **{path: name for path, name in _ELECTRA.heads.items() if path.startswith("rtd/")},
        **_BERT.heads,
        "generator/projection": "generator.embeddings_project",
        **{f"generator/{path}": f"generator.{name}" for path, name in _BLOCK.items()},
        "label/dense": "label_dense",
        "choice/dense": "choice_dense",
        "crf": "crf",
        "mix": "mix",
    },
    classes={"ElectraPretrainer": "", "SentencePairs": ""},  # and those of the others
    redundant=_BERT.redundant,
)
