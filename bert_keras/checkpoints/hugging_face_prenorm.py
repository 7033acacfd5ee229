"""Tables of Hugging Face's names for pre-norm encoders: ModernBERT, EuroBERT, UltraBERT.

A family is a row of values: it has no class of its own. Values that Hugging Face's library computes
and this package does not are in `required`, so that they are refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bert_keras.checkpoints.hugging_face_family import (
    CLASSIFIERS,
    Conversion,
    Family,
    block,
    classes_of,
    fused,
)
from bert_keras.checkpoints.hugging_face_rotary import (
    BASE,
    EARLIER_BASES,
    EARLIER_KINDS,
    EARLIER_ROTATION,
    PLAIN,
    ROTARY,
    ROTATION,
    without,
)

_BASES = {
    "rotary_base": "rope_parameters/full_attention/rope_theta",
    "local_rotary_base": "rope_parameters/sliding_attention/rope_theta",
}
_KINDS = [f"rope_parameters/{kind}" for kind in ("full_attention", "sliding_attention")]
_PLAIN_BY_LAYER = {f"{kind}/rope_type": PLAIN for kind in _KINDS}
# The library puts `rope_scaling` into the parameters of both kinds.
_EARLIER_BY_LAYER = {f"{kind}/rope_type": (f"{kind}/type", *EARLIER_KINDS) for kind in _KINDS}
# One key has the biases of both layers.
_BIASES = {
    "attention_bias": "attention_bias",
    **dict.fromkeys(("intermediate_bias", "output_bias"), "mlp_bias"),
}
_NO_BIASES = dict.fromkeys(_BIASES.values(), False)
_PRE_NORM = {**ROTARY, "num_segments": 0, "pooler": False, "block": "pre_norm", "gated": True}
# Keys of ModernBERT's published configs that its class does not read, or that only training needs.
_IRRELEVANT = (
    *("layer_norm_eps", "position_embedding_type", "initializer_cutoff_factor"),
    *("deterministic_flash_attn", "reference_compile", "repad_logits_with_grad"),
    *("sparse_prediction", "sparse_pred_ignore_index"),
)
# Heads of ModernBERT. All have the same hidden layer.
_CLASSIFYING = ("SequenceClassifier", "TokenClassifier", "QuestionAnswerer", "MultipleChoice")
_OUTPUTS = ("label", "tags", "span", "choice")
_HEADS = {
    **{f"{head}/dense": "head.dense" for head in ("mlm", *_OUTPUTS)},
    **{f"{head}/layer_norm": "head.norm" for head in ("mlm", *_OUTPUTS)},
    **{f"{head}/output": "classifier" for head in _OUTPUTS},
    "mlm": "decoder",
}


def _half(window: Any) -> Any:
    """Return the tokens to one side of a window of tokens to both sides."""
    return window // 2 if type(window) is int else window


def _twice(window: Any) -> Any:
    """Return the tokens to both sides of a window of tokens to one side."""
    return 2 * window if type(window) is int else window


_MODERNBERT_ENCODER = {
    "embeddings/token": "embeddings.tok_embeddings",
    "embeddings/layer_norm": "embeddings.norm",
    **block(
        "layers.#",
        {
            "attention_layer_norm": "attn_norm",
            **fused("attn.Wqkv", "attention/query", "attention/key", "attention/value"),
            "attention/output": "attn.Wo",
            "feedforward_layer_norm": "mlp_norm",
            **fused("mlp.Wi", "feedforward/gate", "feedforward/intermediate"),
            "feedforward/output": "mlp.Wo",
        },
    ),
    "final_norm": "final_norm",
}
_MODERNBERT = Family(
    model_types=("modernbert",),
    prefix="model.",
    encoder=_MODERNBERT_ENCODER,
    heads=_HEADS,
    classes=classes_of("ModernBert"),
    constants={
        "activation": "hidden_activation",
        "layer_norm_epsilon": "norm_eps",
        "norm_bias": "norm_bias",
        "dropout": "embedding_dropout",  # the library drops embeddings alone
        "attention_dropout": "attention_dropout",
        "intermediate_dropout": "mlp_dropout",
        "initializer_range": "initializer_range",
        **_BIASES,
        "window": "local_attention",
        **_BASES,
    },
    defaults={
        "hidden_activation": "gelu",
        "norm_eps": 1e-5,
        "norm_bias": False,
        **_NO_BIASES,
        **dict.fromkeys(("embedding_dropout", "attention_dropout", "mlp_dropout"), 0.0),
        "initializer_range": 0.02,
        "local_attention": 128,
        _BASES["rotary_base"]: 160_000.0,
        _BASES["local_rotary_base"]: 10_000.0,
        "classifier_pooling": "cls",
    },
    conversions={"window": Conversion(_half, _twice)},
    aliases={
        _BASES["rotary_base"]: ("rope_scaling/rope_theta", "global_rope_theta"),
        _BASES["local_rotary_base"]: ("rope_scaling/rope_theta", "local_rope_theta"),
        **_EARLIER_BY_LAYER,
    },
    required={
        **_PLAIN_BY_LAYER,
        "decoder_bias": (True,),
        "classifier_bias": (False,),
        "classifier_activation": ("gelu",),
    },
    irrelevant=_IRRELEVANT,
    fixed={**_PRE_NORM, "first_norm": False},
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
)

# === EuroBERT and UltraBERT: blocks of Llama ===

_LLAMA_ENCODER = {
    "embeddings/token": "embed_tokens",
    **block(
        "layers.#",
        {
            "attention_layer_norm": "input_layernorm",
            "attention/query": "self_attn.q_proj",
            "attention/key": "self_attn.k_proj",
            "attention/value": "self_attn.v_proj",
            "attention/output": "self_attn.o_proj",
            "feedforward_layer_norm": "post_attention_layernorm",
            "feedforward/intermediate": "mlp.up_proj",
            "feedforward/gate": "mlp.gate_proj",
            "feedforward/output": "mlp.down_proj",
        },
    ),
    "final_norm": "norm",
}
_LLAMA_CONSTANTS = {
    "num_key_value_heads": "num_key_value_heads",
    "activation": "hidden_act",
    "layer_norm_epsilon": "rms_norm_eps",
    "dropout": "hidden_dropout",  # of published configs; the library does not read it
    "attention_dropout": "attention_dropout",
    "initializer_range": "initializer_range",
    **_BIASES,
}
_LLAMA_DEFAULTS = {
    "num_key_value_heads": None,
    "hidden_act": "silu",
    "hidden_dropout": 0.0,
    "attention_dropout": 0.0,
    "initializer_range": 0.02,
    **_NO_BIASES,
    "tie_word_embeddings": False,
}
_LLAMA_FIXED = {**_PRE_NORM, "norm": "rms", "embedding_norm": False}
_EUROBERT = Family(
    model_types=("eurobert",),
    prefix="model.",
    encoder=_LLAMA_ENCODER,
    heads={
        "mlm": "lm_head",
        "mlm/output": "lm_head",
        **CLASSIFIERS,
        "label/dense": "dense",
    },
    classes=without("EuroBert", "QuestionAnswerer", "MultipleChoice"),
    constants={**_LLAMA_CONSTANTS, "rotary_base": BASE},
    defaults={
        **_LLAMA_DEFAULTS,
        "rms_norm_eps": 1e-5,
        "classifier_pooling": "late",
        BASE: 10_000.0,
    },
    aliases={
        BASE: EARLIER_BASES,
        ROTATION: EARLIER_ROTATION,
        "classifier_pooling": ("clf_pooling",),
    },
    required={ROTATION: PLAIN},
    irrelevant=("pretraining_tp", "bos_token", "eos_token", "mask_token", "pad_token"),
    has_own_code=True,
    head_size="head_dim",
    fixed=_LLAMA_FIXED,
    pad_token_id=128_001,
    redundant=(),
    hidden_activation={"SequenceClassifier": "gelu"},
    pooling="classifier_pooling",
    poolings={"late": "late", "cls": "bos", "mean": "mean"},
    mlm_head={"hidden_sizes": [], "hidden_norm": False},
    mlm_bias="intermediate_bias",
    head_dropout={},
)


def _by_layer(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a config with the current keys for lists of one entry for each layer.

    Lists that have no current form are left, and `required` refuses them.
    """
    current = dict(values)
    windows, bases = values.get("attention_windows"), values.get("rope_theta")
    if isinstance(windows, list) and all(type(window) is int for window in windows):
        radii = {window for window in windows if window}
        if len(radii) <= 1:
            del current["attention_windows"]
            current |= {"sliding_window": radii.pop()} if radii else {}
            kinds = ["sliding_attention" if window else "full_attention" for window in windows]
            current["layer_types"] = values.get("layer_types") or kinds
    kinds = current.get("layer_types")
    if isinstance(bases, list) and isinstance(kinds, list) and len(bases) == len(kinds):
        pairs = {(str(kind), base) for kind, base in zip(kinds, bases, strict=True)}
        if len(pairs) == len({kind for kind, _ in pairs}):
            del current["rope_theta"]
            parameters = {kind: {"rope_theta": base} for kind, base in pairs}
            current["rope_parameters"] = values.get("rope_parameters") or parameters
    return current


