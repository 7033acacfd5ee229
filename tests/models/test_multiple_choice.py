"""The multiple choice task: the best of several texts."""

from __future__ import annotations

import pytest

from bert_keras import BertEncoder, MultipleChoice, features
from tests import contracts
from tests.contracts import TINY, numpy


@pytest.mark.parametrize("options", [{}, {"hidden_activation": "gelu"}, {"pooling": "late"}])
def test_contract(options: dict, tmp_path):
    config = TINY.replace(num_layers=1, pooler="hidden_activation" not in options)
    task = contracts.check_task(
        lambda encoder: MultipleChoice(encoder, **options), config, tmp_path
    )
    assert bool(task.unused_variables) == ("pooling" in options)


def test_every_choice_is_scored_on_its_own():
    task = contracts.as_trained(MultipleChoice(BertEncoder(TINY)))
    x = contracts.inputs_of(task)
    expected = numpy(task(x)[features.CHOICE])
    assert expected.shape == (3, 2)
    swapped = {name: values[:, ::-1] for name, values in x.items()}
    contracts.assert_close(numpy(task(swapped)[features.CHOICE]), expected[:, ::-1], 1e-6)
    alone = {name: values[:, :1] for name, values in x.items()}
    contracts.assert_close(numpy(task(alone)[features.CHOICE]), expected[:, :1], 1e-6)
