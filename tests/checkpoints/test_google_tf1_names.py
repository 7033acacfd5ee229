"""The tables are whole: every variable of every family has one name, and no other has it."""

from __future__ import annotations

import pytest

from bert_keras import BertConfig, BertEncoder
from bert_keras.checkpoints.format import Names
from bert_keras.checkpoints.google_tf1_names import CONFIGS, FAMILIES, LEAVES
from tests.contracts import TINY

_CONFIGS = {
    "bert": TINY,
    "albert": TINY.replace(family="albert", num_unique_layers=1, embedding_size=4),
    "electra": TINY.replace(family="electra", embedding_size=4, pooler=False),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_one_name_for_each(family: str) -> None:
    config: BertConfig = _CONFIGS[family]
    rows = FAMILIES[family]
    names = Names(rows.modules, LEAVES, "/", rows.whole, {"": rows.prefix})
    entries = names.entries(BertEncoder(config).weights)
    assert len({entry.tensor for entry in entries}) == len(entries)
    for entry in entries:
        assert entry.path.rpartition("/")[0] in names.owners(entry.tensor)


def test_a_config_file_for_each() -> None:
    assert len(CONFIGS) == len(FAMILIES)
