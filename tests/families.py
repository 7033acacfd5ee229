"""A tiny model of every family: our config, and the values of transformers' config."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bert_keras import BertConfig
from bert_keras.checkpoints.hugging_face_config import read_config
from bert_keras.checkpoints.hugging_face_names import FAMILIES
from tests.contracts import TINY

_ROBERTA: dict[str, Any] = {"type_vocab_size": 1, "layer_norm_eps": 1e-5}
_DEBERTA: dict[str, Any] = {
    "relative_attention": True,
    "position_biased_input": False,
    "pos_att_type": ["p2c", "c2p"],
    "max_relative_positions": 4,
}
_BUCKETS = {"position_buckets": 4, "max_relative_positions": 10, "norm_rel_ebd": "layer_norm"}
# Values of transformers' configs besides the sizes: those that a small model needs to be tiny, and
# those without which it would not show what is special in its family.
_MORE: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("roberta", "xlm_roberta", "camembert", "data2vec_text"), _ROBERTA),
    "albert": {"embedding_size": 4, "num_hidden_groups": 1},
    "electra": {"embedding_size": 4},
    "modernbert": {"local_attention": 4},
    "eurobert": {"num_key_value_heads": 1},
    **dict.fromkeys(("roberta_prelayernorm", "xlm_roberta_xl"), _ROBERTA),
    **dict.fromkeys(("deberta", "deberta_lm_head"), _DEBERTA),
    "deberta_v2": _DEBERTA | _BUCKETS | {"share_att_key": True},
    "deberta_v2_lm_head": _DEBERTA | _BUCKETS,
    "ernie": {"use_task_id": True},
    "roformer": {"embedding_size": 4},
    "rembert": {
        "input_embedding_size": 4,
        "output_embedding_size": 12,
        "bos_token_id": 2,
        "eos_token_id": 3,
    },
    "ultrabert": {"num_key_value_heads": 1, "sliding_window": 2, "prediction_head_size": 12},
}


def their_values(family: str) -> dict[str, Any]:
    """Return the keyword arguments of transformers' config class for a tiny model."""
    rows = FAMILIES[family]
    values = {theirs: getattr(TINY, ours) for ours, theirs in rows.sizes.items()}
    offset = rows.pad_token_id + 1 if rows.position_offset is None else rows.position_offset
    values[rows.sizes["max_positions"]] += offset
    if rows.pad_token_id >= TINY.vocab_size:  # the library makes no table without this row
        values["pad_token_id"] = 0
    return {**values, **_MORE.get(family, {}), **rows.selected_by}


def config_of(family: str, **changes: Any) -> BertConfig:
    """Return our config of a tiny model, with values of ours that differ from it."""
    rows = FAMILIES[family]
    values = {"model_type": rows.model_types[0], **their_values(family)}
    pooler = "pooler/dense" in rows.encoder
    return read_config(values, Path("config.json"), pooler=pooler).replace(**changes)
