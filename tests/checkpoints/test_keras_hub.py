"""KerasHub backbones have the same outputs here, and the same weights in both directions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras import (
    BertEncoder,
    MaskedLM,
    SentenceEncoder,
    SequenceClassifier,
    features,
    from_keras_hub,
    load_checkpoint,
    save_checkpoint,
)
from bert_keras.checkpoints.keras_hub import Target, to_keras_hub
from bert_keras.checkpoints.keras_hub_names import BACKBONES
from bert_keras.errors import UsageError
from tests import contracts, reference
from tests.contracts import TINY


def _outputs(backbone: Any, x: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the outputs of a KerasHub backbone by name."""
    wanted = {tensor.name: x[tensor.name] for tensor in backbone.inputs}
    found = contracts.numpy(backbone(wanted))
    return found if isinstance(found, dict) else {features.SEQUENCE_OUTPUT: found}


def _same_outputs(encoder: BertEncoder, backbone: Any) -> None:
    """Check that an encoder and a backbone have the same outputs, except at padding."""
    x = contracts.batch(encoder.config.replace(num_segments=2))
    found = contracts.numpy(encoder({tensor.name: x[tensor.name] for tensor in encoder.inputs}))
    expected = _outputs(backbone, x)
    real = x[features.PADDING_MASK].astype(bool)
    for outputs in (found, expected):
        outputs[features.SEQUENCE_OUTPUT] = outputs[features.SEQUENCE_OUTPUT][real]
    assert reference.difference(found, expected) < reference.TOLERANCE


@pytest.mark.parametrize("name", BACKBONES)
def test_in_memory_there_and_back(name: str, keras_hub: Any) -> None:
    backbone = reference.keras_hub_model(keras_hub, name)
    encoder = from_keras_hub(backbone)
    assert isinstance(encoder, BertEncoder)
    _same_outputs(encoder, backbone)
    again = to_keras_hub(encoder)
    assert again.get_config().keys() == backbone.get_config().keys()
    contracts.assert_same_weights(again, backbone)


@pytest.mark.parametrize("name", BACKBONES)
def test_folders_there_and_back(name: str, keras_hub: Any, tmp_path: Path) -> None:
    backbone = reference.keras_hub_model(keras_hub, name)
    backbone.save_to_preset(str(tmp_path / "theirs"))
    encoder = load_checkpoint(tmp_path / "theirs")
    assert isinstance(encoder, BertEncoder)
    contracts.assert_same_weights(encoder, from_keras_hub(backbone))
    save_checkpoint(encoder, tmp_path / "back", format="keras_hub")
    again = keras_hub.models.Backbone.from_preset(str(tmp_path / "back"))
    contracts.assert_same_weights(again, backbone)


@pytest.mark.parametrize(
    "family", sorted({name for row in BACKBONES.values() for name in row.families})
)
def test_hugging_faces_models_become_theirs(
    family: str, transformers: Any, keras_hub: Any, tmp_path: Path
) -> None:
    """A Hugging Face encoder becomes a KerasHub backbone with its activation and epsilon.

    A RoBERTa backbone has no segments, so that segment 0 is added to the position table.
    """
    changes = {"hidden_act": "gelu_new"} if family in ("bert", "albert", "electra") else {}
    model = reference.hugging_face_model(transformers, "Model", family, **changes)
    model.save_pretrained(tmp_path)
    encoder = BertEncoder.from_preset(tmp_path)
    _same_outputs(encoder, to_keras_hub(encoder))


def test_it_is_written_for_hugging_face_too(
    transformers: Any, keras_hub: Any, tmp_path: Path
) -> None:
    backbone = reference.keras_hub_model(keras_hub, "BertBackbone")
    encoder = from_keras_hub(backbone)
    assert isinstance(encoder, BertEncoder)
    encoder.save_to_preset(tmp_path)
    model = transformers.BertModel.from_pretrained(tmp_path, attn_implementation="eager").eval()
    reference.same_as_hugging_face(encoder, model, contracts.batch(TINY))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (TINY, r"cannot have these values.*{'activation': 'gelu'}"),
        (TINY.replace(activation="gelu_tanh", layer_norm_epsilon=1e-5), "'layer_norm_epsilon'"),
        (TINY.replace(activation="gelu_tanh", position_embedding="relative_key"), "'relative_key'"),
        (TINY.replace(family="distilbert", pooler=False), "'num_segments': 2"),
    ],
)
def test_what_they_have_not(config: Any, message: str, keras_hub: Any) -> None:
    """An encoder that KerasHub lacks is refused with a reason."""
    with pytest.raises(UsageError, match=message):
        to_keras_hub(BertEncoder(config))


def test_other_objects(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"Expected one of BertBackbone, .* Received: Dense"):
        from_keras_hub(keras.layers.Dense(3))
    with pytest.raises(UsageError, match="format must be one of hugging_face, google_tf1, keras_"):
        save_checkpoint(BertEncoder(TINY), tmp_path / "x", format="pickle")


# === Conversion to KerasHub. Tasks are tested in test_keras_hub_tasks.py. ===


_TANH = TINY.replace(activation="gelu_tanh")
_ROBERTA = TINY.replace(
    family="roberta",
    activation="gelu",
    layer_norm_epsilon=1e-5,
    num_segments=1,
    position_offset=2,
    pooler=False,
)


def test_an_encoder() -> None:
    target = Target.of(BertEncoder(_TANH))
    assert (target.name, target.task_name, target.head) == ("BertBackbone", "", None)
    assert target.backbone is BACKBONES["BertBackbone"]
    assert target.values["vocabulary_size"] == _TANH.vocab_size
    assert target.segment is None


def test_a_task() -> None:
    target = Target.of(SequenceClassifier(BertEncoder(_TANH), 3, dropout=0.25))
    assert target.task_name == "BertTextClassifier"
    assert target.arguments == {"num_classes": 3, "dropout": 0.25}


@pytest.mark.parametrize(
    ("make", "name"), [(MaskedLM, "RobertaMaskedLM"), (SentenceEncoder, "XLMRobertaTextEmbedder")]
)
def test_the_one_of_two_names_that_has_the_class(make: type, name: str) -> None:
    """The task is written under the KerasHub family that has its class."""
    encoder = BertEncoder(_ROBERTA)
    table = next(weight for weight in encoder.weights if "segment" in weight.path)
    table.assign(np.full(table.shape, 0.5))
    target = Target.of(make(encoder))
    assert target.task_name == name
    np.testing.assert_array_equal(target.segment, [0.5] * TINY.hidden_size)
