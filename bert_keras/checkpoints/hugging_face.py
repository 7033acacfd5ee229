"""Translation between our configs and head options and Hugging Face's, in both directions.

The tables of names are in `hugging_face_names`.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bert_keras.checkpoints.hugging_face_config import config_values, round_trips
from bert_keras.checkpoints.hugging_face_family import (
    OF_ENCODER,
    Family,
    stated_value,
    task_format,
)
from bert_keras.checkpoints.hugging_face_names import FAMILIES, NATIVE
from bert_keras.config import BertConfig
from bert_keras.errors import ArtifactError

# Limit of `num_labels` without names: a damaged config must not allocate any amount of memory.
MOST_CLASSES = 100_000
# Options that only our heads have, with the value at which they equal Hugging Face's heads.
_OURS = {"crf": False, "representation": "last"}
# Options of ELECTRA's multiple-choice head, with the only values that our head supports.
_SUMMARY = {"summary_type": "first", "summary_use_proj": True, "summary_activation": "gelu"}
# Options of the hidden layer of a head, with their defaults.
_HIDDEN = {"hidden_activation": None, "hidden_norm": False, "hidden_bias": True}
# Options of the MLM head, with those of BERT's.
_MLM = {"hidden_norm": True, "hidden_bias": True, "output_bias": True}
# Options of a text classifier that a `TextRanker` has no choice of.
_OF_CLASSES = ("num_classes", "labels", "problem")
_PROBLEMS = {
    "single_label": "single_label_classification",
    "multi_label": "multi_label_classification",
    "regression": "regression",
}


def stored(class_name: str, options: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return the class and the options that files state for a task.

    A `TextRanker` is written as a `SequenceClassifier` of one class.
    """
    theirs = task_format(class_name).stored_as
    if not theirs:
        return class_name, options
    return theirs, {**options, "num_classes": 1, "labels": ["LABEL_0"], "problem": "regression"}


def options_for(class_name: str, written: str, options: dict[str, Any]) -> dict[str, Any] | None:
    """Return the options of a task that was written as another class with the same head.

    Args:
        class_name: name of the class that is opened.
        written: name of the class that was written.
        options: options of that class.

    Returns:
        Options of `class_name`; None if the two classes have other heads.
    """
    if task_format(class_name).stored_as == written:
        return {name: value for name, value in options.items() if name not in _OF_CLASSES}
    if task_format(written).stored_as == class_name:
        kept = {name: value for name, value in options.items() if name != "loss"}
        return dict(stored(written, kept)[1])
    return None


def write_head_options(
    class_name: str, options: Mapping[str, Any], family: Family
) -> dict[str, Any]:
    """Return the config.json entries of a head: names of its classes, problem type, dropout.

    Args:
        class_name: name of our task class.
        options: options of the task.
        family: names of the encoder's family.
    """
    class_name, options = stored(class_name, options)
    values: dict[str, Any] = {}
    if "labels" in options:
        values["id2label"] = {str(i): name for i, name in enumerate(options["labels"])}
        values["label2id"] = {name: i for i, name in enumerate(options["labels"])}
    if "problem" in options:
        values["problem_type"] = _PROBLEMS[options["problem"]]
    key = family.head_dropout.get(class_name)
    if key and options.get("dropout") is not None:
        values[key] = options["dropout"]
    task = task_format(class_name)
    if family.pooling and task.reads_text_vector:
        values[family.pooling] = family.poolings[options.get("pooling", "cls")]
    if family.hidden_dropout_key and options.get("hidden_dropout") is not None:
        values[family.hidden_dropout_key] = options["hidden_dropout"]
    tied = options.get("tied", True)
    if task.is_mlm and tied != family.defaults.get("tie_word_embeddings", True):
        values["tie_word_embeddings"] = tied
    if task.is_mlm and family.mlm_sizes:
        pairs = zip(family.mlm_sizes, options["hidden_sizes"], strict=True)
        values |= {key: size for key, size in pairs if key in family.defaults}
    return values


def pooling_of(values: Mapping[str, Any], family: Family, path: Path) -> str:
    """Return the way in which a text classifier reads the tokens: a name of our option `pooling`.

    Raises:
        ArtifactError: if it is not known.
    """
    assert family.pooling is not None
    stated = stated_value(values, family.pooling, family)
    for ours, theirs in family.poolings.items():
        if theirs == stated:
            return ours
    raise ArtifactError(
        f"{path}: not supported: {family.pooling}={stated!r:.100}. "
        f"Supported: {', '.join(family.poolings.values())}"
    )


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
        return _mlm_head(family, config)
    activation = family.hidden_activation.get(task.stored_as or class_name)
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


