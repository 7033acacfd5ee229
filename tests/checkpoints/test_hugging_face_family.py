"""Forms of the tables of families."""

from __future__ import annotations

from pathlib import Path

import pytest

from bert_keras.checkpoints.hugging_face_family import block, fused, task_format
from bert_keras.checkpoints.hugging_face_names import FAMILIES, NATIVE
from bert_keras.models.text_classification import POOLINGS


@pytest.mark.parametrize("family", FAMILIES)
def test_rows_name_what_exists(family: str) -> None:
    rows = FAMILIES[family]
    assert set(rows.poolings) <= set(POOLINGS)
    assert rows.new_pooling in rows.poolings
    assert set(rows.conversions) <= {*rows.sizes, *rows.constants}
    assert set(rows.fixed).isdisjoint({*rows.sizes, *rows.constants})
    stated = {*rows.sizes.values(), *rows.constants.values(), rows.pooling}
    stated |= {key for conversion in rows.joint.values() for key in conversion.keys}
    assert set(rows.aliases) <= {*stated, *rows.required}
    assert rows.encoder.keys() <= NATIVE.encoder.keys()


def test_rows_of_blocks() -> None:
    rows = block("layer.#", fused("qkv", "query", "key"))
    assert rows == {"block_#/query": "layer.#.qkv", "block_#/key": "layer.#.qkv"}


def test_facts_about_a_class_without_a_row_are_false() -> None:
    assert not task_format("Unknown").reads_text_vector
    assert task_format("MaskedLM").is_mlm


@pytest.mark.parametrize("family", FAMILIES)
def test_the_page_on_checkpoints_names_every_family(family: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "checkpoints.md").read_text(encoding="utf-8")
    first = ("bert", "roberta", "distilbert", "albert", "electra")  # named without their code
    kinds = FAMILIES[family].model_types
    assert family in first or all(f"`{kind}`" in page for kind in kinds), kinds
