"""Answers as spans."""

from __future__ import annotations

import keras
import numpy as np

from bert_keras import BertEncoder, QuestionAnswerer, features, optimizer
from tests import contracts
from tests.contracts import TINY


def test_contract(tmp_path):
    config = TINY.replace(num_layers=1, pooler=False)
    contracts.check_task(QuestionAnswerer, config, tmp_path)


def test_learns_by_heart():
    keras.utils.set_random_seed(0)
    config = TINY.replace(pooler=False, dropout=0.0, attention_dropout=0.0, initializer_range=0.2)
    task = QuestionAnswerer(BertEncoder(config))
    task.compile(optimizer(0.02, total_steps=100), **task.objective())
    x = contracts.inputs_of(task)
    y = {features.START: np.array([0, 2, 1]), features.END: np.array([3, 2, 4])}
    task.fit(x, y, epochs=100, verbose=0)
    found = task.predict(x, verbose=0)
    for name, places in y.items():
        np.testing.assert_array_equal(found[name].argmax(-1), places)
