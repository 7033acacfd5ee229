"""Opening a folder: the class of the model and its head.

Outputs and refused configs are tested in test_hugging_face.py and test_hugging_face_names.py.
"""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from bert_keras import (
    BertEncoder,
    MaskedLM,
    Pretrainer,
    ReplacedTokenDetector,
    SequenceClassifier,
    TokenClassifier,
    load_checkpoint,
)
from bert_keras.checkpoints.hugging_face_folder import Folder
from bert_keras.checkpoints.manifest import CONFIG, MANIFEST
from bert_keras.errors import ArtifactError
from tests import contracts
from tests.contracts import TINY

_ALBERT = TINY.replace(family="albert", embedding_size=4, num_unique_layers=1)
_ELECTRA = TINY.replace(family="electra", embedding_size=4, pooler=False)


def test_ours_and_theirs(saved: Path) -> None:
    """A folder of this package tells its class in the manifest."""
    assert Folder.open(saved).class_name == "Pretrainer"
    assert Folder.open(saved).manifest is not None


def test_the_class_of_theirs(saved: Path, tmp_path: Path) -> None:
    """Without a manifest, config.json tells the class."""
    (tmp_path / CONFIG).write_bytes((saved / CONFIG).read_bytes())
    assert Folder.open(tmp_path).class_name == "Pretrainer"
    assert Folder.open(tmp_path).manifest is None


def test_a_new_head_over_a_checkpoint_of_another_class(saved: Path) -> None:
    task = SequenceClassifier.from_preset(
        saved, num_classes=3, allow_missing=("label",), allow_unused=("mlm", "nsp")
    )
    assert task.options["num_classes"] == 3
    found, expected = contracts.weights(task), contracts.weights(load_checkpoint(saved))
    for path, values in found.items():
        if not path.startswith("label/"):
            assert values.tobytes() == expected[path].tobytes(), path


def test_a_head_for_which_the_family_has_no_name(saved: Path) -> None:
    """A new head may have a hidden layer for which Hugging Face's BERT has no name."""
    options = {"num_classes": 3, "hidden_activation": "relu", "allow_unused": ("mlm", "nsp")}
    task = SequenceClassifier.from_preset(saved, allow_missing=("label",), **options)
    assert task.options["hidden_activation"] == "relu"


@pytest.mark.parametrize(
    "make",
    [
        lambda: SequenceClassifier(BertEncoder(TINY), 3, hidden_activation="relu"),
        lambda: MaskedLM(BertEncoder(TINY), activation="relu"),
        lambda: SequenceClassifier(BertEncoder(TINY.replace(num_unique_layers=1)), 2),
        lambda: BertEncoder(TINY.replace(family="distilbert")),
        lambda: BertEncoder(TINY.replace(family="albert", embedding_size=4, num_segments=0)),
    ],
)
def test_what_no_family_of_theirs_has_is_kept_too(make, tmp_path: Path) -> None:
    """A model that transformers lacks is saved exactly, and needs its manifest."""
    model = make()
    contracts.check_format(model, contracts.inputs_of(model), tmp_path)
    assert json.loads((tmp_path / CONFIG).read_text())["model_type"] == "bert_keras"
    (tmp_path / MANIFEST).unlink()
    with pytest.raises(ArtifactError, match="Received: model_type='bert_keras'"):
        load_checkpoint(tmp_path)


@pytest.mark.parametrize("name", ["tf_model.h5", "tf_model.h5.index.json", "model.safetensors"])
def test_weights_that_tensorflow_wrote(name: str, saved: Path, tmp_path: Path) -> None:
    (tmp_path / CONFIG).write_bytes((saved / CONFIG).read_bytes())
    if name == "model.safetensors":
        tensors = {"bert/embeddings/LayerNorm/gamma:0": np.ones(8, "float32")}
        save_file(tensors, tmp_path / name, metadata={"format": "tf"})
    else:
        (tmp_path / name).write_bytes(b"\x89HDF")
    with pytest.raises(ArtifactError, match=rf"{re.escape(name)}: written by a TensorFlow class"):
        BertEncoder.from_preset(tmp_path)
    (tmp_path / name).rename(tmp_path / "tf_model.h5")
    # Most repositories have this file beside the other one.
    (tmp_path / "pytorch_model.bin").touch()
    with pytest.raises(ArtifactError, match="a pickle, which can run code"):
        BertEncoder.from_preset(tmp_path)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: BertEncoder(TINY), None),
        (lambda: MaskedLM(BertEncoder(TINY)), None),
        (lambda: Pretrainer(BertEncoder(TINY)), None),
        (lambda: Pretrainer(BertEncoder(TINY)), ["BertForMaskedLM"]),
        (lambda: Pretrainer(BertEncoder(_ALBERT), loss="sop"), ["AlbertForMaskedLM"]),
        (lambda: ReplacedTokenDetector(BertEncoder(_ELECTRA)), []),
    ],
)
def test_the_class_is_told_by_the_tensors_where_the_config_says_less(
    make, told: list[str] | None, tmp_path: Path
) -> None:
    """The tensors decide the class if the config names another class or none.

    Many published BERTs are called masked language models in their config.json.
    """
    model = make()
    model.save_to_preset(tmp_path)
    (tmp_path / MANIFEST).unlink()
    values = json.loads((tmp_path / CONFIG).read_text()) | {"architectures": told}
    (tmp_path / CONFIG).write_text(json.dumps(values))
    assert type(load_checkpoint(tmp_path)) is type(model)


