"""Translation between our configs and head options and Hugging Face's, in both directions.

The tables of names are in `hugging_face_names`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bert_keras import features
from bert_keras.checkpoints.hugging_face_config import config_values, round_trips
from bert_keras.checkpoints.hugging_face_family import OF_ENCODER, Family, task_format
from bert_keras.checkpoints.hugging_face_names import FAMILIES, NATIVE
from bert_keras.checkpoints.name_mapping import LeafRule, NameMap, TensorSpec
from bert_keras.checkpoints.wrapped_names import COUNTER
from bert_keras.config import BertConfig
from bert_keras.errors import ArtifactError

# Limit of `num_labels` without names: a damaged config must not allocate any amount of memory.
MOST_CLASSES = 100_000
# Options that only our heads have, with the value at which they equal Hugging Face's heads.
_OURS = {"crf": False, "representation": "last"}
# Options of ELECTRA's multiple-choice head, with the only values that our head supports.
_SUMMARY = {"summary_type": "first", "summary_use_proj": True, "summary_activation": "gelu"}
# Options of the hidden layer of a head, with their defaults.
_HIDDEN = {"hidden_activation": None, "hidden_norm": False, "hidden_bias": True, "tied": True}
# Their ways to read the tokens of a text -> ours.
_POOLINGS = {"cls": "cls", "bos": "cls", "mean": "mean", "late": "late"}
_PROBLEMS = {
    "single_label": "single_label_classification",
    "multi_label": "multi_label_classification",
    "regression": "regression",
}


def write_head_options(
    class_name: str, options: Mapping[str, Any], family: Family
) -> dict[str, Any]:
    """Return the config.json entries of a head: names of its classes, problem type, dropout.

    Args:
        class_name: name of our task class.
        options: options of the task.
        family: names of the encoder's family.
    """
    values: dict[str, Any] = {}
    if "labels" in options:
        values["id2label"] = {str(i): name for i, name in enumerate(options["labels"])}
        values["label2id"] = {name: i for i, name in enumerate(options["labels"])}
    if "problem" in options:
        values["problem_type"] = _PROBLEMS[options["problem"]]
    key = family.head_dropout.get(class_name)
    if key and options.get("dropout") is not None:
        values[key] = options["dropout"]
    if family.pooling and task_format(class_name).reads_text_vector:
        values[family.pooling] = options.get("pooling", "cls")
    if family.hidden_dropout_key and options.get("hidden_dropout") is not None:
        values[family.hidden_dropout_key] = options["hidden_dropout"]
    if family.mlm_width and options.get("width") is not None:
        values[family.mlm_width] = options["width"]
    return values


def pooling_of(values: Mapping[str, Any], family: Family, path: Path) -> str:
    """Return the way in which a text classifier reads the tokens: a name of our option `pooling`.

    Raises:
        ArtifactError: if it is not known.
    """
    assert family.pooling is not None
    theirs = values.get(family.pooling) or family.defaults[family.pooling]
    if theirs not in _POOLINGS:
        raise ArtifactError(
            f"{path}: not supported: {family.pooling}={theirs!r:.100}. "
            f"Supported: {', '.join(_POOLINGS)}"
        )
    return _POOLINGS[theirs]


def family_head(class_name: str, config: BertConfig) -> dict[str, Any]:
    """Return the options of a family's head that differ from those of BERT's.

    `hidden_activation` is the activation of its hidden layer, or None for a head over [CLS] without
    one.

    Args:
        class_name: name of our task class.
        config: config of the encoder.
    """
    family, task = FAMILIES[config.family], task_format(class_name)
    if task.is_mlm:
        plain = {"hidden_bias": family.hidden_bias, "tied": family.mlm_tied}
        return {name: value for name, value in plain.items() if not value}
    activation = family.hidden_activation.get(class_name)
    activation = config.activation if activation == OF_ENCODER else activation
    if activation is None and not task.reads_text_vector:
        return {}
    options: dict[str, Any] = {"hidden_activation": activation}
    if family.hidden_dropout is not None and task.reads_text_vector:
        options["hidden_dropout"] = family.hidden_dropout
    if activation is not None and family.hidden_norm:
        options["hidden_norm"] = True
    if activation is not None and not family.hidden_bias:
        options["hidden_bias"] = False
    return options


def needs_pooler(class_name: str, config: BertConfig) -> bool:
    """Return whether a head of this class needs a pooler that the encoder lacks."""
    task = task_format(class_name)
    if config.pooler:
        return False
    if task.has_pair_loss:
        return True
    return task.reads_text_vector and (family_head(class_name, config)["hidden_activation"] is None)


def new_head_options(class_name: str, config: BertConfig) -> dict[str, Any]:
    """Return the options of a new head: those of its family.

    If that head needs a pooler and the encoder has none, a tanh layer in the head replaces it.
    """
    options = family_head(class_name, config)
    return options | ({"hidden_activation": "tanh"} if needs_pooler(class_name, config) else {})


def has_hugging_face_head(options: Mapping[str, Any]) -> bool:
    """Return whether other libraries have such a head: without CRF, over the last layer alone."""
    return all(options.get(name, plain) == plain for name, plain in _OURS.items())


def read_head_options(
    class_name: str, values: Mapping[str, Any], config: BertConfig, path: Path
) -> dict[str, Any]:
    """Return the options of one of our task classes from a Hugging Face config.

    Labels are read only if the config names that class. Otherwise the caller has to state them.

    Args:
        class_name: name of our task class.
        values: parsed config.json.
        config: config of the encoder.
        path: path of config.json, for messages.

    Raises:
        ArtifactError: if `id2label` or `problem_type` is damaged or not supported.
    """
    family, task = FAMILIES[config.family], task_format(class_name)
    options: dict[str, Any] = {}
    if task.is_mlm and family.mlm_activation not in (None, config.activation):
        options["activation"] = family.mlm_activation
    if task.is_mlm and family.mlm_width is not None:
        options["width"] = values.get(family.mlm_width, family.defaults[family.mlm_width])
    if task.has_pair_loss:
        options["loss"] = "nsp" if "nsp/dense" in family.heads else "sop"
    options |= family_head(class_name, config)
    if family.hidden_dropout_key and "hidden_dropout" in options:
        rate = values.get(family.hidden_dropout_key)
        options |= {} if rate is None else {"hidden_dropout": rate}
    if family.pooling and task.reads_text_vector:
        pooling = pooling_of(values, family, path)
        options |= {} if pooling == "cls" else {"pooling": pooling}
    if task.has_summary:
        for key, value in _SUMMARY.items():
            if values.get(key, value) != value:
                received = f"{key}={values[key]!r:.100}"
                raise ArtifactError(f"{path}: not supported: {received}. Supported: {value!r}")
    key = family.head_dropout.get(class_name)
    if key and values.get(key) is not None:
        options["dropout"] = values[key]
    classes = values.get("architectures")
    is_of_it = isinstance(classes, list) and any(
        name in classes for name in family.class_names(class_name)
    )
    if task.has_labels and is_of_it:
        options["labels"] = _labels(values, path)
        options["num_classes"] = len(options["labels"])
        if task.is_text_classifier and values.get("problem_type") is not None:
            options["problem"] = _problem(values["problem_type"], path)
    return options


def _labels(values: Mapping[str, Any], path: Path) -> list[str]:
    """Return the class names in `id2label`, by id; LABEL_0, LABEL_1 and so on if it is missing."""
    id2label = values.get("id2label")
    if id2label is None:
        count = values.get("num_labels", 2)
        if not isinstance(count, int) or not 0 < count <= MOST_CLASSES:
            raise ArtifactError(
                f"{path}: num_labels must be an integer from 1 to {MOST_CLASSES}. "
                f"Received: {count!r}"
            )
        id2label = {str(i): f"LABEL_{i}" for i in range(count)}
    names_by_id = id2label if isinstance(id2label, dict) else {}
    names = [names_by_id.get(str(i)) for i in range(len(names_by_id))]
    labels = [name for name in names if isinstance(name, str)]
    if not labels or len(labels) < len(names):
        raise ArtifactError(
            f"{path}: id2label must give a name to each of 0, 1, 2 and so on. "
            f"Received: {str(id2label)[:200]}"
        )
    numbers = {name: i for i, name in enumerate(labels)}
    contradicting = {
        key: values[key]
        for key, expected in (("label2id", numbers), ("num_labels", len(labels)))
        if values.get("id2label") is not None and values.get(key) not in (None, expected)
    }
    if contradicting:
        warnings.warn(
            f"{path}: contradicts its id2label, which counts: {str(contradicting)[:200]}",
            stacklevel=2,
        )
    return labels


def _problem(theirs: Any, path: Path) -> str:
    """Return our word for a `problem_type`, such as "single_label"."""
    for ours, name in _PROBLEMS.items():
        if name == theirs:
            return ours
    supported = ", ".join(_PROBLEMS.values())
    raise ArtifactError(f"{path}: not supported: problem_type={theirs!r}. Supported: {supported}")


# === Configs and names ===

_LEAVES = {
    "kernel": LeafRule("weight", transposed=True),
    "bias": LeafRule("bias"),
    "embeddings": LeafRule("weight"),
    "gamma": LeafRule("weight"),
    "beta": LeafRule("bias"),
    # Variables of our layers `crf` and `mix`, which Hugging Face's classes do not have.
    **{name: LeafRule(name) for name in ("transition", "start", "end", "scores", "scale")},
}
# Dense layers behind the pooling of a sentence encoder. sentence-transformers keeps each one in a
# file of its own.
_VECTOR_LAYERS = {
    f"{features.SENTENCE_VECTOR}/dense_#": "dense.#.linear",
    f"{features.SENTENCE_VECTOR}/residual_#": "dense.#.residual",
}
# Path prefixes of all heads.
_HEAD_ROWS = [family.heads for family in (*FAMILIES.values(), NATIVE)] + [_VECTOR_LAYERS]
HEADS = tuple(sorted({path.partition("/")[0] for rows in _HEAD_ROWS for path in rows}))

# Names of the first PyTorch port, which bert-base-uncased and other published files still have.
_OLD_NAMES = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}


def name_map(family: Family, *, prefixed: bool, num_heads: int = 1) -> NameMap:
    """Return the names of the tensors of a family.

    Args:
        family: names of the family's layers.
        prefixed: whether the encoder's tensors begin with the family's prefix, such as "bert.".
            They do in files of a model with a head.
        num_heads: number of heads of the encoder, for tensors that store several layers by head.
    """
    heads = dict.fromkeys(HEADS, "")
    prefix = family.prefix if prefixed else ""
    return NameMap(
        {**family.encoder, **family.heads, **_VECTOR_LAYERS},
        _LEAVES,
        whole={path: LeafRule(name) for path, name in family.whole.items()},
        prefixes={**heads, "": prefix},
        redundant=[
            COUNTER,
            *(
                start + name
                for name in (*family.redundant, *family.computed)
                for start in {"", prefix}
            ),
        ],
        unread=family.unread,
        interleaved=family.interleaved,
        num_heads=num_heads,
    )


class ComputedTensor(NamedTuple):
    """Tensor that follows from a config, with the attributes of a Keras variable."""

    path: str
    shape: tuple[int, ...]
    dtype: str
    value: np.ndarray


def tensor_specs(
    family: Family, config: BertConfig, variables: Iterable[Any], *, prefixed: bool
) -> list[TensorSpec]:
    """Return the tensors to write: those that store variables, and those that the family computes.

    Args:
        family: names of the family's layers.
        config: config of the encoder.
        variables: variables of the model.
        prefixed: see `name_map`.
    """
    names = name_map(family, prefixed=prefixed, num_heads=config.num_heads)
    specs = names.tensor_specs(variables)
    for name, compute in family.computed.items():
        name = (family.prefix if prefixed else "") + name
        values = compute(config)
        tensor = ComputedTensor(name, values.shape, str(values.dtype), values)
        specs.append(TensorSpec(tensor, name, LeafRule(name)))
    return specs


def current_name(tensor: str) -> str:
    """Return the current name of a tensor that may come from an old file."""
    for old, current in _OLD_NAMES.items():
        if tensor.endswith(old):
            return tensor.removesuffix(old) + current
    return tensor


def write_config(config: BertConfig, class_name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `config.json` of a model, as Hugging Face's library reads it.

    If that library has no such model, `model_type` is "bert_keras", which it refuses to open.

    Args:
        config: config of the encoder.
        class_name: name of our class.
        options: options of the task; {} for an encoder.
    """
    family = family_for(config, class_name, options)
    head = write_head_options(class_name, options, family)
    values = {**config_values(config, class_name), **head}
    if family is NATIVE:
        values |= {"architectures": [None], "model_type": NATIVE.model_types[0]}
    return values


def family_for(config: BertConfig, class_name: str, options: Mapping[str, Any]) -> Family:
    """Return the names under which a model is written.

    These are the names of its own family if Hugging Face's library computes the same outputs from
    them. Otherwise they are `NATIVE`, the names of this package.

    Args:
        config: config of the encoder.
        class_name: name of our class.
        options: options of the task; {} for an encoder.
    """
    family, task = FAMILIES[config.family], task_format(class_name)
    fits = class_name in family.classes and has_hugging_face_head(options)
    fits = fits and round_trips(config, class_name)
    if task.is_mlm:
        mlm = options.get("activation") or config.activation
        epsilon = options.get("layer_norm_epsilon") or config.layer_norm_epsilon
        fits = fits and mlm == (family.mlm_activation or config.activation)
        fits = fits and epsilon == config.layer_norm_epsilon
    theirs = family_head(class_name, config)
    for name, plain in _HIDDEN.items():
        fits = fits and options.get(name, plain) == theirs.get(name, plain)
    fits = fits and (family.pooling is not None or options.get("pooling", "cls") == "cls")
    if task.has_pair_loss:
        fits = fits and f"{options.get('loss', 'nsp')}/dense" in family.heads
    return family if fits else NATIVE
