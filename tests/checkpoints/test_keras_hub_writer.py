"""Folders written without KerasHub. That it opens them is in test_keras_hub.py and of its tasks."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bert_keras import BertEncoder, SequenceClassifier, load_checkpoint, save_checkpoint
from bert_keras.checkpoints import transfer
from bert_keras.checkpoints.keras_hub_names import BACKBONES
from bert_keras.errors import NumericError
from tests import contracts, reference
from tests.contracts import TINY

_TANH = TINY.replace(activation="gelu_tanh")


def test_it_needs_no_keras_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "keras_hub", None)
    task = contracts.as_trained(SequenceClassifier(BertEncoder(_TANH), 2, labels=["a", "b"]))
    told: list[Any] = []
    with transfer.reported(lambda *what: told.append(what)):
        save_checkpoint(task, tmp_path, format="keras_hub")
    opened = load_checkpoint(tmp_path)
    assert opened.options["labels"] == ["a", "b"]
    contracts.assert_same_weights(opened, task)
    assert {path.name for path in tmp_path.iterdir()} == {
        *("config.json", "metadata.json", "model.weights.h5", "task.json", "task.weights.h5")
    }
    assert told[0][0] == f"writing {tmp_path}"
    assert told[-1][1] == told[-1][2]


# XLM-R goes back as a RoBERTa.
@pytest.mark.parametrize("name", [name for name in BACKBONES if "XLM" not in name])
def test_the_files_say_what_theirs_do(name: str, keras_hub: Any, tmp_path: Path) -> None:
    backbone = reference.keras_hub_model(keras_hub, name)
    _same_texts(backbone, tmp_path, "config.json")
    for ending in BACKBONES[name].heads:
        task_class = getattr(keras_hub.models, name.removesuffix("Backbone") + ending)
        more = {"num_classes": 3} if ending == "TextClassifier" else {}
        _same_texts(task_class(backbone=backbone, **more), tmp_path / ending, "task.json")


def _same_texts(model: Any, folder: Path, name: str) -> None:
    """Ours say nothing else than theirs, which name defaults and the model as well."""
    model.save_to_preset(str(folder / "theirs"))
    save_checkpoint(load_checkpoint(folder / "theirs"), folder / "ours", format="keras_hub")
    _within(*(_values(folder / each / name) for each in ("ours", "theirs")))
    theirs, ours = (_values(folder / each / "metadata.json") for each in ("theirs", "ours"))
    for key in ("tasks", "keras_version"):
        assert ours[key] == theirs[key]


def _within(ours: Any, theirs: Any) -> None:
    if isinstance(ours, dict):
        for key in ours.keys() - {"name"}:
            _within(ours[key], theirs[key])
    else:
        assert ours == theirs


def _values(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())


def test_another_models_head_goes(tmp_path: Path) -> None:
    encoder = BertEncoder(_TANH)
    save_checkpoint(SequenceClassifier(encoder, 2), tmp_path, format="keras_hub")
    save_checkpoint(encoder, tmp_path, format="keras_hub")
    assert not (tmp_path / "task.json").exists()
    assert isinstance(load_checkpoint(tmp_path), BertEncoder)


def test_a_pooler_that_is_not_there_is_zero(tmp_path: Path) -> None:
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
