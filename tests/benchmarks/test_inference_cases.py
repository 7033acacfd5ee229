"""Cases hold what their names say."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.inference_cases import BATCHES, cases_of, texts_of
from bert_keras import Tokenizer

_SENTENCES = [f"a dog {'b ' * number}." for number in range(1, 9)]
_OPERATIONS = (1_000).__mul__  # a thousand for each token
_PARAGRAPHS = ["c d e f g h i j k l m " * 20] * 3


@pytest.mark.parametrize("sweep", [False, True])
def test_cases(sweep: bool, tiny_preset: Path) -> None:
    tokenizer = Tokenizer.from_preset(tiny_preset)
    found = cases_of(tokenizer, _SENTENCES, _PARAGRAPHS, 12, _OPERATIONS, sweep=sweep)
    named = {case.name: case for case in found}
    swept = ["length 8", *(f"batch {size}" for size in BATCHES)] if sweep else []
    assert list(named) == ["sentences", "paragraphs", "single texts", *swept]
    assert named["sentences"].texts == _SENTENCES
    assert named["sentences"].tokens == sum(min(12, 5 + number) for number in range(1, 9))
    assert named["sentences"].operations == 1_000 * named["sentences"].tokens
    assert named["paragraphs"].longest == 12
    assert [case.name for case in found if case.one_by_one] == ["single texts"]
    if sweep:
        assert (named["length 8"].tokens, named["length 8"].longest) == (32 * 8, 8)
        assert [named[f"batch {size}"].batch_size for size in BATCHES] == list(BATCHES)


def test_few_texts_are_taken_evenly(tiny_preset: Path) -> None:
    tokenizer = Tokenizer.from_preset(tiny_preset)
    many = [f"{text} {number}" for number in range(40) for text in _SENTENCES]
    case, *_ = cases_of(tokenizer, many, _PARAGRAPHS, 12, _OPERATIONS, quick=True)
    assert case.texts == many[::5]


def test_texts_of_every_python() -> None:
    sentences, paragraphs = texts_of(None)
    assert min(len(sentences), len(paragraphs)) > 100
    assert {len(text) > 120 for text in sentences} == {False}
    assert {500 <= len(text) <= 700 for text in paragraphs} == {True}


@pytest.mark.data
def test_texts_of_the_real_data(shared_data: Path) -> None:
    sentences, paragraphs = texts_of(shared_data)
    assert len(sentences) > 2_000
    assert len(paragraphs) > 1_000
