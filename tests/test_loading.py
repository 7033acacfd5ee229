"""Loading of models: a checkpoint opens as the class that wrote it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bert_keras import (
    BertEncoder,
    Pretrainer,
    QuestionAnswerer,
    TokenClassifier,
    load_checkpoint,
    save_checkpoint,
)
from bert_keras.checkpoints import open_checkpoint
from bert_keras.checkpoints.manifest import CONFIG, MANIFEST
from bert_keras.errors import ArtifactError, UsageError
from bert_keras.loading import load_opened
from tests import contracts
from tests.contracts import TINY

_MODELS = {
    "encoder": lambda: BertEncoder(TINY),
    "pretrainer": lambda: Pretrainer(BertEncoder(TINY)),
    "tags": lambda: TokenClassifier(BertEncoder(TINY), labels=["O", "B-X"]),
    "answers": lambda: QuestionAnswerer(BertEncoder(TINY)),
}


@pytest.mark.parametrize("name", _MODELS)
def test_a_checkpoint_opens_as_the_class_that_wrote_it(name: str, tmp_path: Path) -> None:
    model = contracts.as_trained(_MODELS[name]())
    assert save_checkpoint(model, tmp_path) == tmp_path
    for opened in (load_checkpoint(tmp_path), load_opened(open_checkpoint(tmp_path))):
        assert type(opened) is type(model)
        for weight, expected in zip(opened.weights, model.weights, strict=True):
            np.testing.assert_array_equal(weight.numpy(), expected.numpy())


def test_load_checkpoint_needs_to_know_the_class(tmp_path: Path) -> None:
    folder = save_checkpoint(Pretrainer(BertEncoder(TINY)), tmp_path / "folder")
    with pytest.raises(ArtifactError, match="nothing': no such folder"):
        load_checkpoint(tmp_path / "nothing")
    (folder / MANIFEST).unlink()
    assert type(load_checkpoint(folder)) is Pretrainer
    values = json.loads((folder / CONFIG).read_text()) | {"architectures": ["BertLMHeadModel"]}
    (folder / CONFIG).write_text(json.dumps(values))
    with pytest.raises(ArtifactError, match=r"\['BertLMHeadModel'\] is not one of BertModel, "):
        load_checkpoint(folder)


def test_a_preset_name_without_weights_is_an_encoder() -> None:
    assert isinstance(load_checkpoint("bert_tiny_uncased", load_weights=False), BertEncoder)


@pytest.mark.parametrize("view", [lambda encoder: encoder.first_token(), lambda _: "a name"])
def test_what_is_no_model_of_ours_is_refused(view: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="A checkpoint folder holds a BertEncoder or a task"):
        save_checkpoint(view(BertEncoder(TINY)), tmp_path / "folder")
    assert not (tmp_path / "folder").exists()


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="format must be one of hugging_face, google_tf1"):
        save_checkpoint(BertEncoder(TINY), tmp_path / "folder", format="onnx")
    assert not (tmp_path / "folder").exists()
