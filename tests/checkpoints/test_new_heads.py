"""The head of an opened task, from the checkpoint or new, for every family and task."""

from __future__ import annotations

import itertools
import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bert_keras import (
    BertEncoder,
    MaskedLM,
    MultipleChoice,
    Pretrainer,
    QuestionAnswerer,
    SentenceEncoder,
    SentencePairs,
    SequenceClassifier,
    TokenClassifier,
    load_checkpoint,
    models,
    save_checkpoint,
)
from bert_keras.checkpoints import hugging_face
from bert_keras.checkpoints.hugging_face_names import FAMILIES
from bert_keras.checkpoints.manifest import CONFIG, MANIFEST
from bert_keras.checkpoints.new_heads import takes_labels
from bert_keras.errors import ArtifactError, UsageError
from bert_keras.models import Task
from tests import contracts, families, reference
from tests.contracts import TINY

_CONFIGS = {name: families.config_of(name) for name in FAMILIES}
_TASKS = {
    name: getattr(models, name)
    for name in models.__all__
    if name[0].isupper() and issubclass(getattr(models, name), Task)
    if getattr(models, name).head_layers
}
# `SentencePairs` also has losses without labels, so that its labels are tested apart.
_LABELLED = [name for name in _TASKS if takes_labels(_TASKS[name]) and name != "SentencePairs"]
_NAMES = ["bad", "fair", "good"]
# Task classes whose heads have the same tensor names in Hugging Face's files.
_CLASSIFIERS = ("SequenceClassifier", "TokenClassifier", "MultipleChoice")


def _cases(names: Sequence[str]) -> pytest.MarkDecorator:
    """Return a mark for tests of every family, task and origin of the folder.

    All tasks of BERT and one task of every third family run each time; `.ci/full` runs all.
    """
    every_time = {
        (family, names[number % len(names)], number % 2 == 0)
        for number, family in enumerate([*FAMILIES][::3])
    }
    every_time |= {("bert", name, theirs) for name in names for theirs in (False, True)}
    cases = [
        pytest.param(
            *case,
            id=f"{case[0]}-{case[1]}-{'theirs' if case[2] else 'ours'}",
            marks=[] if case in every_time else [pytest.mark.slow],
        )
        for case in itertools.product(FAMILIES, names, (False, True))
        if not case[2] or case[1] in FAMILIES[case[0]].classes
    ]
    return pytest.mark.parametrize(("family", "name", "theirs"), cases)


def _task(family: str, name: str, **options: Any) -> Any:
    """Return a task with random weights and the head that its family uses."""
    encoder = BertEncoder(_CONFIGS[family])
    options = hugging_face.new_head_options(name, encoder.config) | options
    return contracts.as_trained(getattr(models, name)(encoder, **options))


def _folder(family: str, name: str, path: Path, *, theirs: bool, **options: Any) -> Path:
    """Write a checkpoint folder. `theirs` deletes the manifest, as Hugging Face has none."""
    _task(family, name, **options).save_to_preset(path)
    if theirs:
        (path / MANIFEST).unlink()
    return path


def _head(model: Any) -> dict[str, np.ndarray]:
    weights = contracts.weights(model)
    return {path: x for path, x in weights.items() if path.split("/")[0] in model.head_layers}


def _is_new(model: Any, saved: Any) -> bool:
    """Return whether the head is new, and check that the encoder is the saved one."""
    encoder = contracts.weights(model.encoder)
    for path, values in contracts.weights(saved.encoder).items():
        assert encoder[path].tobytes() == values.tobytes(), path
    ours, theirs = _head(model), _head(saved)
    kernels = [path for path in ours if path.endswith(("kernel", "mlm/output/embeddings"))]
    assert kernels
    return all(
        path not in theirs
        or ours[path].shape != theirs[path].shape
        or not np.array_equal(ours[path], theirs[path])
        for path in kernels
    )


# === Labels of a head that the checkpoint has ===


