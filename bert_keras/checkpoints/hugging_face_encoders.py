"""Tables of Hugging Face's names for RoBERTa and its kin, and for MPNet.

A family is a row of values: it has no class of its own. Values that Hugging Face's library computes
and this package does not are in `required`, so that they are refused by name.
"""

from __future__ import annotations

import dataclasses

from bert_keras.checkpoints.hugging_face_family import (
    BLOCK,
    CLASSIFIERS,
    DEEP_LABEL,
    DEFAULTS,
    EMBEDDINGS,
    Family,
    block,
    classes_of,
)
from bert_keras.config_checks import POSITION_EMBEDDINGS

# Jina published its embeddings v3 as code over the model type "xlm-roberta".
_JINA = (
    "This is Jina embeddings v3 with code of its own. Use jinaai/jina-embeddings-v3-hf, which has "
    'the model_type "jina_embeddings_v3"'
)

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
    required={"lora_adaptations": (None,), "position_embedding_type": POSITION_EMBEDDINGS},
    advice={"lora_adaptations": _JINA, "position_embedding_type": _JINA},
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
            **block(
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
}
