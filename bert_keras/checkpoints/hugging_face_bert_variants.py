"""Tables of Hugging Face's names for BERT's kin: pre-norm encoders, ERNIE, RoFormer and RemBERT.

Their tensors have BERT's or RoBERTa's names, except for few layers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from bert_keras.checkpoints.hugging_face_encoders import ROBERTA
from bert_keras.checkpoints.hugging_face_family import (
    BLOCK,
    CLASSIFIERS,
    CLASSIFYING,
    CONSTANTS,
    DEEP_LABEL,
    DEFAULTS,
    EMBEDDINGS,
    NO_DROPOUT,
    OF_ENCODER,
    PREDICTIONS,
    SECOND_NAMES,
    SIZES,
    Family,
    JointConversion,
    classes_of,
)
from bert_keras.config import BertConfig

_ERNIE_TASKS = 3  # default of `task_type_vocab_size`
_PRE_NORM = {"block": "pre_norm", "embedding_norm": False}


def _without(part: str, names: Mapping[str, str]) -> dict[str, str]:
    """Return the rows of a table except for those of one layer of the embeddings."""
    return {ours: theirs for ours, theirs in names.items() if ours != f"embeddings/{part}"}


def _norms(attention: str, feedforward: str, final: str) -> dict[str, str]:
    """Return the rows of the normalisations of a pre-norm encoder."""
    return {
        "block_#/attention_layer_norm": f"encoder.layer.#.{attention}",
        "block_#/feedforward_layer_norm": f"encoder.layer.#.{feedforward}",
        "final_norm": final,
    }


def _sines_then_cosines(config: BertConfig) -> np.ndarray:
    """Return RoFormer's table of rotations, float32 [max_positions, head_size]."""
    columns = 2 * (np.arange(config.head_size) // 2)
    rates = np.power(10_000, columns / config.head_size)
    angles = np.arange(config.max_positions)[:, None] / rates
    both = [np.sin(angles[:, 0::2]), np.cos(angles[:, 1::2])]
    return np.concatenate(both, axis=1).astype(np.float32)


_POOLER = {"pooler/dense": "pooler.dense"}
_TASKS = JointConversion(
    ("use_task_id", "task_type_vocab_size"),
    lambda is_used, rows: rows if is_used is True else 0 if is_used is False else None,
    lambda rows: {"use_task_id": bool(rows), "task_type_vocab_size": rows or _ERNIE_TASKS},
    "use_task_id=True or False",
)

BERT_VARIANTS = {
    "ernie": Family(
        model_types=("ernie",),
        prefix="ernie.",
        encoder={
            **EMBEDDINGS,
            "embeddings/task": "embeddings.task_type_embeddings",
            **BLOCK,
            **_POOLER,
        },
        heads={**PREDICTIONS, "nsp/dense": "cls.seq_relationship", **CLASSIFIERS},
        classes=classes_of("Ernie", Pretrainer="ForPreTraining"),
        defaults={**DEFAULTS, "use_task_id": False, "task_type_vocab_size": _ERNIE_TASKS},
        joint={"num_tasks": _TASKS},
        redundant=SECOND_NAMES,
    ),
    "roformer": Family(
        model_types=("roformer",),
        prefix="roformer.",
        encoder={
            **_without("position", EMBEDDINGS),
            "embeddings/projection": "embeddings_project",
            **BLOCK,
        },
        computed={"encoder.embed_positions.weight": _sines_then_cosines},
        heads={**PREDICTIONS, **CLASSIFIERS, **DEEP_LABEL},
        # The library's class for multiple choice reads the last token, also where it is padding.
        classes={
            ours: theirs
            for ours, theirs in classes_of("RoFormer").items()
            if ours != "MultipleChoice"
        },
        constants={
            **{ours: key for ours, key in CONSTANTS.items() if ours != "position_embedding"},
            "embedding_size": "embedding_size",
            "rotary_values": "rotary_value",
        },
        # A published config states no positions.
        defaults={**DEFAULTS, "rotary_value": False, "max_position_embeddings": 1536},
        fixed={
            "pooler": False,
            "position_embedding": "none",
            "attention_positions": "rotary_interleaved",
        },
        redundant=SECOND_NAMES,
        hidden_activation={"SequenceClassifier": OF_ENCODER},
        head_dropout={},
    ),
    "rembert": Family(
        model_types=("rembert",),
        prefix="rembert.",
        encoder={
            **EMBEDDINGS,
            "embeddings/projection": "encoder.embedding_hidden_mapping_in",
            **BLOCK,
            **_POOLER,
        },
        heads={
            "mlm/dense": "cls.predictions.dense",
            "mlm/layer_norm": "cls.predictions.LayerNorm",
            "mlm": "cls.predictions.decoder",
            "mlm/output": "cls.predictions.decoder",
            **CLASSIFIERS,
        },
        classes=classes_of("RemBert"),
        sizes={**SIZES, "embedding_size": "input_embedding_size"},
        defaults={
            **DEFAULTS,
            **NO_DROPOUT,
            "output_embedding_size": 1664,
            "tie_word_embeddings": False,
        },
        needs_projection=True,
        mlm_sizes=("output_embedding_size",),
        head_dropout=dict.fromkeys(CLASSIFYING, "classifier_dropout_prob"),
    ),
    "megatron_bert": Family(
        model_types=("megatron-bert",),
        prefix="bert.",
        encoder={
            **_without("layer_norm", EMBEDDINGS),
            **BLOCK,
            **_norms("attention.ln", "ln", "encoder.ln"),
            **_POOLER,
        },
        heads={**PREDICTIONS, "nsp/dense": "cls.seq_relationship", **CLASSIFIERS},
        classes=classes_of("MegatronBert", Pretrainer="ForPreTraining"),
        fixed=_PRE_NORM,
        redundant=SECOND_NAMES,
        head_dropout={},
    ),
    "roberta_prelayernorm": dataclasses.replace(
        ROBERTA,
        model_types=("roberta-prelayernorm",),
        prefix="roberta_prelayernorm.",
        encoder={
            **EMBEDDINGS,
            **BLOCK,
            **_norms("attention.LayerNorm", "intermediate.LayerNorm", "LayerNorm"),
            **_POOLER,
        },
        classes=classes_of("RobertaPreLayerNorm"),
        fixed={"block": "pre_norm"},
    ),
    "xlm_roberta_xl": dataclasses.replace(
        ROBERTA,
        model_types=("xlm-roberta-xl",),
        prefix="roberta.",
        encoder={
            **_without("layer_norm", EMBEDDINGS),
            **BLOCK,
            **_norms("attention.self_attn_layer_norm", "LayerNorm", "encoder.LayerNorm"),
            **_POOLER,
        },
        classes=classes_of("XLMRobertaXL"),
        fixed=_PRE_NORM,
    ),
}
