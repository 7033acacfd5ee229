"""The tables of KerasHub names cover each variable, in memory and in files."""

from __future__ import annotations

import numpy as np
import pytest

from bert_keras.checkpoints.keras_hub_names import BACKBONES, LaterRows, SplitHeads
from bert_keras.checkpoints.name_mapping import LeafRule
from tests.contracts import TINY


@pytest.mark.parametrize("name", BACKBONES)
def test_every_layer_has_one_place_in_a_file(name: str) -> None:
    backbone = BACKBONES[name]
    places = backbone.file_modules(TINY.replace(embedding_size=TINY.hidden_size // 2))
    assert places.keys() == backbone.modules.keys()
    assert len(set(places.values())) == len(places)


def test_dense_layers_are_numbered_in_the_order_of_the_model() -> None:
    electra = BACKBONES["ElectraBackbone"]
    narrow = TINY.replace(embedding_size=TINY.hidden_size // 2)
    assert electra.file_modules(narrow)["pooler/dense"] == "layers/dense_1"
    assert electra.file_modules(TINY)["pooler/dense"] == "layers/dense"
    assert "embeddings/projection" not in electra.file_modules(TINY)


@pytest.mark.parametrize("name", BACKBONES)
def test_every_layer_of_a_head_has_a_place_of_its_own(name: str) -> None:
    for head in BACKBONES[name].heads.values():
        rows = [*head.modules.values(), *head.whole.values()]
        for place in (0, 1):
            assert len({row[place] for row in rows}) == len(rows)


# === Changes of a variable's shape. Outputs are compared in test_keras_hub.py. ===


@pytest.mark.parametrize(
    ("leaf", "ours", "theirs"),
    [
        (SplitHeads("x", num_heads=2), (8, 6), (8, 2, 3)),
        (SplitHeads("x", num_heads=2), (6,), (2, 3)),
        (SplitHeads("x", num_heads=2, axis=0), (6, 8), (2, 3, 8)),
    ],
)
def test_heads(leaf: LeafRule, ours: tuple[int, ...], theirs: tuple[int, ...]) -> None:
    array = np.arange(np.prod(ours)).reshape(ours)
    assert not leaf.same_rows
    assert leaf.shape(ours) == leaf.to_checkpoint_layout(array).shape == theirs
    np.testing.assert_array_equal(leaf.to_keras_layout(leaf.to_checkpoint_layout(array)), array)


def test_rows_before_the_first_position() -> None:
    leaf, table = LaterRows("x", offset=2), np.arange(10.0).reshape(5, 2)
    assert leaf.shape((5, 2)) == (3, 2)
    np.testing.assert_array_equal(leaf.to_checkpoint_layout(table), table[2:])
    np.testing.assert_array_equal(leaf.to_keras_layout(table[2:])[2:], table[2:])
    assert not leaf.to_keras_layout(table[2:])[:2].any()
    added = LaterRows("x", offset=2, added=np.ones(2)).to_checkpoint_layout(table)
    np.testing.assert_array_equal(added, table[2:] + 1)
