"""What a model of ours becomes. What cannot become one is in test_keras_hub.py and of its tasks."""

from __future__ import annotations

import numpy as np
import pytest

from bert_keras import BertEncoder, MaskedLM, SentenceEncoder, SequenceClassifier
from bert_keras.checkpoints.keras_hub_names import BACKBONES
from bert_keras.checkpoints.keras_hub_target import Target
from tests.contracts import TINY

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
    encoder = BertEncoder(_ROBERTA)
    table = next(weight for weight in encoder.weights if "segment" in weight.path)
    table.assign(np.full(table.shape, 0.5))
    target = Target.of(make(encoder))
    assert target.task_name == name
    np.testing.assert_array_equal(target.segment, [0.5] * TINY.hidden_size)
