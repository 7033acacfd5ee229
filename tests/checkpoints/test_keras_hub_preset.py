"""Damaged and unusual KerasHub presets.

Valid ones are tested in test_keras_hub.py and test_keras_hub_tasks.py.
"""

from __future__ import annotations

import functools
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from bert_keras import BertEncoder, MaskedLM, SequenceClassifier, load_checkpoint, save_checkpoint
from bert_keras.checkpoints import keras_hub_preset as module
from bert_keras.checkpoints import streaming
from bert_keras.checkpoints.keras_hub import WEIGHTS as HEAD
from bert_keras.checkpoints.keras_hub_names import BACKBONES
from bert_keras.checkpoints.keras_hub_preset import WEIGHTS
from bert_keras.errors import ArtifactError, NumericError
from tests import contracts, reference
from tests.contracts import TINY


@pytest.fixture(scope="module")
def preset(keras_hub: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the preset of a backbone. Copy it before changing it."""
    folder = tmp_path_factory.mktemp("keras_hub")
    reference.keras_hub_model(keras_hub, "BertBackbone").save_to_preset(str(folder))
    return folder


@pytest.fixture(scope="module")
def classifier(keras_hub: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a saved RobertaTextClassifier with an optimizer. Copy it before changing it."""
    folder = tmp_path_factory.mktemp("keras_hub")
    backbone = reference.keras_hub_model(keras_hub, "RobertaBackbone")
    task = keras_hub.models.RobertaTextClassifier(backbone=backbone, num_classes=3)
    task.optimizer.build(task.trainable_variables)
    task.save_to_preset(str(folder))
    return folder


def _edit(file: str = "config.json", **changes: Any) -> Callable[[Path], None]:
    """Return a function that changes values of a JSON file in a preset."""

    def edit(folder: Path) -> None:
        path = folder / file
        values = json.loads(path.read_text())
        for key, value in changes.items():
            inside = values.get("config", {})
            (inside if key in inside else values)[key] = value
        path.write_text(json.dumps(values))

    return edit


def _with_file(change: Callable[[Any], object]) -> Callable[[Path], None]:
    """Return a function that changes the HDF5 file of a preset."""

    def damage(folder: Path) -> None:
        with h5py.File(folder / WEIGHTS, "r+") as file:
            change(file)

    return damage


def _link(file: Any) -> None:
    del file["layers/dense/vars/0"]
    file["layers/dense/vars/0"] = h5py.ExternalLink("/etc/passwd", "x")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_edit(registered_name="keras_hub>GemmaBackbone"), "registered_name='keras_hub>GemmaB"),
        (_edit(config=3), "no config in it"),
        (_edit(num_heads=3), "`num_heads` must divide"),
        (_edit(vocabulary_size=10**15), "`vocab_size` must be .* at most 16,777,216"),
        (_edit(vocabulary_size=10**7), r"reversible_embedding/vars/0: expected \[10{7}, 8\]"),
        (_edit(num_layers=3), r"Missing in the file:\n  layers/transformer_encoder_2"),
        (_edit(num_layers=1), r"Not used by the model:\n  layers/transformer_encoder_1"),
        (lambda f: (f / WEIGHTS).unlink(), r"model\.weights\.h5: no such file"),
        (lambda f: (f / WEIGHTS).write_bytes(b"x"), r"model\.weights\.h5: not a whole HDF5 file"),
        (
            lambda f: (f / WEIGHTS).write_bytes((f / WEIGHTS).read_bytes()[:-200]),
            r"model\.weights\.h5: (not a whole|damaged)",
        ),
        (_with_file(_link), "layers/dense/vars/0: a link"),
        (_with_file(lambda f: f.__delitem__("layers/dense/vars/1")), "Missing in the file"),
        (_with_file(lambda f: f.create_dataset("more", data=np.ones(3))), "Not used .*\n  more"),
    ],
)
def test_refused(damage: Any, message: str, preset: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(preset, tmp_path / "folder"))
    damage(folder)
    with pytest.raises(ArtifactError, match=message):
        load_checkpoint(folder)


