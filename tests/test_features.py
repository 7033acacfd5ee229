"""Names of inputs and outputs, and their aliases."""

from __future__ import annotations

import pytest

from bert_keras import features

_TABLES = {"HUGGING_FACE": features.HUGGING_FACE, "TF_HUB": features.TF_HUB, "TF1": features.TF1}


@pytest.mark.parametrize("table", _TABLES)
def test_aliases_are_one_to_one(table: str):
    aliases = _TABLES[table]
    assert len(set(aliases.values())) == len(aliases)
    values = {ours: object() for ours in (*aliases, "mine")}
    renamed = features.rename(values, aliases)
    assert set(renamed) == {*aliases.values(), "mine"}
    assert features.rename(renamed, aliases, back=True) == values


@pytest.mark.parametrize("table", _TABLES)
def test_every_table_has_the_inputs(table: str):
    assert {features.TOKEN_IDS, features.SEGMENT_IDS, features.PADDING_MASK} <= set(_TABLES[table])


def test_rename_returns_a_copy():
    values = {"token_ids": 1}
    assert features.rename(values, {}) == values
    assert features.rename(values, {}) is not values


def test_names():
    assert features.rename(
        {"token_ids": 1, "segment_ids": 2, "padding_mask": 3}, features.HUGGING_FACE
    ) == {"input_ids": 1, "token_type_ids": 2, "attention_mask": 3}
    assert (features.MLM, features.NSP, features.SOP) == ("mlm", "nsp", "sop")
