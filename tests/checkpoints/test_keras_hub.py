"""KerasHub's backbones: the same numbers, and the same bits there and back."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import keras
import numpy as np
import pytest

from bert_keras import BertEncoder, MaskedLM, features, load_checkpoint, save_checkpoint
from bert_keras.checkpoints import keras_hub as module
from bert_keras.checkpoints.keras_hub import WEIGHTS, from_keras_hub, to_keras_hub
from bert_keras.checkpoints.keras_hub_names import BACKBONES
from bert_keras.errors import ArtifactError, UsageError
from tests import contracts, reference
from tests.contracts import TINY

_SIZES = {
    "vocabulary_size": TINY.vocab_size,
    "num_layers": TINY.num_layers,
    "num_heads": TINY.num_heads,
    "hidden_dim": TINY.hidden_size,
    "intermediate_dim": TINY.intermediate_size,
    "max_sequence_length": TINY.max_positions,
}
_MORE: dict[str, dict[str, Any]] = {
    "AlbertBackbone": {"embedding_dim": 4, "num_layers": 4, "num_groups": 2},
    "ElectraBackbone": {"embedding_dim": 4},
}


def _theirs(library: Any, name: str, **changes: Any) -> Any:
    values = {**_SIZES, **_MORE.get(name, {}), **changes}
    if name == "ElectraBackbone":
        values["vocab_size"] = values.pop("vocabulary_size")
    return contracts.as_trained(getattr(library.models, name)(**values))


def _outputs(backbone: Any, x: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    wanted = {tensor.name: x[tensor.name] for tensor in backbone.inputs}
    found = contracts.numpy(backbone(wanted))
    return found if isinstance(found, dict) else {features.SEQUENCE_OUTPUT: found}


def _same_outputs(encoder: BertEncoder, backbone: Any) -> None:
    x = contracts.batch(encoder.config.replace(num_segments=2))
    found = contracts.numpy(encoder({tensor.name: x[tensor.name] for tensor in encoder.inputs}))
    expected = _outputs(backbone, x)
    real = x[features.PADDING_MASK].astype(bool)
    for outputs in (found, expected):
        outputs[features.SEQUENCE_OUTPUT] = outputs[features.SEQUENCE_OUTPUT][real]
    assert reference.difference(found, expected) < reference.TOLERANCE


@pytest.mark.parametrize("name", BACKBONES)
def test_in_memory_there_and_back(name: str, keras_hub: Any) -> None:
    backbone = _theirs(keras_hub, name)
    encoder = from_keras_hub(backbone)
    _same_outputs(encoder, backbone)
    again = to_keras_hub(encoder)
    assert again.get_config().keys() == backbone.get_config().keys()
    contracts.assert_same_weights(again, backbone)


@pytest.mark.parametrize("name", BACKBONES)
def test_folders_there_and_back(name: str, keras_hub: Any, tmp_path: Path) -> None:
    backbone = _theirs(keras_hub, name)
    backbone.save_to_preset(str(tmp_path / "theirs"))
    encoder = load_checkpoint(tmp_path / "theirs")
    assert isinstance(encoder, BertEncoder)
    contracts.assert_same_weights(encoder, from_keras_hub(backbone))
    save_checkpoint(encoder, tmp_path / "back", format="keras_hub")
    again = keras_hub.models.Backbone.from_preset(str(tmp_path / "back"))
    contracts.assert_same_weights(again, backbone)


@pytest.mark.parametrize("family", reference.HUGGING_FACE)
def test_hugging_faces_models_become_theirs(
    family: str, transformers: Any, keras_hub: Any, tmp_path: Path
) -> None:
    """With their activation and epsilon. RoBERTa's segment becomes part of the positions."""
    changes = {"hidden_act": "gelu_new"} if family in ("bert", "albert", "electra") else {}
    model = reference.hugging_face_model(transformers, "Model", family, **changes)
    model.save_pretrained(tmp_path)
    encoder = BertEncoder.from_preset(tmp_path)
    _same_outputs(encoder, to_keras_hub(encoder))


def test_it_is_written_for_hugging_face_too(
    transformers: Any, keras_hub: Any, tmp_path: Path
) -> None:
    backbone = _theirs(keras_hub, "BertBackbone")
    encoder = from_keras_hub(backbone)
    encoder.save_to_preset(tmp_path)
    model = transformers.BertModel.from_pretrained(tmp_path, attn_implementation="eager").eval()
    reference.same_as_hugging_face(encoder, model, contracts.batch(TINY))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (TINY, r"always otherwise: {'activation': 'gelu'}"),
        (TINY.replace(activation="gelu_tanh", layer_norm_epsilon=1e-5), "'layer_norm_epsilon'"),
        (TINY.replace(activation="gelu_tanh", position_embedding="relative_key"), "'relative_key'"),
        (TINY.replace(family="distilbert", pooler=False), "'num_segments': 2"),
    ],
)
def test_what_they_have_not(config: Any, message: str, keras_hub: Any) -> None:
    with pytest.raises(UsageError, match=message):
        to_keras_hub(BertEncoder(config))


def test_other_objects(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"Expected one of BertBackbone, .* Received: Dense"):
        from_keras_hub(keras.layers.Dense(3))
    with pytest.raises(UsageError, match=r"Received: MaskedLM. Write task\.encoder"):
        save_checkpoint(MaskedLM(BertEncoder(TINY)), tmp_path / "x", format="keras_hub")
    with pytest.raises(UsageError, match="format must be one of hugging_face, google_tf1, keras_"):
        save_checkpoint(BertEncoder(TINY), tmp_path / "x", format="pickle")


@pytest.fixture(scope="module")
def preset(keras_hub: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keras_hub")
    _theirs(keras_hub, "BertBackbone").save_to_preset(str(folder))
    return folder


def _edit(**changes: Any) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        path = folder / "config.json"
        values = json.loads(path.read_text())
        for key, value in changes.items():
            (values if key in values else values["config"])[key] = value
        path.write_text(json.dumps(values))

    return edit


def _with_file(change: Callable[[Any], object]) -> Callable[[Path], None]:
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
        (_edit(vocabulary_size=10**15), r"reversible_embedding/vars/0: expected \[10{15}, 8\]"),
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


def test_is_one() -> None:
    assert module.is_one({"registered_name": "keras_hub>BertBackbone"})
    assert not module.is_one({"model_type": "bert"})