def test_a_folder_without_a_class_whose_head_could_be_several(tmp_path: Path) -> None:
    """Without a class in config.json, a head that fits several classes is refused."""
    SequenceClassifier(BertEncoder(TINY), 2).save_to_preset(tmp_path)
    (tmp_path / MANIFEST).unlink()
    values = json.loads((tmp_path / CONFIG).read_text()) | {"architectures": None}
    (tmp_path / CONFIG).write_text(json.dumps(values))
    with pytest.raises(ArtifactError, match="architectures=None is not one of"):
        load_checkpoint(tmp_path)


@pytest.mark.parametrize("manifest", [True, False])
def test_labels_ask_for_a_new_head_where_there_is_none(
    manifest: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """If the checkpoint has no matching head, labels make a new one, and one line reports it.

    A head of another class is not used, even if its tensors have the same names.
    """
    tagger = contracts.as_trained(TokenClassifier(BertEncoder(TINY), 3))
    tagger.save_to_preset(tmp_path)
    if not manifest:
        (tmp_path / MANIFEST).unlink()
    made = SequenceClassifier.from_preset(tmp_path, labels=["a", "b", "c"])
    contracts.assert_same_weights(made.encoder, tagger.encoder)
    assert made.options["labels"] == ["a", "b", "c"]
    kernel = contracts.weights(made)["label/output/kernel"]
    # A new kernel is small. The kernel of the saved tagger is larger.
    assert np.abs(kernel).max() < 0.1
    printed = capsys.readouterr().out
    assert printed.count("\n") == 1
    assert "has no head of a SequenceClassifier: a new one is made" in printed


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_a_line_that_the_terminal_cannot_show_loses_no_model(
    encoding: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "é\udcff"
    contracts.as_trained(BertEncoder(TINY)).save_to_preset(folder)
    output = io.TextIOWrapper(io.BytesIO(), encoding)
    monkeypatch.setattr("sys.stdout", output)
    made = SequenceClassifier.from_preset(folder, labels=["a", "b"])
    assert made.options["labels"] == ["a", "b"]
    output.flush()
    assert "\\udcff has no head" in output.buffer.getvalue().decode(encoding)


@pytest.mark.parametrize("is_ours", [True, False])
def test_adapters_of_peft_are_refused(is_ours: bool, tmp_path: Path) -> None:
    """A folder with PEFT adapters is refused, because transformers would apply the adapters."""
    BertEncoder(TINY).save_to_preset(tmp_path)
    if not is_ours:
        (tmp_path / MANIFEST).unlink()
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(ArtifactError, match=r"adapter_config\.json: adapters of PEFT.*merge"):
        BertEncoder.from_preset(tmp_path)


def test_a_new_head_over_an_encoder_without_a_pooler(tmp_path: Path) -> None:
    """A new head over an encoder without a pooler gets a hidden layer of its own.

    Without a manifest the encoder gets a new pooler instead.
    """
    MaskedLM(BertEncoder(TINY.replace(pooler=False))).save_to_preset(tmp_path)
    task = SequenceClassifier.from_preset(tmp_path, num_classes=2)
    assert task.options["hidden_activation"] == "tanh"
    (tmp_path / MANIFEST).unlink()
    task = SequenceClassifier.from_preset(tmp_path, num_classes=2)
    assert task.encoder.pooler is not None
    assert task.options["hidden_activation"] is None


def test_the_message_of_a_head_names_its_cure(saved: Path, tmp_path: Path) -> None:
    """The error about a head names the argument that helps."""
    with pytest.raises(ArtifactError, match=r"To leave a head out: allow_unused=\('nsp', 'sop',\)"):
        MaskedLM.from_preset(saved)
    BertEncoder.from_preset(saved).save_to_preset(tmp_path)
    with pytest.raises(ArtifactError, match=r"To start with a new head: allow_missing=\('mlm',\)"):
        MaskedLM.from_preset(tmp_path)
