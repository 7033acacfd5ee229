"""Tables of Hugging Face's names for the versions of DeBERTa.

Versions 2 and 3 have one `model_type`, "deberta-v2". The MLM head has two sets of names: those of
the library's first class, and those of Microsoft's own code, which its config calls not `legacy`.
The published files have the latter, also where config.json states nothing.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from bert_keras.checkpoints.hugging_face_family import (
    BLOCK,
    CLASSIFIERS,
    CONSTANTS,
    DEFAULTS,
    EMBEDDINGS,
    PREDICTIONS,
    SECOND_NAMES,
    Conversion,
    Family,
    JointConversion,
    classes_of,
)

_LM_HEAD = "lm_predictions.lm_head"
_BOTH = ("p2c", "c2p")  # position to content, content to position
_SUPPORTED = (
    "relative_attention=True with both kinds of pos_att_type, 'p2c|c2p', or relative_attention="
    "False without any"
)


def _kinds(stated: Any) -> set[Any]:
    """Return the products with positions of `pos_att_type`: a list, or words between "|"."""
    if isinstance(stated, str):
        return {word.strip() for word in stated.lower().split("|")} - {""}
    return set(stated) if isinstance(stated, list | tuple) else {stated}


def _read_positions(is_relative: Any, kinds: Any, is_shared: Any = False) -> str | None:
    """Return our name of the positions within the attention; None if we have no such ones."""
    if is_relative is True and _kinds(kinds) == set(_BOTH) and isinstance(is_shared, bool):
        return "disentangled_shared" if is_shared else "disentangled"
    return "none" if is_relative is False and not _kinds(kinds) else None


def _write_positions(positions: str) -> dict[str, Any]:
    """Return the config values of positions within the attention."""
    is_relative = positions != "none"
    return {"relative_attention": is_relative, "pos_att_type": list(_BOTH) if is_relative else None}


def _read_norm(stated: Any) -> Any:
    """Return whether `norm_rel_ebd` names a normalisation; anything else as it is."""
    words = _kinds(stated)
    return "layer_norm" in words if words <= {"none", "layer_norm"} else stated


_MAX_DISTANCE = JointConversion(
    ("max_relative_positions", "max_position_embeddings"),
    lambda distance, positions: positions if type(distance) is int and distance < 1 else distance,
    lambda distance: {"max_relative_positions": distance},
    "a number of positions",
)
_BUCKETS = Conversion(
    lambda stated: 0 if type(stated) is int and stated < 1 else stated,
    lambda buckets: buckets or -1,
)
# Whether the embeddings have a table of positions beside the distances within the attention.
_TABLE = Conversion(
    lambda stated: {True: "absolute", False: "none"}[stated] if type(stated) is bool else stated,
    lambda kind: kind == "absolute",
)
_ATTENTION = "block_#/attention"
_SELF = "encoder.layer.#.attention.self"

_DEBERTA = Family(
    model_types=("deberta",),
    prefix="deberta.",
    encoder={
        **EMBEDDINGS,
        **BLOCK,
        **dict.fromkeys(
            (f"{_ATTENTION}/query", f"{_ATTENTION}/key", f"{_ATTENTION}/value"), f"{_SELF}.in_proj"
        ),
        f"{_ATTENTION}/position_key": f"{_SELF}.pos_proj",
        f"{_ATTENTION}/position_query": f"{_SELF}.pos_q_proj",
        "distance_vectors/table": "encoder.rel_embeddings",
    },
    whole={
        f"{_ATTENTION}/query/bias": f"{_SELF}.q_bias",
        f"{_ATTENTION}/value/bias": f"{_SELF}.v_bias",
    },
    interleaved=(f"{_SELF}.in_proj",),
    heads={
        **PREDICTIONS,
        **CLASSIFIERS,
        "label/dense": "pooler.dense",
        "choice/dense": "pooler.dense",
    },
    classes={
        ours: theirs for ours, theirs in classes_of("Deberta").items() if ours != "MultipleChoice"
    },
    constants={**CONSTANTS, "position_embedding": "position_biased_input"},
    defaults={
        **DEFAULTS,
        "type_vocab_size": 0,
        "layer_norm_eps": 1e-7,
        "position_biased_input": True,
        "relative_attention": False,
        "pos_att_type": (),
        "max_relative_positions": -1,
        "pooler_dropout": 0.0,
    },
    conversions={"position_embedding": _TABLE},
    optional_segments=True,
    joint={
        "attention_positions": JointConversion(
            ("relative_attention", "pos_att_type"), _read_positions, _write_positions, _SUPPORTED
        ),
        "max_distance": _MAX_DISTANCE,
    },
    same_as=dict.fromkeys(("embedding_size", "pooler_hidden_size", "pooler_size"), "hidden_size"),
    required={"pooler_hidden_act": ("gelu",), "talking_head": (False,)},
    irrelevant=("padding_idx",),
    fixed={"pooler": False, "key_bias": False},
    redundant=(*SECOND_NAMES, "embeddings.position_embeddings.weight"),
    # Heads of Microsoft's pretraining. `shown_by` decides whether the first one is read.
    unread=("lm_predictions.", "mask_predictions."),
    shown_by={f"{_LM_HEAD}.bias": {"legacy": False}},
    hidden_activation=dict.fromkeys(("SequenceClassifier", "MultipleChoice"), "gelu"),
    hidden_dropout=0.0,
    hidden_dropout_key="pooler_dropout",
    head_dropout=dict.fromkeys(("SequenceClassifier", "MultipleChoice"), "cls_dropout"),
)
_DEBERTA_V2 = dataclasses.replace(
    _DEBERTA,
    model_types=("deberta-v2",),
    encoder={
        **_DEBERTA.encoder,
        **{f"{_ATTENTION}/{name}": f"{_SELF}.{name}_proj" for name in ("query", "key", "value")},
        f"{_ATTENTION}/position_key": f"{_SELF}.pos_key_proj",
        f"{_ATTENTION}/position_query": f"{_SELF}.pos_query_proj",
        "distance_vectors/layer_norm": "encoder.LayerNorm",
    },
    whole={},
    interleaved=(),
    classes=classes_of("DebertaV2"),
    constants={
        **_DEBERTA.constants,
        "position_buckets": "position_buckets",
        "position_norm": "norm_rel_ebd",
    },
    defaults={
        **_DEBERTA.defaults,
        "position_buckets": -1,
        "norm_rel_ebd": "none",
        "share_att_key": False,
    },
    conversions={
        **_DEBERTA.conversions,
        "position_buckets": _BUCKETS,
        "position_norm": Conversion(_read_norm, lambda has: "layer_norm" if has else "none"),
    },
    joint={
        **_DEBERTA.joint,
        "attention_positions": JointConversion(
            ("relative_attention", "pos_att_type", "share_att_key"),
            _read_positions,
            lambda kind: {**_write_positions(kind), "share_att_key": kind == "disentangled_shared"},
            _SUPPORTED,
        ),
    },
    head_size="attention_head_size",
    required={"pooler_hidden_act": ("gelu",), "conv_kernel_size": (0,)},
    advice={
        "conv_kernel_size": "DeBERTa-v2-xlarge and -xxlarge have this convolution. Take a "
        "DeBERTa-v3, such as microsoft/deberta-v3-large, which has none"
    },
    irrelevant=("padding_idx", "conv_act", "conv_groups"),
    fixed={"pooler": False},
)


def _with_lm_head(family: Family) -> Family:
    """Return a version of DeBERTa with the names of Microsoft's code for the MLM head."""
    names = {
        "mlm/dense": f"{_LM_HEAD}.dense",
        "mlm/layer_norm": f"{_LM_HEAD}.LayerNorm",
        "mlm": _LM_HEAD,
    }
    return dataclasses.replace(
        family,
        heads={**family.heads, **names},
        selected_by={"legacy": False},
        unread=("mask_predictions.",),
    )


DEBERTA_FAMILIES = {
    "deberta": _DEBERTA,
    "deberta_lm_head": _with_lm_head(_DEBERTA),
    "deberta_v2": _DEBERTA_V2,
    "deberta_v2_lm_head": _with_lm_head(_DEBERTA_V2),
}
