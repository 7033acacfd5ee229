"""The tables are whole, in memory and in files."""

from __future__ import annotations

import pytest

from bert_keras.checkpoints.keras_hub_names import BACKBONES
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