_edit_task = functools.partial(_edit, "task.json")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            _edit_task(registered_name="keras_hub>RobertaQA"),
            r"task\.json: .*RobertaQA'.*Open the e",
        ),
        (_edit_task(registered_name="keras_hub>BertMaskedLM"), "BertMaskedLM' is not one"),
        (_edit_task(config=3), r"task\.json: no config in it"),
        (_edit_task(config={}), r"task\.json: missing: dropout, num_classes"),
        (_edit_task(activation="softmax"), "'softmax'. A SequenceClassifier gives logits"),
        (_edit_task(hidden_dim=6), "not supported: hidden_dim=6 of a head over a backbone"),
        (_edit_task(num_classes="3"), r"task\.json: the options do not fit.*`num_classes` must be"),
        (_edit_task(num_classes=5), r"task\.weights\.h5/layers/dense_1/vars/0: expected \[8, 5\]"),
        (_edit_task(dropout=2.0), r"task\.json: the options do not fit a SequenceClassifier"),
        (_edit("metadata.json", bert_keras={"x": 1}), r"metadata\.json: bert_keras must be an"),
        (_edit("metadata.json", bert_keras={"labels": ["a"]}), "must be 3 different names"),
        (lambda f: (f / "task.json").write_text("["), r"task\.json: not JSON"),
        (
            lambda f: (f / HEAD).unlink(),
            r"Missing in the file:\n  task\.weights\.h5/layers",
        ),
        (
            lambda f: (f / HEAD).write_bytes(b"x"),
            r"task\.weights\.h5: not a whole HDF5 file",
        ),
    ],
)
def test_a_head_is_refused(damage: Any, message: str, classifier: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(classifier, tmp_path / "folder"))
    damage(folder)
    with pytest.raises(ArtifactError, match=message):
        load_checkpoint(folder)


def test_a_backbone_alone_has_no_head(preset: Path, classifier: Path, tmp_path: Path) -> None:
    assert SequenceClassifier.from_preset(preset, num_classes=3).options["num_classes"] == 3
    with pytest.raises(ArtifactError, match=r"has nothing for mlm/.*allow_missing="):
        MaskedLM.from_preset(preset)
    # A new head takes its activation and epsilon from the encoder.
    task = MaskedLM.from_preset(preset, allow_missing=("mlm",))
    assert task.options == {"activation": None, "layer_norm_epsilon": None}
    folder = Path(shutil.copytree(classifier, tmp_path / "folder"))
    for name in ("task.json", HEAD):
        (folder / name).unlink()
    task = SequenceClassifier.from_preset(folder, num_classes=2)
    assert task.options["hidden_activation"] == "tanh"


def test_a_head_can_be_left_aside(classifier: Path, tmp_path: Path) -> None:
    """An encoder opens without the head. Another task needs `allow_unused`."""
    encoder = BertEncoder.from_preset(classifier)
    task = load_checkpoint(classifier)
    assert isinstance(task, SequenceClassifier)
    contracts.assert_same_weights(encoder, task.encoder)
    with pytest.raises(ArtifactError, match=r"Not used by the model:\n  task\.weights\.h5/layers"):
        MaskedLM.from_preset(classifier, allow_missing=("mlm",))
    MaskedLM.from_preset(classifier, allow_missing=("mlm",), allow_unused=("label",))
    folder = Path(shutil.copytree(classifier, tmp_path / "folder"))
    _edit_task(registered_name="keras_hub>RobertaQA")(folder)
    contracts.assert_same_weights(BertEncoder.from_preset(folder), encoder)


def test_older_names(classifier: Path, tmp_path: Path) -> None:
    """Presets of KerasNLP, the earlier name of KerasHub, still open."""
    folder = Path(shutil.copytree(classifier, tmp_path / "folder"))
    _edit(registered_name="keras_nlp>RobertaBackbone")(folder)
    old = "RobertaClassifier"
    _edit_task(registered_name=f"keras_nlp>{old}", class_name=old)(folder)
    contracts.assert_same_weights(load_checkpoint(folder), load_checkpoint(classifier))


def test_is_one() -> None:
    assert module.is_one({"registered_name": "keras_hub>BertBackbone"})
    assert not module.is_one({"model_type": "bert"})


# === Presets that are written without KerasHub. That KerasHub opens them is tested in
# test_keras_hub.py and test_keras_hub_tasks.py. ===


