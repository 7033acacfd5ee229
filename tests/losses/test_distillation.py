"""Losses of scores of a teacher have the numbers of sentence-transformers."""

from __future__ import annotations

import pytest

from bert_keras.losses import distillation
from tests.losses.references import check, of_module


@pytest.mark.parametrize("name", of_module(distillation))
def test_numbers(name: str) -> None:
    check(name)
