"""Text classification. checkpoints/test_families.py compares with another library's heads."""

from __future__ import annotations

import pytest

from bert_keras import BertEncoder, SequenceClassifier
from tests import contracts
from tests.contracts import TINY

_NO_POOLER = TINY.replace(pooler=False, num_layers=1)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"hidden_activation": "relu", "hidden_dropout": 0.0},
        {"pooling": "mean", "hidden_activation": "gelu", "hidden_norm": True, "hidden_bias": False},
        {"pooling": "late"},
    ],
)
def test_contract(options: dict, tmp_path):
    config = _NO_POOLER if "hidden_activation" in options else TINY.replace(num_layers=1)
    contracts.check_task(
        lambda encoder: SequenceClassifier(encoder, 3, **options), config, tmp_path
    )


def test_defaults():
    task = SequenceClassifier(BertEncoder(TINY), 2)
    assert task.options["labels"] == ["LABEL_0", "LABEL_1"]
    assert task.options["problem"] == "single_label"
    assert SequenceClassifier(BertEncoder(TINY), 1).options["problem"] == "regression"


@pytest.mark.parametrize(
    ("config", "arguments", "message"),
    [
        (TINY, {"num_classes": 0}, "`num_classes` must be an integer of at least 1"),
        (TINY, {"num_classes": 2, "labels": ["a"]}, "`labels` must be 2 different names"),
        (TINY, {"num_classes": 2, "labels": ["a", "a"]}, "`labels` must be 2 different names"),
        (TINY, {"num_classes": 2, "problem": "guess"}, "`problem` must be one of single_label"),
        (_NO_POOLER, {"num_classes": 2}, "no pooler: give the head a layer of its own"),
    ],
)
def test_refused(config, arguments, message):
    with pytest.raises(ValueError, match=message):
        SequenceClassifier(BertEncoder(config), **arguments)


def test_the_first_token_without_the_pooler() -> None:
    """The head reads [CLS] although the encoder has a pooler."""
    task = contracts.as_trained(SequenceClassifier(BertEncoder(TINY), 3, pooling="first_token"))
    x, w = contracts.inputs_of(task), contracts.weights(task)
    hidden = contracts.numpy(task.encoder(x))["sequence_output"][:, 0]
    expected = hidden @ w["label/output/kernel"] + w["label/output/bias"]
    contracts.assert_close(contracts.numpy(task(x))["label"], expected, 1e-5)
    assert not task.reads_pooler
    assert SequenceClassifier(BertEncoder(TINY), 3).reads_pooler
    with_mean = SequenceClassifier(BertEncoder(TINY), 3, pooling="mean")
    assert not with_mean.reads_pooler
