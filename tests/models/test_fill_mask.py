"""The loss and accuracy of tokens equal those of Keras, but are weighted means."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras import BertEncoder, MaskedLM, features
from bert_keras.models.fill_mask import TokenAccuracy, TokenLoss
from tests import contracts, reference
from tests.contracts import FAMILIES, TINY, numpy

DRAW = np.random.default_rng(3)
LOGITS = DRAW.normal(size=(4, 5, 11)).astype("float32")
LABELS = DRAW.integers(0, 11, (4, 5)).astype("int32")
WEIGHTS = (DRAW.random((4, 5)) < 0.5).astype("float32")


def test_the_loss_is_the_mean_over_the_weights() -> None:
    theirs = keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction="mean_with_sample_weight"
    )
    for weights in (None, WEIGHTS, 0 * WEIGHTS):
        found, expected = (
            numpy(loss(LABELS, LOGITS, sample_weight=weights)) for loss in (TokenLoss(), theirs)
        )
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_labels_are_whole_numbers_whatever_keras_computes_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(keras.config, "floatx", lambda: "bfloat16")
    monkeypatch.setattr(keras.src.backend, "floatx", lambda: "bfloat16")
    logits = np.zeros((1, 1000), "float32")
    logits[0, 999] = 50.0  # the index 999 becomes 1,000 in bfloat16
    assert float(numpy(TokenLoss()(np.array([999]), logits))) < 1e-5


def test_the_accuracy_is_kerass() -> None:
    ours, theirs = TokenAccuracy(), keras.metrics.SparseCategoricalAccuracy()
    for weights in (None, WEIGHTS):
        for metric in (ours, theirs):
            metric.update_state(LABELS, LOGITS, sample_weight=weights)
        np.testing.assert_allclose(numpy(ours.result()), numpy(theirs.result()))


def test_both_come_back_from_their_config() -> None:
    loss = keras.losses.deserialize(keras.losses.serialize(TokenLoss()))
    assert isinstance(loss, TokenLoss)
    np.testing.assert_allclose(
        *(numpy(each(LABELS, LOGITS)) for each in (loss, TokenLoss())), atol=1e-6
    )
    metric = keras.metrics.deserialize(keras.metrics.serialize(TokenAccuracy("mlm_accuracy")))
    assert isinstance(metric, TokenAccuracy)
    assert metric.name == "mlm_accuracy"


# === The masked language model ===


def test_contract(tmp_path):
    """The task passes the checks of all tasks. Without dropout, the fused kernel is trained too."""
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
    plain = MaskedLM(BertEncoder(TINY))
    norms: list[Any] = [model.mlm.layer_norm for model in (task, plain)]
    assert [norm.epsilon for norm in norms] == [1e-5, TINY.layer_norm_epsilon]
    contracts.check_format(task, contracts.inputs_of(task), tmp_path)


def test_unused_slots_have_no_weight():
    """The loss is the mean over the masked tokens. Unused mask positions do not change it."""
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


# === Heads of other forms ===

_FORMS: dict[str, dict[str, Any]] = {
    "own matrix": {"tied": False},
    "no dense layer": {"hidden_sizes": [], "hidden_norm": False, "output_bias": False},
    "two dense layers": {"hidden_sizes": [12, 8], "hidden_bias": False, "hidden_norm": False},
    "wider": {"hidden_sizes": [12], "tied": False},
}


@pytest.mark.parametrize("form", _FORMS)
def test_heads_of_other_forms(form: str, tmp_path: Path) -> None:
    task = contracts.as_trained(MaskedLM(BertEncoder(TINY), **_FORMS[form]))
    x = contracts.inputs_of(task)
    expected = reference.numpy_outputs(task, x)
    assert reference.difference(numpy(task(x)), expected) < reference.TOLERANCE
    contracts.check_format(task, x, tmp_path)
    chunked = task.loss_chunks(3)
    chunked.compile("sgd", **chunked.loss_and_metrics())
    task.compile("sgd", **task.loss_and_metrics())
    labels = {features.MLM: np.ones(x[features.MASK_POSITIONS].shape, "int32")}
    losses = [model.evaluate(x, labels, verbose=0, return_dict=True) for model in (task, chunked)]
    assert losses[0]["loss"] == pytest.approx(losses[1]["loss"], rel=1e-5)


@pytest.mark.parametrize("form", _FORMS)
def test_another_number_of_tokens(form: str) -> None:
    task = contracts.as_trained(MaskedLM(BertEncoder(TINY), **_FORMS[form]))
    larger = task.resize_vocabulary(TINY.vocab_size + 3)
    x = contracts.inputs_of(task)
    found, expected = (numpy(model(x))[features.MLM] for model in (larger, task))
    assert found.shape[-1] == TINY.vocab_size + 3
    contracts.assert_close(found[..., : TINY.vocab_size], expected)


def test_a_plain_head_has_the_options_that_it_had() -> None:
    task = MaskedLM(BertEncoder(TINY))
    assert task.options == {"activation": None, "layer_norm_epsilon": None}


@pytest.mark.parametrize("sizes", [[8, 8, 8], [0], [2**19], "8", [8.0], [12]])
def test_widths_that_cannot_be(sizes: Any) -> None:
    message = "`hidden_sizes` must be" if sizes != [12] else "must have its width, 8"
    with pytest.raises(ValueError, match=message):
        MaskedLM(BertEncoder(TINY), hidden_sizes=sizes)
