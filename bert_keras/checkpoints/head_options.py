"""Options of heads in Hugging Face's config, and ours: labels, problem, dropout."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bert_keras.checkpoints.families import FAMILIES, Family
from bert_keras.config import BertConfig
from bert_keras.errors import ArtifactError

MOST_CLASSES = 100_000  # without names, which would make the file as large
_LABELLED = ("SequenceClassifier", "TokenClassifier")
_OF_A_TEXT = ("SequenceClassifier", "MultipleChoice")  # heads over one vector
# What only our heads can be, and what all others are.
_OURS = {"crf": False, "representation": "last"}
# ELECTRA's head over choices has them; ours is always so.
_SUMMARY = {"summary_type": "first", "summary_use_proj": True, "summary_activation": "gelu"}
_PROBLEMS = {
    "single_label": "single_label_classification",
    "multi_label": "multi_label_classification",
    "regression": "regression",
}


def write(class_name: str, options: Mapping[str, Any], family: Family) -> dict[str, Any]:
    """Return the entries of a config for a head: the names of its classes, the problem, dropout."""
    values: dict[str, Any] = {}
    if "labels" in options:
        values["id2label"] = {str(i): name for i, name in enumerate(options["labels"])}
        values["label2id"] = {name: i for i, name in enumerate(options["labels"])}
    if "problem" in options:
        values["problem_type"] = _PROBLEMS[options["problem"]]
    key = family.head_dropout.get(class_name)
    if key and options.get("dropout") is not None:
        values[key] = options["dropout"]
    return values


def family_head(class_name: str, config: BertConfig) -> dict[str, Any]:
    """Return the options of a family's head over [CLS]: `SequenceClassifier`, `MultipleChoice`."""
    family = FAMILIES[config.family]
    options: dict[str, Any] = {"hidden_activation": family.hidden_activation.get(class_name)}
    if family.hidden_dropout is not None:
        options["hidden_dropout"] = family.hidden_dropout
    return options


def needs_pooler(class_name: str, config: BertConfig) -> bool:
    """Return whether a head of this class reads a pooler that the encoder does not have."""
    if class_name == "Pretrainer":
        return not config.pooler
    if class_name not in _OF_A_TEXT or config.pooler:
        return False
    return family_head(class_name, config)["hidden_activation"] is None


def of_a_new_head(class_name: str, config: BertConfig) -> dict[str, Any]:
    """Return the options of a new head: those of its family, or a tanh layer without a pooler."""
    if class_name not in _OF_A_TEXT:
        return {}
    options = family_head(class_name, config)
    return options | ({"hidden_activation": "tanh"} if needs_pooler(class_name, config) else {})


def are_theirs(options: Mapping[str, Any]) -> bool:
    """Return whether other libraries have such a head: over the last layer, token by token."""
    return all(options.get(name, plain) == plain for name, plain in _OURS.items())


def read(
    class_name: str, values: Mapping[str, Any], config: BertConfig, path: Path
) -> dict[str, Any]:
    """The options of one of our task classes, from a Hugging Face config.

    Labels are read where the config is of that class; else they are the caller's to give.

    Raises:
        ArtifactError: `id2label` or `problem_type` cannot be used.
    """
    family = FAMILIES[config.family]
    options: dict[str, Any] = {}
    if class_name == "MaskedLM" and family.mlm_activation not in (None, config.activation):
        options["activation"] = family.mlm_activation
    if class_name == "Pretrainer":
        options["loss"] = "nsp" if "nsp/dense" in family.heads else "sop"
    if class_name in _OF_A_TEXT:
        options |= family_head(class_name, config)
    if class_name == "MultipleChoice":
        for key, value in _SUMMARY.items():
            if values.get(key, value) != value:
                raise ArtifactError(f"{path}: not supported: {key}={values[key]!r:.100}")
    key = family.head_dropout.get(class_name)
    if key and values.get(key) is not None:
        options["dropout"] = values[key]
    told = values.get("architectures")
    is_of_it = isinstance(told, list) and any(name in told for name in family.calls(class_name))
    if class_name in _LABELLED and is_of_it:
        options["labels"] = _labels(values, path)
        options["num_classes"] = len(options["labels"])
        if class_name == "SequenceClassifier" and values.get("problem_type") is not None:
            options["problem"] = _problem(values["problem_type"], path)
    return options


def _labels(values: Mapping[str, Any], path: Path) -> list[str]:
    told = values.get("id2label")
    if told is None:
        count = values.get("num_labels", 2)
        if not isinstance(count, int) or not 0 < count <= MOST_CLASSES:
            raise ArtifactError(
                f"{path}: num_labels must be an integer from 1 to {MOST_CLASSES}. "
                f"Received: {count!r}"
            )
        told = {str(i): f"LABEL_{i}" for i in range(count)}
    names = [told.get(str(i)) for i in range(len(told))] if isinstance(told, dict) else []
    labels = [name for name in names if isinstance(name, str)]
    if not labels or len(labels) < len(names):
        raise ArtifactError(
            f"{path}: id2label must give a name to each of 0, 1, 2 and so on. "
            f"Received: {str(told)[:200]}"
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
    for ours, name in _PROBLEMS.items():
        if name == theirs:
            return ours
    raise ArtifactError(f"{path}: not supported: problem_type={theirs!r}")