@_cases(_LABELLED)
def test_the_same_labels_load_the_head_and_other_labels_are_refused(
    family: str, name: str, theirs: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = _folder(family, name, tmp_path, theirs=theirs, labels=_NAMES)
    saved = load_checkpoint(folder)
    task_class: Any = getattr(models, name)
    for options in ({"labels": tuple(_NAMES)}, {"num_classes": 3}):
        same = task_class.from_preset(folder, **options)
        assert same.options["labels"] == _NAMES
        contracts.assert_same_weights(same, saved)
    there = r"has 3 labels, \['bad', 'fair', 'good'\]\. Received: "
    for options, received in (
        ({"labels": ["x", "y", "z"]}, r"labels=\['x', 'y', 'z'\]\. For"),
        ({"labels": _NAMES[::-1]}, r"labels=\['good', 'fair', 'bad'\], which is another order"),
        ({"labels": ["bad", "good"]}, r"labels=\['bad', 'good'\]"),
        ({"num_classes": 2}, r"num_classes=2"),
    ):
        with pytest.raises(ArtifactError, match=there + received) as error:
            task_class.from_preset(folder, **options)
        assert "pass new_head=True" in str(error.value)
    assert capsys.readouterr().out == ""


@_cases(_LABELLED)
def test_labels_without_names_are_compared_by_their_number(
    family: str, name: str, theirs: bool, tmp_path: Path
) -> None:
    folder = _folder(family, name, tmp_path, theirs=theirs, num_classes=3)
    task_class: Any = getattr(models, name)
    named = task_class.from_preset(folder, labels=_NAMES)
    assert named.options["labels"] == _NAMES
    contracts.assert_same_weights(named, load_checkpoint(folder))
    with pytest.raises(ArtifactError, match=r"has 3 labels without names\. .*new_head=True"):
        task_class.from_preset(folder, labels=["bad", "good"])


def test_the_number_of_labels_is_told_by_the_tensors_where_the_config_names_no_class(
    tmp_path: Path,
) -> None:
    folder = _folder("bert", "SequenceClassifier", tmp_path, theirs=True, num_classes=3)
    values = json.loads((folder / CONFIG).read_text()) | {"architectures": None}
    (folder / CONFIG).write_text(json.dumps(values))
    named = SequenceClassifier.from_preset(folder, labels=_NAMES)
    assert not _is_new(named, SequenceClassifier.from_preset(folder, num_classes=3))
    with pytest.raises(ArtifactError, match=r"has 3 labels without names.*new_head=True"):
        SequenceClassifier.from_preset(folder, num_classes=2)


@pytest.mark.parametrize("kind", ["keras_hub", "google_tf1"])
def test_the_rules_hold_for_other_formats(kind: str, tmp_path: Path) -> None:
    """The rules for labels also hold for KerasHub's and Google's formats.

    A KerasHub folder written here keeps the names of the labels, and Google's format only their
    number.
    """
    if kind == "google_tf1":
        pytest.importorskip("tensorflow")
    encoder = BertEncoder(TINY.replace(activation="gelu_tanh"))
    task = contracts.as_trained(SequenceClassifier(encoder, labels=_NAMES))
    save_checkpoint(task, tmp_path, format=kind)
    same = SequenceClassifier.from_preset(tmp_path, labels=_NAMES)
    contracts.assert_same_weights(same, task)
    for labels in ([_NAMES[::-1]] if kind == "keras_hub" else []) + [["x", "y"]]:
        with pytest.raises(ArtifactError, match=r"has 3 labels.*Received: labels=.*new_head=True"):
            SequenceClassifier.from_preset(tmp_path, labels=labels)
    assert _is_new(SequenceClassifier.from_preset(tmp_path, labels=["x"], new_head=True), task)
    assert _is_new(QuestionAnswerer.from_preset(tmp_path, new_head=True), task)
    with pytest.raises(ArtifactError, match="or new_head=True"):
        MaskedLM.from_preset(tmp_path)


def test_without_weights_any_labels_may_be_given(tmp_path: Path) -> None:
    folder = _folder("bert", "SequenceClassifier", tmp_path, theirs=False, labels=_NAMES)
    task = SequenceClassifier.from_preset(folder, load_weights=False, labels=["x", "y"])
    assert task.options["labels"] == ["x", "y"]


# === new_head=True ===


@_cases(_LABELLED)
def test_new_head_makes_a_new_head_over_the_head_that_is_there(
    family: str, name: str, theirs: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = _folder(family, name, tmp_path, theirs=theirs, labels=_NAMES)
    saved, task_class = load_checkpoint(folder), getattr(models, name)
    for options, labels in (
        ({}, _NAMES),
        ({"labels": ["x", "y", "z"]}, ["x", "y", "z"]),
        ({"labels": ["x"]}, ["x"]),
        ({"num_classes": 2}, ["LABEL_0", "LABEL_1"]),
    ):
        made = task_class.from_preset(folder, new_head=True, **options)
        assert made.options["labels"] == labels
        assert made.options["num_classes"] == len(labels)
        assert _is_new(made, saved)
        printed = capsys.readouterr().out
        assert printed.count("\n") == 1
        assert f"new_head=True: the head of this {name} over {folder} is new" in printed


def test_the_problem_of_a_new_head_follows_from_its_labels(tmp_path: Path) -> None:
    options: dict[str, Any] = {"labels": _NAMES, "problem": "multi_label", "activation": "sigmoid"}
    folder = _folder("bert", "SequenceClassifier", tmp_path, theirs=False, **options)
    kept = SequenceClassifier.from_preset(folder, new_head=True)
    assert {name: kept.options[name] for name in options} == options
    other = SequenceClassifier.from_preset(folder, new_head=True, labels=["score"])
    assert other.options["problem"] == "regression"
    assert "activation" not in other.options


@pytest.mark.parametrize("family", FAMILIES)
def test_new_head_of_every_task_without_labels(
    family: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`new_head=True` keeps the encoder of a masked language model and makes a new head."""
    save_checkpoint(_task(family, "MaskedLM", **_activation_of(family)), tmp_path)
    saved: Any = load_checkpoint(tmp_path)
    config = saved.encoder.config
    walked = []
    for name, task_class in _TASKS.items():
        has_pairs = config.pooler and config.num_segments > 1
        fits = {"Pretrainer": has_pairs, "ElectraPretrainer": config.takes_generator}.get(
            name, True
        )
        if takes_labels(task_class) or not fits:
            continue
        walked.append(name)
        assert _is_new(task_class.from_preset(tmp_path, new_head=True), saved)
        assert capsys.readouterr().out.count("\n") == 1
    assert {"MaskedLM", "MultipleChoice", "QuestionAnswerer"} < set(walked)


def _activation_of(family: str) -> dict[str, Any]:
    activation = FAMILIES[family].mlm_activation
    return {} if activation is None else {"activation": activation}


def test_new_head_of_pretraining_also_makes_a_pooler(transformers: Any, tmp_path: Path) -> None:
    reference.hugging_face_model(transformers, "ForMaskedLM").save_pretrained(tmp_path)
    task = Pretrainer.from_preset(tmp_path, new_head=True)
    assert {"mlm/bias", "nsp/dense/kernel", "pooler/dense/kernel"} <= set(contracts.weights(task))


def test_a_task_without_a_head_refuses_new_head(tmp_path: Path, saved: Path) -> None:
    with pytest.raises(UsageError, match=r"this SentenceEncoder has no head.*allow_unused="):
        SentenceEncoder.from_preset(saved, new_head=True)
    with pytest.raises(UsageError, match="this SentencePairs has no head"):
        SentencePairs.from_preset(saved, new_head=True, loss="in_batch")
    with pytest.raises(TypeError, match="new_head"):
        BertEncoder.from_preset(saved, new_head=True)
    pairs = SentencePairs.from_preset(
        saved, new_head=True, loss="classification", labels=["a", "b"]
    )
    pairs.save_to_preset(tmp_path)
    with pytest.raises(ArtifactError, match=r"has 2 labels, \['a', 'b'\]\. Received: labels="):
        SentencePairs.from_preset(tmp_path, labels=["b", "a"])


def test_a_new_head_does_not_take_over_the_saved_state(tmp_path: Path) -> None:
    task = _task("bert", "SequenceClassifier", labels=_NAMES)
    task.encoder.trainable = False
    task.save_to_preset(tmp_path)
    with pytest.warns(UserWarning, match="has state that a new SequenceClassifier does not take"):
        made = SequenceClassifier.from_preset(tmp_path, new_head=True)
    assert len(made.trainable_weights) == len(made.weights)


def test_load_checkpoint_takes_new_head(tmp_path: Path) -> None:
    folder = _folder("bert", "TokenClassifier", tmp_path, theirs=False, labels=_NAMES)
    assert _is_new(load_checkpoint(folder, new_head=True), load_checkpoint(folder))


# === The head of another task ===


@_cases(_CLASSIFIERS)
def test_the_head_of_another_task_is_refused_by_name(
    family: str, name: str, theirs: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {} if name == "MultipleChoice" else {"num_classes": 1}
    folder = _folder(family, name, tmp_path, theirs=theirs, **options)
    saved = load_checkpoint(folder)
    for other in _CLASSIFIERS:
        if other == name:
            continue
        task_class: Any = getattr(models, other)
        is_labelled = other != "MultipleChoice"
        with pytest.raises(ArtifactError, match=f"of a {name}, not of a {other}:") as error:
            task_class.from_preset(folder)
        assert "new_head=True" in str(error.value)
        assert ("labels=[…]" in str(error.value)) == is_labelled
        asked: dict[str, Any] = {"labels": ["x"]} if is_labelled else {"new_head": True}
        assert _is_new(task_class.from_preset(folder, **asked), saved)
        printed = capsys.readouterr().out
        assert printed.count("\n") == 1
        assert ("has no head of a" in printed) == is_labelled
        assert _is_new(task_class.from_preset(folder, **{**asked, "new_head": True}), saved)
        assert capsys.readouterr().out.count("\n") == 1


@pytest.mark.parametrize("family", reference.HUGGING_FACE)
@pytest.mark.parametrize("ending", ["ForSequenceClassification", "ForTokenClassification"])
def test_folders_that_transformers_wrote(
    ending: str, family: str, transformers: Any, tmp_path: Path
) -> None:
    model = reference.hugging_face_model(
        transformers, ending, family, id2label=dict(enumerate(_NAMES))
    )
    model.save_pretrained(tmp_path)
    ours = {"ForSequenceClassification": SequenceClassifier}.get(ending, TokenClassifier)
    other = TokenClassifier if ours is SequenceClassifier else SequenceClassifier
    task = ours.from_preset(tmp_path, labels=_NAMES)
    reference.same_as_hugging_face(task, model, contracts.inputs_of(task))
    with pytest.raises(ArtifactError, match=r"Received: labels=\['x', 'y'\].*new_head=True"):
        ours.from_preset(tmp_path, labels=["x", "y"])
    assert _is_new(ours.from_preset(tmp_path, labels=["x", "y", "z"], new_head=True), task)
    for wrong in (other, MultipleChoice):
        with pytest.raises(ArtifactError, match=f"not of a {wrong.__name__}:\n  classifier"):
            wrong.from_preset(tmp_path)
    assert _is_new(other.from_preset(tmp_path, labels=_NAMES), task)


def test_one_head_of_several_tasks_is_taken_where_the_config_names_no_class(tmp_path: Path) -> None:
    folder = _folder("bert", "SequenceClassifier", tmp_path, theirs=True, num_classes=1)
    values = json.loads((folder / CONFIG).read_text()) | {"architectures": None}
    (folder / CONFIG).write_text(json.dumps(values))
    MultipleChoice.from_preset(folder)


def test_pretraining_heads_are_those_of_every_task_that_has_them(saved: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        task = MaskedLM.from_preset(saved, allow_unused=("nsp",))
    assert not _is_new(task, load_checkpoint(saved))


def test_the_pairs_of_a_sentence_encoder_are_not_the_labels_of_texts(tmp_path: Path) -> None:
    pairs = SentencePairs(BertEncoder(TINY), loss="classification", labels=_NAMES)
    pairs.save_to_preset(tmp_path)
    SentenceEncoder.from_preset(tmp_path, allow_unused=("label",))
    with pytest.raises(ArtifactError, match="of a SentencePairs, not of a SequenceClassifier"):
        SequenceClassifier.from_preset(tmp_path)


def test_a_head_that_may_be_missing_is_not_filled_from_another_task(tmp_path: Path) -> None:
    """A head that may be missing is new, and takes no tensors from the head of another task.

    RoBERTa names the head of multiple choice `classifier`. Its text classification head is
    `classifier.dense` and `classifier.out_proj`.
    """
    options: dict[str, Any] = {"allow_missing": ("choice",), "allow_unused": ("label",)}
    folder = _folder("bert", "SequenceClassifier", tmp_path / "a", theirs=True, num_classes=1)
    with pytest.raises(ArtifactError, match="of a SequenceClassifier, not of a MultipleChoice"):
        MultipleChoice.from_preset(folder, **options)
    folder = _folder("roberta", "SequenceClassifier", tmp_path / "b", theirs=True, num_classes=1)
    assert _is_new(MultipleChoice.from_preset(folder, **options), load_checkpoint(folder))


# === Labels imply their number ===


@pytest.mark.parametrize("name", [*_LABELLED, "SentencePairs"])
def test_labels_imply_the_number_of_classes(name: str) -> None:
    task_class: Any = getattr(models, name)
    more = {"loss": "classification"} if name == "SentencePairs" else {}
    task = task_class(BertEncoder(TINY), labels=_NAMES, **more)
    assert (task.options["num_classes"], task.options["labels"]) == (3, _NAMES)
    with pytest.raises(ValueError, match="`labels` must be 2 different names"):
        task_class(BertEncoder(TINY), labels=_NAMES, num_classes=2, **more)
    with pytest.raises(ValueError, match="`labels`"):
        task_class(BertEncoder(TINY), **more)


@pytest.mark.parametrize("name", _LABELLED)
def test_a_new_head_without_labels_is_refused_with_the_folder(name: str, saved: Path) -> None:
    message = rf"{saved} has no head of a {name}\. For a new one pass labels="
    with pytest.raises(ValueError, match=message):
        _TASKS[name].from_preset(saved, allow_unused=("mlm", "nsp"))


def test_labels_and_a_number_that_contradict_each_other_are_refused(saved: Path) -> None:
    with pytest.raises(ValueError, match="`labels` must be 2 different names"):
        SequenceClassifier.from_preset(saved, num_classes=2, labels=_NAMES)
    task = SequenceClassifier.from_preset(saved, num_classes=None, labels=_NAMES)
    assert task.options["num_classes"] == 3
