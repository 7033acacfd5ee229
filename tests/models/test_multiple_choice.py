"""The best of several texts."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from bert_keras import BertEncoder, MultipleChoice, features, optimizer
from tests import contracts
from tests.contracts import TINY, numpy


@pytest.mark.parametrize("activation", [None, "gelu"])
def test_contract(activation, tmp_path):
    config = TINY.replace(num_layers=1, pooler=activation is None)
    contracts.check_task(
        lambda encoder: MultipleChoice(encoder, hidden_activation=activation), config, tmp_path
    )


def test_every_choice_is_scored_on_its_own():
    task = contracts.as_trained(MultipleChoice(BertEncoder(TINY)))
    x = contracts.inputs_of(task)
    expected = numpy(task(x)[features.CHOICE])
    assert expected.shape == (3, 2)
    swapped = {name: values[:, ::-1] for name, values in x.items()}
    contracts.assert_close(numpy(task(swapped)[features.CHOICE]), expected[:, ::-1], 1e-6)
    alone = {name: values[:, :1] for name, values in x.items()}
    contracts.assert_close(numpy(task(alone)[features.CHOICE]), expected[:, :1], 1e-6)


def test_learns_by_heart():
    keras.utils.set_random_seed(0)
    config = TINY.replace(dropout=0.0, attention_dropout=0.0, initializer_range=0.2)
    task = MultipleChoice(BertEncoder(config))
    task.compile(optimizer(0.02, total_steps=100), **task.objective())
    # One text is first here and second there.
    x = {name: values[[0, 2]] for name, values in contracts.inputs_of(task).items()}
    task.fit(x, {features.CHOICE: np.array([0, 1])}, epochs=100, verbose=0)
    np.testing.assert_array_equal(task.predict(x, verbose=0)[features.CHOICE].argmax(-1), [0, 1])
