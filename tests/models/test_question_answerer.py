"""Answers as spans."""

from __future__ import annotations

from bert_keras import QuestionAnswerer
from tests import contracts
from tests.contracts import TINY


def test_contract(tmp_path):
    config = TINY.replace(num_layers=1, pooler=False)
    contracts.check_task(QuestionAnswerer, config, tmp_path)
