"""Tags of tokens."""

from __future__ import annotations

import keras
import numpy as np

from bert_keras import BertEncoder, TokenClassifier, features, optimizer
from tests import contracts
from tests.contracts import TINY


def test_contract(tmp_path):
    config = TINY.replace(num_layers=1, pooler=False)
    contracts.check_task(
        lambda encoder: TokenClassifier(encoder, 3, labels=["O", "B", "I"]), config, tmp_path
    )


def test_learns_the_tokens_that_count():
    keras.utils.set_random_seed(0)
    config = TINY.replace(pooler=False, dropout=0.0, attention_dropout=0.0, initializer_range=0.2)
    task = TokenClassifier(BertEncoder(config), 3)
    task.compile(optimizer(0.02, total_steps=100), **task.objective())
    x = contracts.inputs_of(task)
    tags = x[features.TOKEN_IDS] % 3
    counted = x[features.PADDING_MASK].astype("float32")
    wrong = np.where(counted == 1, tags, (tags + 1) % 3)
    task.fit(
        x, {features.TAGS: wrong}, sample_weight={features.TAGS: counted}, epochs=100, verbose=0
    )
    found = task.predict(x, verbose=0)[features.TAGS].argmax(-1)
    assert (found == tags)[counted == 1].all()
