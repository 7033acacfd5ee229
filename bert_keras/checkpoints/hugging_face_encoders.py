"""Tables of Hugging Face's names for RoBERTa and its kin, and for encoders after BERT's generation.

A family is a row of values: it has no class of its own. Values that Hugging Face's library computes
and this package does not are in `required`, so that they are refused by name.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from bert_keras.checkpoints.hugging_face_family import (
    BLOCK,
    CLASSIFIERS,
    DEEP_LABEL,
    DEFAULTS,
    EMBEDDINGS,
    Conversion,
    Family,
    classes_of,
)

# Kind of rotary positions whose rates do not depend on the length of a text.
_PLAIN_ROTATION = ("default",)

ROBERTA = Family(
    model_types=("roberta",),
    prefix="roberta.",
    encoder={**EMBEDDINGS, **BLOCK, "pooler/dense": "pooler.dense"},
    heads={
        "mlm/dense": "lm_head.dense",
        "mlm/layer_norm": "lm_head.layer_norm",
        "mlm": "lm_head",
        **CLASSIFIERS,
        **DEEP_LABEL,
    },
    classes=classes_of("Roberta"),
    pad_token_id=1,
    position_offset=None,
    redundant=("embeddings.position_ids", "lm_head.decoder.weight", "lm_head.decoder.bias"),
    hidden_activation={"SequenceClassifier": "tanh"},
    mlm_activation="gelu",
)
_KIN = {
    "xlm_roberta": ("xlm-roberta", "XLMRoberta", "roberta."),
    "camembert": ("camembert", "Camembert", "roberta."),
    "data2vec_text": ("data2vec-text", "Data2VecText", "data2vec_text."),
}
# Heads of ModernBERT. All have the same hidden layer.
_CLASSIFYING = ("SequenceClassifier", "TokenClassifier", "QuestionAnswerer", "MultipleChoice")
_OUTPUTS = ("label", "tags", "span", "choice")


def _block(block: str, names: Mapping[str, str]) -> dict[str, str]:
    """Return the rows of the layers of a block, whose names begin with `block`."""
    return {f"block_#/{ours}": f"{block}.{theirs}" for ours, theirs in names.items()}


def _fused(name: str, *parts: str) -> dict[str, str]:
    """Return the rows of layers that one tensor stores, in their order in it."""
    return dict.fromkeys(parts, name)


def _half(window: Any) -> Any:
    """Return the tokens to one side of a window of tokens to both sides."""
    return window // 2 if type(window) is int else window


def _twice(window: Any) -> Any:
    """Return the tokens to both sides of a window of tokens to one side."""
    return 2 * window if type(window) is int else window


MORE_FAMILIES = {
    **{
        name: dataclasses.replace(
            ROBERTA, model_types=(kind,), classes=classes_of(classes), prefix=prefix
        )
        for name, (kind, classes, prefix) in _KIN.items()
    },
    "mpnet": Family(
        model_types=("mpnet",),
        prefix="mpnet.",
        encoder={
            **{name: theirs for name, theirs in EMBEDDINGS.items() if "segment" not in name},
            "distance_bias/table": "encoder.relative_attention_bias",
            **_block(
                "encoder.layer.#",
                {
                    "attention/query": "attention.attn.q",
                    "attention/key": "attention.attn.k",
                    "attention/value": "attention.attn.v",
                    "attention/output": "attention.attn.o",
                    "attention_layer_norm": "attention.LayerNorm",
                    "feedforward/intermediate": "intermediate.dense",
                    "feedforward/output": "output.dense",
                    "feedforward_layer_norm": "output.LayerNorm",
                },
            ),
            "pooler/dense": "pooler.dense",
        },
        heads=ROBERTA.heads,
        classes=classes_of("MPNet"),
        constants={
            "activation": "hidden_act",
            "layer_norm_epsilon": "layer_norm_eps",
            "dropout": "hidden_dropout_prob",
            "attention_dropout": "attention_probs_dropout_prob",
            "initializer_range": "initializer_range",
            "position_buckets": "relative_attention_num_buckets",
        },
        defaults={**DEFAULTS, "relative_attention_num_buckets": 32},
        # The library computes 32 buckets, whatever the config says.
        required={"relative_attention_num_buckets": (32,)},
        fixed={"num_segments": 0, "attention_positions": "buckets", "max_distance": 128},
        position_offset=2,
        pad_token_id=1,
        redundant=ROBERTA.redundant,
        hidden_activation=ROBERTA.hidden_activation,
        mlm_activation="gelu",
    ),
    "modernbert": Family(
        model_types=("modernbert",),
        prefix="model.",
        encoder={
            "embeddings/token": "embeddings.tok_embeddings",
            "embeddings/layer_norm": "embeddings.norm",
            **_block(
                "layers.#",
                {
                    "attention_layer_norm": "attn_norm",
                    **_fused("attn.Wqkv", "attention/query", "attention/key", "attention/value"),
                    "attention/output": "attn.Wo",
                    "feedforward_layer_norm": "mlp_norm",
                    **_fused("mlp.Wi", "feedforward/gate", "feedforward/intermediate"),
                    "feedforward/output": "mlp.Wo",
                },
            ),
            "final_norm": "final_norm",
        },
        heads={
            **{f"{head}/dense": "head.dense" for head in ("mlm", *_OUTPUTS)},
            **{f"{head}/layer_norm": "head.norm" for head in ("mlm", *_OUTPUTS)},
            **{f"{head}/output": "classifier" for head in _OUTPUTS},
            "mlm": "decoder",
        },
        classes=classes_of("ModernBert"),
        constants={
            "activation": "hidden_activation",
            "layer_norm_epsilon": "norm_eps",
            "norm_bias": "norm_bias",
            "dropout": "embedding_dropout",
            "attention_dropout": "attention_dropout",
            "intermediate_dropout": "mlp_dropout",
            "initializer_range": "initializer_range",
            "attention_bias": "attention_bias",
            "intermediate_bias": "mlp_bias",
            "output_bias": "mlp_bias",
            "window": "local_attention",
            "rotary_base": "rope_parameters/full_attention/rope_theta",
            "local_rotary_base": "rope_parameters/sliding_attention/rope_theta",
        },
        defaults={
            "hidden_activation": "gelu",
            "norm_eps": 1e-5,
            **dict.fromkeys(("norm_bias", "attention_bias", "mlp_bias"), False),
            **dict.fromkeys(("embedding_dropout", "attention_dropout", "mlp_dropout"), 0.0),
            "initializer_range": 0.02,
            "local_attention": 128,
            "rope_parameters/full_attention/rope_theta": 160_000.0,
            "rope_parameters/sliding_attention/rope_theta": 10_000.0,
            "classifier_pooling": "cls",
        },
        conversions={"window": Conversion(_half, _twice)},
        aliases={
            "rope_parameters/full_attention/rope_theta": ("global_rope_theta",),
            "rope_parameters/sliding_attention/rope_theta": ("local_rope_theta",),
        },
        required={
            "rope_parameters/full_attention/rope_type": _PLAIN_ROTATION,
            "rope_parameters/sliding_attention/rope_type": _PLAIN_ROTATION,
            "decoder_bias": (True,),
            "classifier_bias": (False,),
            "classifier_activation": ("gelu",),
        },
        irrelevant=(
            *("deterministic_flash_attn", "reference_compile", "repad_logits_with_grad"),
            *("sparse_prediction", "sparse_pred_ignore_index", "initializer_cutoff_factor"),
        ),
        fixed={
            "num_segments": 0,
            "pooler": False,
            "block": "pre_norm",
            "first_norm": False,
            "gated": True,
            "position_embedding": "none",
            "attention_positions": "rotary",
        },
        has_layer_types=True,
        pad_token_id=50_283,
        redundant=("decoder.weight",),
        hidden_activation=dict.fromkeys(_CLASSIFYING, "gelu"),
        hidden_dropout=0.0,
        hidden_norm=True,
        hidden_bias=False,
        mlm_activation="gelu",
        pooling="classifier_pooling",
        head_dropout=dict.fromkeys(_CLASSIFYING, "classifier_dropout"),
    ),
}
