"""ELECTRA's discriminator, which detects replaced tokens."""

from __future__ import annotations

import keras
import numpy as np

from bert_keras import BertEncoder, ReplacedTokenDetector, features, optimizer
from tests import contracts
from tests.contracts import TINY

_CONFIG = TINY.replace(pooler=False, family="electra")


def test_contract(tmp_path):
    contracts.check_task(ReplacedTokenDetector, _CONFIG.replace(num_layers=1), tmp_path)


def test_learns_the_tokens_that_count():
    keras.utils.set_random_seed(0)
    config = _CONFIG.replace(dropout=0.0, attention_dropout=0.0, initializer_range=0.2)
    task = ReplacedTokenDetector(BertEncoder(config))
    task.compile(optimizer(0.02, total_steps=100), **task.loss_and_metrics())
    x = contracts.inputs_of(task)
    replaced = x[features.TOKEN_IDS] % 2 == 0
    counted = x[features.PADDING_MASK].astype("float32")
    y = {features.RTD: np.where(counted == 1, replaced, ~replaced).astype("float32")[..., None]}
    contracts.learn(task, x, y, {features.RTD: counted}, steps=100)
    found = task.predict(x, verbose=0)[features.RTD][..., 0] > 0
    assert (found == replaced)[counted == 1].all()
