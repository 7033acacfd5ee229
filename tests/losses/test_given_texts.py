"""Losses of pairs, triplets and classes have the numbers of sentence-transformers."""

from __future__ import annotations

import pytest

from bert_keras.losses import given_texts
from tests.losses.references import check, of_module


@pytest.mark.parametrize("name", of_module(given_texts))
def test_numbers(name: str) -> None:
    check(name)
