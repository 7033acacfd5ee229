"""Hugging Face's BERT: its names, both ways."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bert_keras.checkpoints.format import Leaf, NameTable
from bert_keras.config import BertConfig
from bert_keras.errors import ArtifactError

TABLE = NameTable(
    modules={
        "embeddings/token": "embeddings.word_embeddings",
        "embeddings/segment": "embeddings.token_type_embeddings",
        "embeddings/position": "embeddings.position_embeddings",
        "embeddings/layer_norm": "embeddings.LayerNorm",
        "embeddings/projection": "embeddings_project",
        "block_#/attention/query": "encoder.layer.#.attention.self.query",
        "block_#/attention/key": "encoder.layer.#.attention.self.key",
        "block_#/attention/value": "encoder.layer.#.attention.self.value",
        "block_#/attention/output": "encoder.layer.#.attention.output.dense",
        "block_#/attention_layer_norm": "encoder.layer.#.attention.output.LayerNorm",
        "block_#/feedforward/intermediate": "encoder.layer.#.intermediate.dense",
        "block_#/feedforward/output": "encoder.layer.#.output.dense",
        "block_#/feedforward_layer_norm": "encoder.layer.#.output.LayerNorm",
        "pooler/dense": "pooler.dense",
        "mlm/dense": "cls.predictions.transform.dense",
        "mlm/layer_norm": "cls.predictions.transform.LayerNorm",
        "mlm": "cls.predictions",
        "nsp/dense": "cls.seq_relationship",
        "sop/dense": "cls.seq_relationship",
    },
    leaves={
        "kernel": Leaf("weight", transposed=True),
        "bias": Leaf("bias"),
        "embeddings": Leaf("weight"),
        "gamma": Leaf("weight"),
        "beta": Leaf("bias"),
    },
)

# Buffers and second names of tied tensors, which carry nothing of their own.
REDUNDANT = (
    "embeddings.position_ids",
    "cls.predictions.decoder.weight",
    "cls.predictions.decoder.bias",
)

HEAD_PREFIXES = {"mlm": "", "nsp": "", "sop": ""}

ARCHITECTURES = {
    "BertEncoder": "BertModel",
    "MaskedLM": "BertForMaskedLM",
    "Pretrainer": "BertForPreTraining",
}

_CONFIG_KEYS = {
    "vocab_size": "vocab_size",
    "hidden_size": "hidden_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "intermediate_size": "intermediate_size",
    "max_positions": "max_position_embeddings",
    "num_segments": "type_vocab_size",
    "activation": "hidden_act",
    "layer_norm_epsilon": "layer_norm_eps",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
    "initializer_range": "initializer_range",
}

# Their words for our activations; the first of several names of one function is written.
_ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_new": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
}

# Values that would change the mathematics in a way the encoder does not have.
_REQUIRED = {
    "position_embedding_type": (None, "absolute"),
    "is_decoder": (None, False),
    "add_cross_attention": (None, False),
    "tie_word_embeddings": (None, True),
}

# How the first PyTorch port named them; the best-known published files still do.
_OLD_NAMES = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}


def current_name(tensor: str) -> str:
    """The name by which the table knows a tensor that may be from an old file."""
    for old, current in _OLD_NAMES.items():
        if tensor.endswith(old):
            return tensor.removesuffix(old) + current
    return tensor


def read_config(values: Mapping[str, Any], path: Path, *, pooler: bool) -> BertConfig:
    """Translates a Hugging Face config.

    Args:
        values: the parsed `config.json`.
        path: where it came from, for messages.
        pooler: whether the checkpoint has a pooler, which the config does not say.

    Raises:
        ArtifactError: another model, an unsupported value, or one that is missing.
    """
    if values.get("model_type") != "bert":
        raise ArtifactError(
            f"{path}: only BERT checkpoints can be opened. "
            f"Received: model_type={values.get('model_type')!r}"
        )
    for key, accepted in _REQUIRED.items():
        if values.get(key) not in accepted:
            raise ArtifactError(f"{path}: not supported: {key}={values[key]!r}")
    missing = sorted(set(_CONFIG_KEYS.values()) - set(values))
    if missing:
        raise ArtifactError(f"{path}: missing: {', '.join(missing)}")
    ours = {name: values[theirs] for name, theirs in _CONFIG_KEYS.items()}
    if ours["activation"] not in _ACTIVATIONS:
        raise ArtifactError(f"{path}: not supported: hidden_act={ours['activation']!r}")
    ours["activation"] = _ACTIVATIONS[ours["activation"]]
    try:
        return BertConfig.from_dict({**ours, "pooler": pooler})
    except ValueError as error:
        raise ArtifactError(f"{path}: {error}") from error


def sizes(config: BertConfig) -> list[tuple[str, str, tuple[int, ...]]]:
    """The matrices that show every size of a config: our layer, their tensor, its shape there."""
    last, hidden = f"block_{config.unique_layers - 1}", config.hidden_size
    rows = {
        "token": config.vocab_size,
        "position": config.max_positions + config.position_offset,
        "segment": config.num_segments,
    }
    shapes = {f"embeddings/{name}": (n, config.table_size) for name, n in rows.items() if n}
    shapes[f"{last}/attention/query"] = (hidden, hidden)
    shapes[f"{last}/feedforward/intermediate"] = (config.intermediate_size, hidden)
    return [(path, f"{TABLE.module(path)}.weight", shape) for path, shape in shapes.items()]


def write_config(config: BertConfig, architecture: str) -> dict[str, Any]:
    """The `config.json` that Hugging Face's library opens as `architecture`."""
    values: dict[str, Any] = {
        theirs: getattr(config, name) for name, theirs in _CONFIG_KEYS.items()
    }
    words = {ours: theirs for theirs, ours in reversed(_ACTIVATIONS.items())}
    values["hidden_act"] = words[config.activation]
    values["pad_token_id"] = 0
    if represents(config):
        return {"architectures": [architecture], "model_type": "bert", **values}
    return {"model_type": "bert_keras", **values}


def represents(config: BertConfig) -> bool:
    """Whether Hugging Face's BERT can be this model (it shares no blocks, projects nothing)."""
    return (
        config.table_size == config.hidden_size
        and config.unique_layers == config.num_layers
        and config.position_offset == 0
        and config.num_segments > 0
    )
