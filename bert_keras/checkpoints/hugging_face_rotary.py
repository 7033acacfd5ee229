"""Tables of Hugging Face's names for BERT's blocks with rotary positions: Nomic BERT, GTE, Jina.

A family is a row of values: it has no class of its own. Values that code in a family's folders
computes and this package does not are in `required`, so that they are refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bert_keras.checkpoints.hugging_face_encoders import ROBERTA
from bert_keras.checkpoints.hugging_face_family import (
    CLASSIFIERS,
    CONSTANTS,
    DEFAULTS,
    EMBEDDINGS,
    GPT2_NAMES,
    NO_DROPOUT,
    Conversion,
    Family,
    JointConversion,
    block,
    classes_of,
    fused,
)

ROTARY = {"position_embedding": "none", "attention_positions": "rotary"}
BASE = "rope_parameters/rope_theta"
# Rotary positions whose rates are the plain ones. "dynamic" scaling changes them only in texts of
# more than `max_position_embeddings` tokens, which an encoder refuses.
PLAIN = ("default", "dynamic")
ROTATION = "rope_parameters/rope_type"
# Earlier names of these keys, which the library still reads.
EARLIER_KINDS = ("rope_scaling/rope_type", "rope_scaling/type")
EARLIER_ROTATION = ("rope_parameters/type", *EARLIER_KINDS)
EARLIER_BASES = ("rope_scaling/rope_theta", "rope_theta")
_EARLIER = {BASE: (*EARLIER_BASES, "rotary_emb_base"), ROTATION: EARLIER_ROTATION}
_TABLES = {
    ours: theirs for ours, theirs in EMBEDDINGS.items() if ours.endswith(("token", "segment"))
}
_CONSTANTS = {
    **{ours: theirs for ours, theirs in CONSTANTS.items() if ours != "position_embedding"},
    "rotary_base": BASE,
}
_QUERY_KEY_VALUE = ("attention/query", "attention/key", "attention/value")
# Activation of a gated layer in Nomic's first configs -> activation of its gate.
_GATES = {"swiglu": "silu", "geglu": "gelu"}
# Keys of the library flash-attn, whose BERT is the beginning of several families: values that
# compute what BERT computes, and keys that change no output.
_FLASH_ATTENTION: Mapping[str, tuple[Any, ...]] = {
    **dict.fromkeys(("prenorm", "causal", "rotary_emb_interleaved", "use_rms_norm"), (False,)),
    **dict.fromkeys(("parallel_block", "scale_attn_by_inverse_layer_idx"), (False,)),
    **dict.fromkeys(("rotary_emb_scale_base", "rotary_scaling_factor"), (None,)),
    "rotary_emb_fraction": (1.0,),
    "scale_attn_weights": (True,),
}
_FLASH_ATTENTION_IRRELEVANT = (
    *("use_flash_attn", "fused_bias_fc", "fused_dropout_add_ln", "use_xentropy"),
    *("dense_seq_output", "last_layer_subset", "pad_vocab_size_multiple"),
    *("parallel_block_tied_norm", "reorder_and_upcast_attn", "summary_proj_to_labels"),
)
_NOMIC = "nomic-ai/nomic-embed-text-v1.5"
_EXPERTS = ("num_experts", "moe_every_n_layers")
_BIASES = ("qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias")


def _read_scale(kind: Any, factor: Any, mixed: Any) -> Any:
    """Return the factor of NTK scaling, 1 for none; None for scaling that is not computed."""
    if kind in PLAIN:
        return 1.0
    return factor if kind == "ntk" and mixed is None else None


def _write_scale(scale: float) -> dict[str, Any]:
    """Return the config values of NTK scaling."""
    if scale == 1:
        return {"rope_parameters/rope_type": PLAIN[0]}
    return {"rope_scaling/type": "ntk", "rope_scaling/factor": scale}


# Scaling of the code that Alibaba published with GTE. The library of Hugging Face has none of it.
_SCALE = JointConversion(
    ("rope_scaling/type", "rope_scaling/factor", "rope_scaling/mixed_b"),
    _read_scale,
    _write_scale,
    'no scaling, or "ntk" scaling without mixed_b',
)
_SCALE_ALIASES = {
    "rope_scaling/type": ("rope_scaling/rope_type", ROTATION, "rope_parameters/type"),
    "rope_scaling/factor": ("rope_parameters/factor",),
    "rope_scaling/mixed_b": ("rope_parameters/mixed_b",),
}
_NO_SCALE = dict(zip(_SCALE.keys, (PLAIN[0], None, None), strict=True))


def without(name: str, *absent: str) -> dict[str, str]:
    """Return the classes of a family, of which Hugging Face's library lacks some."""
    return {ours: theirs for ours, theirs in classes_of(name).items() if ours not in absent}


