"""The loss in chunks of the vocabulary gives the loss, metrics and gradients of the full logits."""

from __future__ import annotations

import json
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras import BertEncoder, ElectraPretrainer, MaskedLM, Pretrainer, SequenceClassifier
from bert_keras.data import PackedExamples
from bert_keras.models import ChunkedTask, PackedTask
from tests import contracts
from tests.contracts import TINY, numpy
from tests.gradients import step_of
from tests.pretraining import few_examples

# Keras's backends cause a deprecation warning of NumPy 2 about `__array__`.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

_FIXED = TINY.replace(dropout=0.0, attention_dropout=0.0, num_layers=1)
# No pooler, and a token table narrower than the encoder, as in ALBERT and ELECTRA.
_NARROW = _FIXED.replace(embedding_size=4, pooler=False)
TASKS = {
    "mlm": lambda: MaskedLM(BertEncoder(_NARROW)),
    "nsp": lambda: Pretrainer(BertEncoder(_FIXED)),
    "sop": lambda: Pretrainer(BertEncoder(_FIXED), loss="sop"),
}


@pytest.mark.parametrize(
    ("name", "chunks", "packed"),
    [("mlm", 1, False), ("mlm", 7, True), ("nsp", 4, True), ("sop", 50, False), ("mlm", 99, False)],
)
def test_loss_metrics_and_gradients_are_those_of_the_whole(
    name: str, chunks: int, packed: bool
) -> None:
    task = contracts.as_trained(TASKS[name]())
    source: Any = few_examples(name)
    whole: Any = task.packed() if packed else task
    if packed:
        batch = PackedExamples(source, sequence_length=24, batch_size=7).batch(0, 0)
    else:
        batch = source.batch_of(0, source.epoch_order(0))
    logs, gradients = step_of(whole, batch)
    view = whole.loss_chunks(chunks)
    found_logs, found = step_of(view, batch)
    assert found_logs.keys() == logs.keys() > {"mlm_accuracy"}
    for key, value in logs.items():
        np.testing.assert_allclose(found_logs[key], value, rtol=1e-5, err_msg=key)
    assert found.keys() == gradients.keys()
    assert np.abs(gradients["mlm/bias"]).max() > 1e-4
    for path, gradient in gradients.items():
        np.testing.assert_allclose(found[path], gradient, atol=1e-5, err_msg=path)


def test_weights_are_the_tasks_and_no_output_is_of_the_vocabulary() -> None:
    task = MaskedLM(BertEncoder(TINY))
    view = task.loss_chunks(3)
    assert {id(weight) for weight in view.weights} == {id(weight) for weight in task.weights}
    assert [variable.path for variable in view.trainable_variables] == [
        variable.path for variable in task.trainable_variables
    ]
    assert view.output["mlm"].shape == (None, None, TINY.hidden_size)


def test_accuracy_is_of_what_counts() -> None:
    """The accuracy is the weighted share of correct labels, in `evaluate` too."""
    task = contracts.as_trained(MaskedLM(BertEncoder(_FIXED)))
    x, y, weights = few_examples("mlm").batch(0, 0)
    best = numpy(task(x))["mlm"].argmax(axis=-1)
    weights = {"mlm": weights["mlm"] * np.arange(1, 1 + weights["mlm"].size).reshape(best.shape)}
    is_right = np.arange(best.size).reshape(best.shape) % 3 == 0
    labels = {"mlm": np.where(is_right, best, (best + 1) % TINY.vocab_size).astype("int32")}
    assert y["mlm"].shape == labels["mlm"].shape
    view = task.loss_chunks(4)
    view.compile(**view.loss_and_metrics())
    found = view.evaluate(x, labels, sample_weight=weights, verbose=0, return_dict=True)
    expected = np.average(is_right, weights=weights["mlm"])
    np.testing.assert_allclose(found["mlm_accuracy"], expected, rtol=1e-6)


@pytest.mark.parametrize("policy", contracts.POLICIES[1:])
def test_mixed_precision(policy: str) -> None:
    view = MaskedLM(BertEncoder(_FIXED, dtype=policy)).loss_chunks(4)
    batch = few_examples("mlm").batch(0, 0)
    view.compile(keras.optimizers.SGD(1e-3), **view.loss_and_metrics())
    logs = view.train_on_batch(batch[0], batch[1], sample_weight=batch[2], return_dict=True)
    assert np.isfinite(logs["loss"])
    assert all(np.isfinite(values).all() for values in contracts.weights(view).values())


def test_what_cannot_be() -> None:
    for task in (
        SequenceClassifier(BertEncoder(TINY), 2),
        PackedTask(SequenceClassifier(BertEncoder(TINY), 2)),
        ElectraPretrainer(BertEncoder(TINY.replace(pooler=False))),
    ):
        with pytest.raises(ValueError, match=r"needs a MaskedLM or a Pretrainer\. .* Received: "):
            ChunkedTask(task, 2)
    with pytest.raises(ValueError, match=r"at least 1\. Received: chunks=0"):
        MaskedLM(BertEncoder(TINY)).loss_chunks(0)


def test_a_number_of_chunks_of_numpy_is_stored_as_plain_int():
    chunks: Any = np.int64(2)
    json.dumps(MaskedLM(BertEncoder(TINY)).loss_chunks(chunks).get_config())
