"""The last block computes only the positions that a head reads. The gradients stay equal."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from bert_keras import BertEncoder, features
from bert_keras.models import MaskedLM, Pretrainer, SequenceClassifier
from bert_keras.models.fill_mask import mask_positions
from bert_keras.models.task import task_inputs
from tests import contracts
from tests.contracts import FAMILIES, TINY, numpy
from tests.gradients import step_of

# Wide initial weights make every gradient large enough to show an error.
_FIXED: dict[str, Any] = {"dropout": 0.0, "attention_dropout": 0.0, "initializer_range": 0.5}


@pytest.mark.parametrize("family", ["bert", "shared_blocks", "one_segment", "relative_key_query"])
def test_vectors_are_those_of_the_encoder(family: str) -> None:
    encoder = BertEncoder(FAMILIES[family])
    x = contracts.batch(FAMILIES[family], predictions=3)
    whole = {name: values for name, values in x.items() if name != features.MASK_POSITIONS}
    expected = numpy(encoder(whole))
    found = numpy(encoder.at_positions(pooled=True)(x))
    places = x[features.MASK_POSITIONS][:, :, None]
    at_positions = np.take_along_axis(expected[features.SEQUENCE_OUTPUT], places, axis=1)
    np.testing.assert_allclose(found[features.SEQUENCE_OUTPUT], at_positions, atol=1e-5)
    pooled = features.POOLED_OUTPUT
    np.testing.assert_allclose(found[pooled], expected[pooled], atol=1e-5)
    assert pooled not in encoder.at_positions()(x)


@pytest.mark.parametrize("task_class", [MaskedLM, Pretrainer])
@pytest.mark.parametrize("position_embedding", ["absolute", "relative_key"])
def test_loss_and_gradients_are_those_over_the_whole_encoder(
    task_class: Any, position_embedding: str
) -> None:
    config = TINY.replace(**_FIXED, position_embedding=position_embedding)
    task: Any = task_class(BertEncoder(config.replace(pooler=task_class is Pretrainer)))
    plain: Any = _over_the_whole_encoder(task)
    plain.loss_and_metrics = task.loss_and_metrics
    x = contracts.batch(config, predictions=4)
    x[features.MASK_POSITIONS][2, 2:] = 0  # padding of the mask positions
    y = {features.MLM: np.arange(12, dtype="int32").reshape(3, 4)}
    weights = {features.MLM: np.array([[1, 1, 1, 1]] * 2 + [[1, 1, 0, 0]], "float32")}
    if task_class is Pretrainer:
        y[features.NSP] = np.array([0, 1, 1])
        weights[features.NSP] = np.ones(3, "float32")
    (found_logs, found), (logs, gradients) = (
        step_of(model, (x, y, weights)) for model in (task, plain)
    )
    assert found_logs == pytest.approx(logs, abs=1e-5)
    assert found.keys() == gradients.keys()
    for path, gradient in gradients.items():
        np.testing.assert_allclose(found[path], gradient, atol=1e-5, err_msg=path)
        assert np.abs(gradient).max() > 1e-4 or "key/bias" in path, path


@pytest.mark.parametrize("hidden_activation", [None, "tanh"])
def test_of_texts_the_first_token_is_enough(hidden_activation: str | None) -> None:
    """Text classification computes the first token alone in the last block."""
    config = TINY.replace(**_FIXED, pooler=hidden_activation is None)
    task: Any = SequenceClassifier(
        BertEncoder(config), 3, hidden_activation=hidden_activation, dropout=0.0
    )
    inputs = task_inputs(task.encoder)
    encoded = task.encoder(inputs)
    if hidden_activation is None:
        vectors = encoded[features.POOLED_OUTPUT]
    else:
        vectors = encoded[features.SEQUENCE_OUTPUT][:, 0]
    plain: Any = keras.Model(inputs, {features.LABEL: task.head(vectors)})
    plain.loss_and_metrics = task.loss_and_metrics
    batch = contracts.batch(config), {features.LABEL: np.array([0, 2, 1])}, None
    (found_logs, found), (logs, gradients) = (step_of(model, batch) for model in (task, plain))
    assert found_logs == pytest.approx(logs, abs=1e-5)
    assert found.keys() == gradients.keys()
    for path, gradient in gradients.items():
        np.testing.assert_allclose(found[path], gradient, atol=1e-5, err_msg=path)


def _over_the_whole_encoder(task: Any) -> keras.Model:
    """Return a functional model whose head reads the full output of the encoder."""
    inputs = task_inputs(task.encoder)
    encoded = task.encoder(inputs)
    positions = mask_positions(inputs)
    outputs = {features.MLM: task.mlm(encoded[features.SEQUENCE_OUTPUT], positions)}
    if isinstance(task, Pretrainer):
        outputs[features.NSP] = task.pair(encoded[features.POOLED_OUTPUT])
    return keras.Model(inputs, outputs)