ROTARY_FAMILIES = {
    "nomic_bert": Family(
        model_types=("nomic_bert",),
        prefix="nomic_bert.",
        other_prefixes=("bert.",),
        encoder={
            **_TABLES,
            "embeddings/layer_norm": "emb_ln",
            **block(
                "encoder.layers.#",
                {
                    **fused("attn.Wqkv", *_QUERY_KEY_VALUE),
                    "attention/output": "attn.out_proj",
                    "attention_layer_norm": "norm1",
                    "feedforward/intermediate": "mlp.fc11",
                    "feedforward/gate": "mlp.fc12",
                    "feedforward/output": "mlp.fc2",
                    "feedforward_layer_norm": "norm2",
                },
            ),
            "pooler/dense": "pooler.dense",
        },
        heads={
            "mlm/dense": "cls.predictions.transform.dense",
            "mlm/layer_norm": "cls.predictions.transform.layer_norm",
            "mlm": "cls.predictions",
            **CLASSIFIERS,
        },
        classes=without("NomicBert", "QuestionAnswerer", "MultipleChoice"),
        other_classes={"MaskedLM": "NomicBertForPreTraining"},
        constants=_CONSTANTS,
        defaults={**DEFAULTS, **NO_DROPOUT, "hidden_act": "silu", BASE: 1000.0},
        zeros={"mlp_fc1_bias": ("mlm/dense/bias", "mlm/bias")},
        conversions={
            "activation": Conversion(lambda name: _GATES.get(name, name), lambda name: name)
        },
        aliases={**GPT2_NAMES, **_EARLIER},
        required={
            **dict.fromkeys(_EXPERTS, (0,)),
            **dict.fromkeys(_BIASES, (False,)),
            **_FLASH_ATTENTION,
            ROTATION: PLAIN,
            "activation_function": tuple(_GATES),
        },
        advice=dict.fromkeys(_EXPERTS, f"Use a Nomic BERT without experts, such as {_NOMIC}")
        | {"prenorm": f"Use a Nomic BERT that normalises after each sublayer, such as {_NOMIC}"}
        | {"rotary_scaling_factor": "Remove the key, and read no more than max_trained_positions"},
        irrelevant=(
            *_FLASH_ATTENTION_IRRELEVANT,
            *("max_trained_positions", "moe_top_k", "moe_normalize_expert_weights", "moe_impl"),
        ),
        has_own_code=True,
        head_size="head_dim",
        fixed={**ROTARY, "gated": True}
        | dict.fromkeys(("attention_bias", "intermediate_bias", "output_bias"), False),
        redundant=("cls.predictions.decoder.weight", "cls.predictions.decoder.bias"),
    ),
    "gte": Family(
        model_types=("gte", "new"),
        prefix="gte.",
        other_prefixes=("new.",),
        encoder={
            **_TABLES,
            "embeddings/layer_norm": "embeddings.LayerNorm",
            **block(
                "encoder.layer.#",
                {
                    **fused("attention.qkv_proj", *_QUERY_KEY_VALUE),
                    "attention/output": "attention.o_proj",
                    "attention_layer_norm": "attn_ln",
                    **fused("mlp.up_gate_proj", "feedforward/intermediate", "feedforward/gate"),
                    "feedforward/output": "mlp.down_proj",
                    "feedforward_layer_norm": "mlp_ln",
                },
            ),
            "pooler/dense": "pooler.dense",
        },
        heads={
            "mlm/dense": "lm_head.dense",
            "mlm/layer_norm": "lm_head.norm",
            "mlm": "lm_head.decoder",
            **CLASSIFIERS,
        },
        classes=without("Gte", "QuestionAnswerer", "MultipleChoice"),
        other_classes=classes_of("New"),
        constants={**_CONSTANTS, "intermediate_dropout": "hidden_dropout_prob"},
        defaults={
            **DEFAULTS,
            "attention_probs_dropout_prob": 0.0,
            "type_vocab_size": 1,
            BASE: 160_000.0,
            **_NO_SCALE,
        },
        joint={"rotary_scale": _SCALE},
        aliases={BASE: EARLIER_BASES, **_SCALE_ALIASES},
        required={
            "logn_attention_scale": (False,),
            "position_embedding_type": ("rope",),
            "layer_norm_type": ("layer_norm",),
            "pack_qkv": (True,),
        },
        advice={
            "logn_attention_scale": "Use a GTE without it, such as Alibaba-NLP/gte-base-en-v1.5"
        },
        irrelevant=("unpad_inputs", "use_memory_efficient_attention", "logn_attention_clip1"),
        has_own_code=True,
        optional_segments=True,
        fixed={**ROTARY, "gated": True, "intermediate_bias": False},
        pad_token_id=1,
        redundant=("lm_head.decoder.weight",),
        mlm_activation="gelu",
    ),
    "jina_embeddings_v3": Family(
        model_types=("jina_embeddings_v3",),
        prefix="roberta.",
        encoder={
            **_TABLES,
            "embeddings/layer_norm": "emb_ln",
            **block(
                "encoder.layers.#",
                {
                    **fused("mixer.Wqkv", *_QUERY_KEY_VALUE),
                    "attention/output": "mixer.out_proj",
                    "attention_layer_norm": "norm1",
                    "feedforward/intermediate": "mlp.fc1",
                    "feedforward/output": "mlp.fc2",
                    "feedforward_layer_norm": "norm2",
                },
            ),
            "pooler/dense": "pooler.dense",
        },
        heads=ROBERTA.heads,
        classes=without("JinaEmbeddingsV3", "MultipleChoice"),
        constants=_CONSTANTS,
        defaults={**DEFAULTS, "layer_norm_eps": 1e-5, "type_vocab_size": 1, BASE: 20_000.0},
        aliases=_EARLIER,
        required={ROTATION: PLAIN},
        has_own_code=True,
        fixed=ROTARY,
        pad_token_id=1,
        redundant=("lm_head.decoder.weight", "lm_head.decoder.bias"),
        hidden_activation=ROBERTA.hidden_activation,
        mlm_activation="gelu",
    ),
}