_ULTRABERT = Family(
    model_types=("ultrabert",),
    prefix="ultrabert.",
    encoder=_LLAMA_ENCODER,
    heads={
        "mlm/dense": "head.linear1",
        "mlm/second_dense": "head.linear2",
        "mlm/output": "cls",
        **CLASSIFIERS,
    },
    classes=without("Ultrabert", "MultipleChoice"),
    constants={**_LLAMA_CONSTANTS, "window": "sliding_window", **_BASES},
    defaults={
        **_LLAMA_DEFAULTS,
        "rms_norm_eps": 1e-6,
        "sliding_window": 128,
        "classifier_pooling": "cls",
        "prediction_head_size": 768,
        _BASES["rotary_base"]: 2_560_000.0,
        _BASES["local_rotary_base"]: 10_000.0,
    },
    earlier=_by_layer,
    aliases=_EARLIER_BY_LAYER,
    required={**_PLAIN_BY_LAYER, "attention_windows": (None,), "rope_theta": (None,)},
    advice={
        "attention_windows": "Give all local layers the same window",
        "rope_theta": "Give all layers with the same window the same base",
    },
    has_own_code=True,
    head_size="head_dim",
    fixed=_LLAMA_FIXED,
    has_layer_types=True,
    first_global=2,
    redundant=(),
    pooling="classifier_pooling",
    poolings={"first_token": "cls", "mean": "mean"},
    mlm_activation="gelu_tanh",
    mlm_head={"hidden_bias": False, "hidden_norm": False, "output_bias": False},
    mlm_sizes=("prediction_head_size", "hidden_size"),
    head_dropout=dict.fromkeys(("SequenceClassifier", "TokenClassifier"), "classifier_dropout"),
)

PRENORM_FAMILIES = {
    "modernbert": _MODERNBERT,
    "eurobert": _EUROBERT,
    "ultrabert": _ULTRABERT,
}
