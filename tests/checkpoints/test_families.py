"""Every family and head: the numbers of Hugging Face's library, and its bits on the way back."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file

from bert_keras import MaskedLM, Pretrainer, load_checkpoint
from bert_keras.checkpoints import families
from bert_keras.checkpoints.manifest import WEIGHTS
from bert_keras.errors import ArtifactError
from tests import contracts, reference

_LABELS = {"id2label": {0: "bad", 1: "fair", 2: "good"}}
_CASES = [
    (family, ours, theirs)
    for family in families.FAMILIES
    for ours, theirs in families.FAMILIES[family].classes.items()
    if ours != "SentenceEncoder"  # as for their library, an encoder and how vectors become one
]


def _theirs(transformers: Any, family: str, class_name: str) -> Any:
    ending = class_name.removeprefix(reference.HUGGING_FACE[family][0])
    labels = _LABELS if ending in ("ForSequenceClassification", "ForTokenClassification") else {}
    return reference.hugging_face_model(transformers, ending, family, **labels)


@pytest.mark.parametrize(("family", "ours", "theirs"), _CASES)
def test_there_and_back(
    family: str, ours: str, theirs: str, transformers: Any, tmp_path: Path
) -> None:
    model = _theirs(transformers, family, theirs)
    model.save_pretrained(tmp_path / "theirs")
    opened = load_checkpoint(tmp_path / "theirs")
    assert type(opened).__name__ == ours
    if "labels" in opened.options:
        assert opened.options["labels"] == ["bad", "fair", "good"]
    reference.same_as_hugging_face(opened, model, contracts.inputs_of(opened))

    opened.save_to_preset(tmp_path / "back")
    before, after = (load_file(tmp_path / name / WEIGHTS) for name in ("theirs", "back"))
    assert after.keys() == before.keys()
    for name, values in before.items():
        assert after[name].tobytes() == values.tobytes(), name
    config = json.loads((tmp_path / "back" / "config.json").read_text())
    assert config["architectures"] == [theirs]
    again = getattr(transformers, theirs).from_pretrained(tmp_path / "back")
    assert again.config.id2label == model.config.id2label
    for name, values in model.state_dict().items():
        assert again.state_dict()[name].equal(values), name
    contracts.assert_same_weights(load_checkpoint(tmp_path / "back"), opened)


def test_sentence_order_of_albert_is_read_as_such(transformers: Any, tmp_path: Path) -> None:
    _theirs(transformers, "albert", "AlbertForPreTraining").save_pretrained(tmp_path)
    opened = Pretrainer.from_preset(tmp_path)
    assert opened.options == {"loss": "sop"}


@pytest.mark.parametrize("family", reference.HUGGING_FACE)
def test_groups_offsets_and_fixed_positions(family: str, transformers: Any, tmp_path: Path) -> None:
    """A config of each family can say more than sizes."""
    changes: dict[str, Any] = {
        "bert": {"type_vocab_size": 3, "hidden_act": "relu"},
        "roberta": {"type_vocab_size": 2, "hidden_act": "relu", "pad_token_id": 4},
        "distilbert": {"sinusoidal_pos_embds": True, "activation": "relu"},
        "albert": {"num_hidden_layers": 4, "num_hidden_groups": 2, "hidden_act": "gelu"},
        "electra": {"embedding_size": 8, "hidden_act": "gelu_new"},
    }[family]
    model = reference.hugging_face_model(transformers, "ForMaskedLM", family, **changes)
    model.save_pretrained(tmp_path / "theirs")
    opened = MaskedLM.from_preset(tmp_path / "theirs")
    reference.same_as_hugging_face(opened, model, contracts.inputs_of(opened))
    opened.save_to_preset(tmp_path / "back")
    again = getattr(transformers, type(model).__name__).from_pretrained(tmp_path / "back")
    for key, value in changes.items():
        assert getattr(again.config, key) == value
    contracts.assert_same_weights(load_checkpoint(tmp_path / "back"), opened)


def test_large_models_of_several_files_and_old_pickles(transformers: Any, tmp_path: Path) -> None:
    import torch

    model = _theirs(transformers, "bert", "BertForMaskedLM")
    model.save_pretrained(tmp_path / "shards", max_shard_size="2KB")
    assert len(list((tmp_path / "shards").glob("*.safetensors"))) > 2
    expected = load_checkpoint(tmp_path / "shards")
    reference.same_as_hugging_face(expected, model, contracts.inputs_of(expected))
    (tmp_path / "pickle").mkdir()
    shutil.copy(tmp_path / "shards" / "config.json", tmp_path / "pickle")
    torch.save(model.state_dict(), tmp_path / "pickle" / "pytorch_model.bin")
    opened = load_checkpoint(tmp_path / "pickle", allow_pickle=True)
    contracts.assert_same_weights(opened, expected)
    with pytest.raises(ArtifactError, match="a pickle, which can run code"):
        load_checkpoint(tmp_path / "pickle")
