"""BERT's pretraining task: masked language model and next sentence prediction."""

from __future__ import annotations

import functools

import keras
import numpy as np
import pytest

from bert_keras import BertEncoder, Pretrainer, features
from tests import contracts, reference
from tests.contracts import FAMILIES, TINY, numpy

_HEAD = [
    "mlm/bias",
    "mlm/dense/kernel",
    "mlm/dense/bias",
    "mlm/layer_norm/gamma",
    "mlm/layer_norm/beta",
    "nsp/dense/kernel",
    "nsp/dense/bias",
]


def test_contract(tmp_path):
    """The task passes the checks of all tasks.

    Further dropout costs seconds of compiling on JAX.
    """
    contracts.check_task(Pretrainer, TINY.replace(num_layers=1, dropout=0.0), tmp_path)


@pytest.mark.parametrize("loss", ["nsp", "sop"])
def test_equals_the_numpy_reference(loss: str):
    """Outputs equal the NumPy reference, on every backend."""
    task = contracts.as_trained(Pretrainer(BertEncoder(TINY), loss=loss))
    x = contracts.batch(TINY, predictions=3)
    found, expected = numpy(task(x)), reference.numpy_outputs(task, x)
    assert found.keys() == expected.keys() == {features.MLM, loss}
    assert reference.difference(found, expected) < reference.TOLERANCE


def test_head_paths_are_pinned():
    encoder = BertEncoder(TINY)
    paths = [weight.path for weight in Pretrainer(encoder).weights]
    assert paths == [*(weight.path for weight in encoder.weights), *_HEAD]
    sop = [weight.path for weight in Pretrainer(BertEncoder(TINY), loss="sop").weights]
    assert sop == [path.replace("nsp", "sop") for path in paths]


def test_losses_are_summed_as_in_the_paper():
    task = contracts.as_trained(Pretrainer(BertEncoder(TINY)))
    task.compile(keras.optimizers.SGD(0.0), **task.loss_and_metrics())
    x = contracts.batch(TINY, predictions=3)
    y = {"mlm": np.array([[7, 8, 9]] * 3), "nsp": np.array([0, 1, 1])}
    weights = {
        "mlm": np.array([[1, 1, 0], [1, 0, 0], [1, 1, 1]], "float32"),
        "nsp": np.ones(3, "float32"),
    }
    logits = reference.numpy_outputs(task, x)
    losses, accuracies = {}, {}
    for name, labels in y.items():
        likelihood = np.take_along_axis(logits[name], labels[..., None], -1)[..., 0]
        likelihood = likelihood - np.log(np.exp(logits[name]).sum(-1))
        losses[name] = -(likelihood * weights[name]).sum() / weights[name].sum()
        right = logits[name].argmax(-1) == labels
        accuracies[name] = (right * weights[name]).sum() / weights[name].sum()
    logs = task.evaluate(x, y, sample_weight=weights, verbose=0, return_dict=True)
    np.testing.assert_allclose(logs["mlm_loss"], losses["mlm"], rtol=1e-5)
    np.testing.assert_allclose(logs["nsp_loss"], losses["nsp"], rtol=1e-5)
    np.testing.assert_allclose(logs["loss"], losses["mlm"] + losses["nsp"], rtol=1e-5)
    np.testing.assert_allclose(logs["mlm_accuracy"], accuracies["mlm"], rtol=1e-5)
    np.testing.assert_allclose(logs["nsp_accuracy"], accuracies["nsp"], rtol=1e-5)


def test_memorises_eight_sentences():
    """A block of width 16 learns the masked tokens and the sentence pairs in eighty steps."""
    keras.utils.set_random_seed(0)
    config = TINY.replace(hidden_size=16, num_layers=1, dropout=0.0, attention_dropout=0.0)
    task = Pretrainer(BertEncoder(config))
    task.compile(keras.optimizers.AdamW(2e-2), **task.loss_and_metrics())
    x = contracts.batch(config, length=12, rows=8, predictions=3)
    y = {
        "mlm": np.take_along_axis(x[features.TOKEN_IDS], x[features.MASK_POSITIONS], axis=1),
        "nsp": np.arange(8) % 2,
    }
    np.put_along_axis(x[features.TOKEN_IDS], x[features.MASK_POSITIONS], 4, axis=1)
    first = task.evaluate(x, y, batch_size=8, verbose=0, return_dict=True)
    assert first["loss"] > np.log(config.vocab_size)
    # Each epoch has ten steps, because the end of an epoch takes longer than a step.
    tenfold = [{name: np.concatenate([part[name]] * 10) for name in part} for part in (x, y)]
    task.fit(*tenfold, batch_size=8, epochs=8, shuffle=False, verbose=0)
    last = task.evaluate(x, y, batch_size=8, verbose=0, return_dict=True)
    assert last["loss"] < 0.05
    assert last["mlm_accuracy"] == last["nsp_accuracy"] == 1.0


@pytest.mark.parametrize(
    ("family", "loss", "message"),
    [
        ("bert", "mlm", "must be 'nsp' or 'sop'. Received: loss='mlm'.* use MaskedLM"),
        ("no_pooler", "nsp", "need a pooler and two segments: .* Received: pooler=False"),
        ("one_segment", "nsp", "need a pooler and two segments: .* Received: .*num_segments=1"),
    ],
)
def test_what_cannot_be_is_refused(family: str, loss: str, message: str):
    make = functools.partial(Pretrainer, loss=loss)
    with pytest.raises(ValueError, match=message):
        make(BertEncoder(FAMILIES[family]))