_TANH = TINY.replace(activation="gelu_tanh")


def test_it_needs_no_keras_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "keras_hub", None)
    task = contracts.as_trained(SequenceClassifier(BertEncoder(_TANH), 2, labels=["a", "b"]))
    told: list[Any] = []
    with streaming.reported(lambda *what: told.append(what)):
        save_checkpoint(task, tmp_path, format="keras_hub")
    opened = load_checkpoint(tmp_path)
    assert opened.options["labels"] == ["a", "b"]
    contracts.assert_same_weights(opened, task)
    assert {path.name for path in tmp_path.iterdir()} == {
        *("config.json", "metadata.json", "model.weights.h5", "task.json", "task.weights.h5")
    }
    assert told[0][0] == f"writing {tmp_path}"
    assert told[-1][1] == told[-1][2]


# XLM-R is left out, because it is written as a RoBERTa.
@pytest.mark.parametrize("name", [name for name in BACKBONES if "XLM" not in name])
def test_the_files_say_what_theirs_do(name: str, keras_hub: Any, tmp_path: Path) -> None:
    backbone = reference.keras_hub_model(keras_hub, name)
    _same_texts(backbone, tmp_path, "config.json")
    for ending in BACKBONES[name].heads:
        task_class = getattr(keras_hub.models, name.removesuffix("Backbone") + ending)
        more = {"num_classes": 3} if ending == "TextClassifier" else {}
        _same_texts(task_class(backbone=backbone, **more), tmp_path / ending, "task.json")


def _same_texts(model: Any, folder: Path, name: str) -> None:
    """Check that the JSON files of this package say nothing that KerasHub's own files do not say.

    KerasHub also writes default values and the name of the model.
    """
    model.save_to_preset(str(folder / "theirs"))
    save_checkpoint(load_checkpoint(folder / "theirs"), folder / "ours", format="keras_hub")
    _within(*(_values(folder / each / name) for each in ("ours", "theirs")))
    theirs, ours = (_values(folder / each / "metadata.json") for each in ("theirs", "ours"))
    for key in ("tasks", "keras_version"):
        assert ours[key] == theirs[key]


def _within(ours: Any, theirs: Any) -> None:
    """Check that all values of `ours` are in `theirs`, apart from names."""
    if isinstance(ours, dict):
        for key in ours.keys() - {"name"}:
            _within(ours[key], theirs[key])
    else:
        assert ours == theirs


def _values(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())


def test_another_models_head_goes(tmp_path: Path) -> None:
    """Saving an encoder removes the head that was saved before in the folder."""
    encoder = BertEncoder(_TANH)
    save_checkpoint(SequenceClassifier(encoder, 2), tmp_path, format="keras_hub")
    save_checkpoint(encoder, tmp_path, format="keras_hub")
    assert not (tmp_path / "task.json").exists()
    assert isinstance(load_checkpoint(tmp_path), BertEncoder)


def test_a_pooler_that_is_not_there_is_zero(tmp_path: Path) -> None:
    """KerasHub's format needs a pooler, so that a missing one is written as zeros."""
    encoder = contracts.as_trained(BertEncoder(_TANH.replace(pooler=False)))
    save_checkpoint(encoder, tmp_path, format="keras_hub")
    opened = load_checkpoint(tmp_path)
    assert isinstance(opened, BertEncoder)
    for weight in opened.weights:
        if "pooler" in weight.path:
            np.testing.assert_array_equal(contracts.numpy(weight.value), 0)


def test_nothing_is_written_of_a_broken_model(tmp_path: Path) -> None:
    encoder = BertEncoder(_TANH)
    kernel = encoder.weights[0]
    kernel.assign(np.full(kernel.shape, np.nan))
    with pytest.raises(NumericError, match="not finite: nothing was written"):
        save_checkpoint(encoder, tmp_path / "folder", format="keras_hub")
    assert not (tmp_path / "folder").exists()


def test_bfloat16_is_written_as_float32(tmp_path: Path) -> None:
    encoder = contracts.as_trained(BertEncoder(_TANH, dtype="bfloat16"))
    save_checkpoint(encoder, tmp_path, format="keras_hub")
    contracts.assert_same_weights(load_checkpoint(tmp_path, dtype="bfloat16"), encoder)
