"""Labels of texts. Equality with another library's heads is in checkpoints/test_families.py."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from bert_keras import BertEncoder, SequenceClassifier, features, optimizer
from tests import contracts
from tests.contracts import TINY

_NO_POOLER = TINY.replace(pooler=False, num_layers=1)


@pytest.mark.parametrize("options", [{}, {"hidden_activation": "relu", "hidden_dropout": 0.0}])
def test_contract(options: dict, tmp_path):
    config = TINY.replace(num_layers=1) if not options else _NO_POOLER
    contracts.check_task(
        lambda encoder: SequenceClassifier(encoder, 3, **options), config, tmp_path
    )


@pytest.mark.parametrize(
    ("problem", "classes", "labels"),
    [
        ("single_label", 2, np.array([0, 1, 1])),
        ("multi_label", 3, np.array([[0, 0, 1], [1, 1, 0], [0, 0, 0]], "float32")),
        ("regression", 1, np.array([[0.5], [-1.0], [2.0]], "float32")),
    ],
)
def test_learns_by_heart(problem: str, classes: int, labels: np.ndarray):
    keras.utils.set_random_seed(0)
    config = TINY.replace(dropout=0.0, attention_dropout=0.0, initializer_range=0.2)
    task = SequenceClassifier(BertEncoder(config), classes, problem=problem)
    task.compile(optimizer(0.02, total_steps=100), **task.objective())
    x = contracts.inputs_of(task)
    first = task.evaluate(x, {features.LABEL: labels}, verbose=0, return_dict=True)["loss"]
    task.fit(x, {features.LABEL: labels}, epochs=100, verbose=0)
    last = task.evaluate(x, {features.LABEL: labels}, verbose=0, return_dict=True)
    assert last["loss"] < 0.2 * first
    if problem != "regression":
        assert last["accuracy"] == 1.0


def test_defaults():
    task = SequenceClassifier(BertEncoder(TINY), 2)
    assert task.options["labels"] == ["LABEL_0", "LABEL_1"]
    assert task.options["problem"] == "single_label"
    assert SequenceClassifier(BertEncoder(TINY), 1).options["problem"] == "regression"


@pytest.mark.parametrize(
    ("config", "arguments", "message"),
    [
        (TINY, {"num_classes": 0}, "`num_classes` must be at least 1"),
        (TINY, {"num_classes": 2, "labels": ["a"]}, "`labels` must be 2 different names"),
        (TINY, {"num_classes": 2, "labels": ["a", "a"]}, "`labels` must be 2 different names"),
        (TINY, {"num_classes": 2, "problem": "guess"}, "`problem` must be one of single_label"),
        (_NO_POOLER, {"num_classes": 2}, "no pooler: give the head a layer of its own"),
    ],
)
def test_refused(config, arguments, message):
    with pytest.raises(ValueError, match=message):
        SequenceClassifier(BertEncoder(config), **arguments)
