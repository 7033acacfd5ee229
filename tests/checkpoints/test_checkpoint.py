"""What all formats share. What each of them reads is in its own tests."""

from __future__ import annotations

import dataclasses

import pytest

from bert_keras import BertConfig, BertEncoder
from bert_keras.checkpoints import checkpoint
from tests.contracts import FAMILIES, TINY


def _shapes(config: BertConfig) -> dict[str, tuple[int, ...]]:
    return {matrix.path: matrix.shape for matrix in checkpoint._sizes(config)}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_sizes_are_those_of_the_model(family: str) -> None:
    variables = {v.path: tuple(v.shape) for v in BertEncoder(FAMILIES[family]).weights}
    for path, shape in _shapes(FAMILIES[family]).items():
        assert variables[path] == shape


def test_every_size_of_a_config_is_among_them() -> None:
    """So that no number in a file makes memory be taken before tensors of that size were seen."""
    changes = {
        field.name: 2 * getattr(TINY, field.name)
        for field in dataclasses.fields(BertConfig)
        if type(getattr(TINY, field.name)) is int
    }
    # Heads divide a matrix; unique layers and the tables' width follow others here.
    for free in ("num_heads", "num_unique_layers", "position_offset"):
        del changes[free]
    for name, value in changes.items():
        assert _shapes(TINY.replace(**{name: value})) != _shapes(TINY), name
