"""The client of exported token classifiers finds the entities of `Predictor` without bert_keras."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bert_keras.data.entity_spans import words_of
from bert_keras.export import runtime_model
from bert_keras.export.runtimes import token_classification
from bert_keras.models import BertEncoder, SequenceClassifier, TokenClassifier
from bert_keras.predictor import Predictor
from bert_keras.tokenizers import Tokenizer
from examples.entity_client import EntityFinder
from examples.short_entity_client import find_entities, load
from tests.contracts import TINY, as_trained

ROOT = Path(__file__).parents[3]
WORDS = [*"abcdefgh", "the", "cat", "##s", "##b", "##1", ".", ",", "'", "(", "中", "文", "!", "1"]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
SCHEMES = {
    "bio": ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"],
    "bioes": ["O", "B-X", "I-X", "E-X", "S-X"],
    "bilou": ["U-A", "O", "L-A", "B-A", "I-A"],
    "bare": ["B", "I", "O"],
    "others": ["O", "B-PER", "noun", "I-PER", "I-LOC"],
}
LETTERS = "aB1 .,(-'’s$_\t\n\u3000中国、，：；あé\u0301😀\u200d\ufe0f\x00]½–—S"


def _texts() -> list[str]:
    """Return texts with all kinds of characters, shorter and longer than a window."""
    draw = np.random.default_rng(1)
    pool = [*WORDS, *(" " * 3), "a1b", "cat's", "é", "e\u0301", "x" * 101, "\u200d", "😀ａ½"]
    drawn = [" ".join(draw.choice(pool, draw.integers(1, 30))) for _ in range(20)]
    joined = ["".join(draw.choice(pool, draw.integers(1, 40))) for _ in range(20)]
    long = ["abcdefgh" * 30, "the " + "a1b" * 60 + " cat's b"]
    return [*drawn, *joined, *long, "", " ", "\x00", "[MASK] [SEP] the", "cat\u0301 's"]


def _tagger(
    labels: list[str], *, crf: bool, lowercase: bool = True, max_length: int = 12
) -> Predictor:
    config = TINY.replace(vocab_size=len(VOCABULARY), max_positions=64)
    encoder = as_trained(BertEncoder(config))
    task = as_trained(TokenClassifier(encoder, len(labels), labels=labels, crf=crf))
    return Predictor(task, Tokenizer(VOCABULARY, lowercase=lowercase), max_length=max_length)


Export = Callable[..., tuple[Predictor, Path]]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Export:
    """Return a function that returns a predictor and its exported folder.

    Models that differ only in the names of their labels and in `max_length` share one ONNX file.
    `entities.json` is written for each.
    """
    pytest.importorskip("onnxruntime")

    @functools.cache
    def written(number: int, crf: bool, lowercase: bool) -> tuple[list[np.ndarray], Path]:
        names = [f"B-{label}" for label in range(number)]
        first = _tagger(names, crf=crf, lowercase=lowercase)
        path = tmp_path_factory.mktemp("exported") / "tagger"
        runtime_model(first.task, first.tokenizer, path, max_length=first.max_length)
        return first.task.get_weights(), path

    def export(scheme: str, *, crf: bool = False, max_length: int = 12) -> tuple[Predictor, Path]:
        labels, lowercase = SCHEMES[scheme], scheme != "bare"
        weights, path = written(len(labels), crf, lowercase)
        predictor = _tagger(labels, crf=crf, lowercase=lowercase, max_length=max_length)
        predictor.task.set_weights(weights)
        token_classification.write(predictor, path)
        return predictor, path

    return export


@pytest.mark.parametrize(
    ("scheme", "crf"), [*((name, False) for name in SCHEMES), ("bio", True), ("others", True)]
)
def test_the_client_finds_what_the_predictor_finds(
    scheme: str, crf: bool, exported: Export
) -> None:
    (predictor, path), texts = exported(scheme, crf=crf), _texts()
    find = EntityFinder(path)
    expected = predictor.predict_entities(texts)
    assert sum(map(len, expected)) > 20
    for text, entities in zip(texts, expected, strict=True):
        found = find(text)
        assert [each[:3] for each in found] == [(e.label, e.start, e.end) for e in entities], text
        assert [text[start:end] for _, start, end, _ in found] == [e.text for e in entities]
        scores = [each[3] for each in found]
        assert scores == pytest.approx([e.score for e in entities], abs=1e-5)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_short_client_finds_them_too(scheme: str, exported: Export) -> None:
    predictor, path = exported(scheme, max_length=64)
    opened = load(path)
    tokenizer = opened[1]
    texts = [text for text in _texts() if len(tokenizer.encode(text).ids) < 64]
    assert len(texts) > 20
    for text, entities in zip(texts, predictor.predict_entities(texts), strict=True):
        found = find_entities(text, *opened)
        assert [each[:3] for each in found] == [(e.label, e.start, e.end) for e in entities], text
        expected = pytest.approx([e.score for e in entities], abs=1e-5)
        assert [each[3] for each in found] == expected
    with pytest.raises(ValueError, match=r"A text of \d+ tokens: use entity_client.py"):
        find_entities("the cat " * 40, *opened)


def test_the_short_client_refuses_a_crf(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    (tmp_path / "entities.json").write_text('{"crf": true}')
    with pytest.raises(ValueError, match=r"has a CRF: use entity_client\.py"):
        load(tmp_path)


def test_the_short_client_is_short() -> None:
    name_and_docstring = 2
    assert len(inspect.getsource(find_entities).splitlines()) - name_and_docstring <= 23


def test_what_the_file_holds() -> None:
    rules = token_classification.rules_of(_tagger(["O", "B-PER", "noun", "S-PER", "U-X"], crf=True))
    patterns = [rules.pop(name) for name in ("character", "word")]
    assert rules == {
        "output": "tags",
        "crf": True,
        "labels": ["O", "B-PER", "noun", "S-PER", "U-X"],
        "tags": [["O", ""], ["B", "PER"], ["O", ""], ["S", "PER"], ["S", "X"]],
        "pieces": "first",
        "score": "mean",
        "max_length": 12,
        "begin": [2],
        "end": [3],
    }
    assert sum(map(len, patterns)) < 40_000
    rules = token_classification.rules_of(_tagger(["B", "I", "O"], crf=False))
    assert (rules["crf"], rules["tags"]) == (False, [["B", "_"], ["I", "_"], ["O", ""]])


def test_only_taggers_have_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("bert_keras.export.runtime_model")
    stub = SimpleNamespace(write=lambda *_: None)
    target = SimpleNamespace(backend=lambda here, _: here, module="onnx_model", file="model.onnx")
    monkeypatch.setattr(module, "chosen", lambda *_: target)
    monkeypatch.setattr(module, "importlib", SimpleNamespace(import_module=lambda _: stub))
    tagger = _tagger(["O", "B-X"], crf=False)
    runtime_model(tagger.task, tagger.tokenizer, tmp_path / "tagger", max_length=9)
    assert json.loads((tmp_path / "tagger" / "entities.json").read_text())["max_length"] == 9
    classifier = SequenceClassifier(tagger.encoder, 2)
    runtime_model(classifier, tagger.tokenizer, tmp_path / "classifier")
    assert not (tmp_path / "classifier" / "entities.json").exists()


@pytest.fixture(scope="module")
def client() -> EntityFinder:
    """Return a client without a model and a tokenizer."""
    find = object.__new__(EntityFinder)
    find.rules = token_classification.rules_of(_tagger(["O"], crf=False))
    return find


@settings(max_examples=500, deadline=None)
@given(text=st.text(alphabet=st.sampled_from(LETTERS) | st.characters(), max_size=30))
@example("Ann's (Rome’s) 's _'s a_'s's 中's ]'s\u0301")
@example("Rome,Paris—Oslo 1,000，1 1，a \u0301a\u0301,b")
def test_the_patterns_find_the_words_of_the_predictor(client: EntityFinder, text: str) -> None:
    assert client.words(text) == words_of(text)


def test_the_patterns_are_ascii_and_take_no_flags(client: EntityFinder) -> None:
    for name in ("character", "word"):
        pattern = client.rules[name]
        assert re.compile(pattern).flags == re.UNICODE
        assert client.words("x" * 20_000) == [(0, 20_000)]


@pytest.mark.parametrize("name", ["entity_client", "short_entity_client"])
def test_the_client_needs_nothing_of_ours(name: str) -> None:
    tree = ast.parse((ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8"))
    names = {
        (node.module or "") if isinstance(node, ast.ImportFrom) else node.names[0].name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert names == {"json", "re", "pathlib", "numpy", "onnxruntime", "tokenizers"}
