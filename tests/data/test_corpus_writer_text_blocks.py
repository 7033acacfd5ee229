"""Division of a text into blocks."""

from __future__ import annotations

import pytest

from bert_keras.data import corpus_writer as module
from bert_keras.data.corpus_workers import TextBlock
from bert_keras.data.corpus_writer import text_blocks


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK", 12)


def _even(index: int) -> str:
    return "odd" if index % 2 else "even"


def test_blocks_keep_order_within_each_split() -> None:
    documents = [["aaaa", "bbbb"], ["xxxx"], ["cccc", "dd"], [], ["ee"], ["yyyy", "zzzz"], []]
    assert list(text_blocks(documents, _even)) == [
        TextBlock("even", ["aaaa", "bbbb", "cccc"], [2]),
        TextBlock("odd", ["xxxx", "yyyy", "zzzz"], [1, 1]),
        TextBlock("even", ["dd", "ee"], [1, 2, 2]),
        TextBlock("odd", [], [0]),
    ]


def test_a_long_document_goes_on_in_the_next_block() -> None:
    found = list(text_blocks([["aaaaa"] * 5, ["b"]], lambda _: "all"))
    assert [(block.texts, block.ends) for block in found] == [
        (["aaaaa"] * 2, []),
        (["aaaaa"] * 2, []),
        (["aaaaa", "b"], [1, 2]),
    ]
    assert list(text_blocks([], _even)) == []


def test_empty_sentences_fill_a_block_too() -> None:
    found = list(text_blocks([[""] * 30], lambda _: "all"))
    assert [len(block.texts) for block in found] == [12, 12, 6]