def _mlm_head(family: Family, config: BertConfig) -> dict[str, Any]:
    """Return the options of `MaskedLM` in which a family's head differs from BERT's."""
    options: dict[str, Any] = {} if family.hidden_bias else {"hidden_bias": False}
    if family.mlm_activation not in (None, config.activation):
        options["activation"] = family.mlm_activation
    options |= family.mlm_head
    if family.mlm_bias and not getattr(config, family.mlm_bias):
        options["output_bias"] = False
    if family.may_be_untied and not family.defaults.get("tie_word_embeddings", True):
        options["tied"] = False
    if family.mlm_sizes:
        defaults = (family.defaults.get(key, config.hidden_size) for key in family.mlm_sizes)
        options["hidden_sizes"] = list(defaults)
    return options


def needs_pooler(class_name: str, config: BertConfig) -> bool:
    """Return whether a head of this class needs a pooler that the encoder lacks."""
    task = task_format(class_name)
    if config.pooler:
        return False
    if task.has_pair_loss:
        return True
    if FAMILIES[config.family].new_pooling != "cls":
        return False
    return task.reads_text_vector and (family_head(class_name, config)["hidden_activation"] is None)


def new_head_options(class_name: str, config: BertConfig) -> dict[str, Any]:
    """Return the options of a new head: those of its family.

    If that head needs a pooler and the encoder has none, a tanh layer in the head replaces it.
    """
    options = family_head(class_name, config)
    pooling = FAMILIES[config.family].new_pooling
    if pooling != "cls" and task_format(class_name).reads_text_vector:
        options["pooling"] = pooling
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
    if task.has_pair_loss:
        options["loss"] = "nsp" if "nsp/dense" in family.heads else "sop"
    options |= family_head(class_name, config)
    if task.is_mlm:
        options |= _stated_mlm_head(values, family)
    if family.hidden_dropout_key and "hidden_dropout" in options:
        rate = values.get(family.hidden_dropout_key)
        options |= {} if rate is None else {"hidden_dropout": rate}
    if family.pooling and task.reads_text_vector:
        pooling = pooling_of(values, family, path)
        options |= {} if pooling == "cls" else {"pooling": pooling}
    if task.has_summary and class_name in family.classes:
        for key, value in _SUMMARY.items():
            if values.get(key, value) != value:
                received = f"{key}={values[key]!r:.100}"
                raise ArtifactError(f"{path}: not supported: {received}. Supported: {value!r}")
    key = family.head_dropout.get(task.stored_as or class_name)
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


def _stated_mlm_head(values: Mapping[str, Any], family: Family) -> dict[str, Any]:
    """Return the options of `MaskedLM` that a config states."""
    options: dict[str, Any] = {}
    if family.may_be_untied:
        options["tied"] = stated_value(values, "tie_word_embeddings", family)
    if family.mlm_sizes:
        options["hidden_sizes"] = [stated_value(values, key, family) for key in family.mlm_sizes]
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


# === Configs ===


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
        fits = fits and _is_their_width(options, family, config)
    theirs = family_head(class_name, config)
    for name, plain in (_MLM if task.is_mlm else _HIDDEN).items():
        fits = fits and options.get(name, plain) == theirs.get(name, plain)
    poolings = family.poolings if family.pooling is not None else ("cls",)
    if task.reads_text_vector:
        # No head of theirs scales its vector to length 1.
        fits = fits and options.get("pooling", "cls") in poolings and not options.get("normalize")
    if task.has_pair_loss:
        fits = fits and f"{options.get('loss', 'nsp')}/dense" in family.heads
    return family if fits else NATIVE


def _is_their_width(options: Mapping[str, Any], family: Family, config: BertConfig) -> bool:
    """Return whether an MLM head has the dense layers and the output matrix of its family's."""
    sizes: Any = options.get("hidden_sizes")
    theirs: Any = _mlm_head(family, config).get("hidden_sizes")
    if family.mlm_sizes and sizes is not None and len(sizes) == len(theirs):
        # The config states those that have a default.
        stated = (key in family.defaults for key in family.mlm_sizes)
        theirs = [
            mine if is_stated else size
            for mine, size, is_stated in zip(sizes, theirs, stated, strict=True)
        ]
    return sizes == theirs and (family.may_be_untied or options.get("tied", True))
