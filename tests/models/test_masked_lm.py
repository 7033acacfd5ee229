"""The masked language model."""

from __future__ import annotations

import numpy as np
import pytest

from bert_keras import BertEncoder, MaskedLM, features
from tests import contracts, reference
from tests.contracts import FAMILIES, TINY, numpy


def test_contract(tmp_path):
    """Without dropout, so that the fused attention kernel is trained through."""
    config = TINY.replace(num_layers=1, pooler=False, dropout=0.0, attention_dropout=0.0)
    contracts.check_task(MaskedLM, config, tmp_path)


@pytest.mark.parametrize("family", ["bert", "gelu_tanh", "projected", "one_segment", "no_pooler"])
def test_equals_the_numpy_reference(family: str):
    task = contracts.as_trained(MaskedLM(BertEncoder(FAMILIES[family])))
    x = contracts.batch(FAMILIES[family], predictions=2)
    expected = reference.numpy_outputs(task, x)
    found = numpy(task(x))
    assert found.keys() == expected.keys() == {features.MLM}
    assert reference.difference(found, expected) < reference.TOLERANCE


def test_output_layer_is_the_token_table():
    encoder = BertEncoder(TINY)
    task = MaskedLM(encoder)
    assert task.encoder is encoder
    head = [weight.path for weight in task.weights if weight.path.startswith("mlm")]
    assert sorted(head) == [
        "mlm/bias",
        "mlm/dense/bias",
        "mlm/dense/kernel",
        "mlm/layer_norm/beta",
        "mlm/layer_norm/gamma",
    ]
    assert len(task.weights) == len(encoder.weights) + len(head)


def test_epsilon_of_the_head(tmp_path):
    task = MaskedLM(BertEncoder(TINY), layer_norm_epsilon=1e-5)
    assert task.mlm.layer_norm.epsilon == 1e-5
    assert MaskedLM(BertEncoder(TINY)).mlm.layer_norm.epsilon == TINY.layer_norm_epsilon
    contracts.check_format(task, contracts.inputs_of(task), tmp_path)


def test_unused_slots_have_no_weight():
    """The loss is the mean over the slots that count, whatever stands in the others."""
    logits = np.random.default_rng(0).normal(size=(2, 3, TINY.vocab_size)).astype("float32")
    labels = np.array([[3, 4, 0], [5, 0, 0]], "int32")
    counted = np.array([[1, 1, 0], [1, 0, 0]], "float32")
    loss = MaskedLM(BertEncoder(TINY)).loss_and_metrics()["loss"][features.MLM]
    likelihood = np.take_along_axis(logits, labels[..., None], -1)[..., 0] - np.log(
        np.exp(logits).sum(-1)
    )
    expected = -(likelihood * counted).sum() / 3
    np.testing.assert_allclose(numpy(loss(labels, logits, counted)), expected, rtol=1e-5)
    logits[0, 2] = logits[1, 1:] = 0.0
    np.testing.assert_allclose(numpy(loss(labels, logits, counted)), expected, rtol=1e-5)
