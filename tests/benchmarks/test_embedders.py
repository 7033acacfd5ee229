"""All contenders make the same vectors of the same texts, and report the figures of the tables."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import keras
import numpy as np
import pytest

from benchmarks import embedders
from benchmarks.embedders import BATCHES, Case, cases_of, measured, texts_of
from bert_keras import Predictor, Tokenizer
from tests.contracts import MAY_CUT

TEXTS = ["a dog.", "cats", "b c d e f g h i j k l m a b c", "the dogs and a cat."]
MAX_LENGTH = 12
CASES = [
    Case("all", TEXTS, 3, tokens=30, longest=MAX_LENGTH, operations=1_000),
    Case("each", TEXTS[:2], 1, tokens=9, longest=5, operations=1_000, one_by_one=True),
]


@MAY_CUT
def test_figures_and_vectors(tiny_preset: Path, tmp_path: Path) -> None:
    cases, vectors = tmp_path / "cases.json", tmp_path / "vectors.npz"
    cases.write_text(json.dumps([asdict(case) for case in CASES]))
    sizes = {"preset": str(tiny_preset), "max_length": MAX_LENGTH}
    figures = measured("ours", str(cases), str(vectors), **sizes)()
    assert set(figures) == {
        *("all/texts_per_second", "all/tokens_per_second", "each/p50", "each/p99"),
    }
    tokens_of_a_text = figures["all/tokens_per_second"] / figures["all/texts_per_second"]
    assert tokens_of_a_text == pytest.approx(30 / 4)
    assert 0 < figures["each/p50"] <= figures["each/p99"]
    found = dict(np.load(vectors))
    expected = Predictor.from_preset(tiny_preset, max_length=MAX_LENGTH)(TEXTS)
    np.testing.assert_allclose(found["all"], expected, atol=1e-5)
    np.testing.assert_allclose(found["each"], expected[:2], atol=1e-5)


@MAY_CUT
@pytest.mark.skipif(keras.backend.backend() != "torch", reason="the peer's backend is torch")
def test_the_reference_makes_the_same_vectors(tiny_preset: Path, transformers) -> None:
    given = {"preset": str(tiny_preset), "max_length": MAX_LENGTH}
    found = embedders.transformers(**given)(TEXTS, CASES[0])
    np.testing.assert_allclose(found, embedders.ours(**given)(TEXTS, CASES[0]), atol=1e-5)


@pytest.mark.parametrize("by_length", [False, True])
def test_batches_come_back_in_order(by_length: bool) -> None:
    asked: list[list[str]] = []

    def answer(texts: list[str]) -> np.ndarray:
        asked.append(texts)
        return np.array([[len(text)] for text in texts])

    texts = ["ccc", "a", "dddd", "bb", "eeeee"]
    found = embedders._in_batches(answer, texts, 2, by_length=by_length)
    assert found.tolist() == [[3], [1], [4], [2], [5]]
    in_order = sorted(texts, key=len) if by_length else texts
    assert asked == [in_order[:2], in_order[2:4], in_order[4:]]


# === Each case has the texts that its name promises ===


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
