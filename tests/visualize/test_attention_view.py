"""The attention of a text: its numbers, its limits, and its page in a browser."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bert_keras import Predictor
from bert_keras.errors import UsageError
from bert_keras.models import BertEncoder
from bert_keras.visualize import attention, attention_view
from tests.contracts import FAMILIES, as_trained, numpy
from tests.visualize.pictures import CONFIG, TOKENIZER, classifier, one_backend

TEXT = "ab c d"


@pytest.mark.parametrize(
    "family",
    [pytest.param(name, marks=[one_backend] * (name != "bert")) for name in FAMILIES],
)
def test_the_probabilities_are_those_of_the_encoder(family: str) -> None:
    config = FAMILIES[family].replace(vocab_size=CONFIG.vocab_size, max_positions=24)
    encoder = as_trained(BertEncoder(config))
    picture = attention(encoder, TOKENIZER, TEXT, "e f")
    length = len(picture.tokens)
    assert picture.attentions.shape == (config.num_layers, config.num_heads, length, length)
    x = TOKENIZER([TEXT], ["e f"])
    x = {tensor.name: x[tensor.name] for tensor in encoder.inputs}
    expected: Any = encoder.with_outputs(attentions=True)(x)
    for layer, values in enumerate(expected["attentions"]):
        kept = ~picture.is_pruned[layer]
        np.testing.assert_allclose(picture.attentions[layer, kept], numpy(values)[0], atol=1e-6)
    sums = picture.attentions[~picture.is_pruned].sum(axis=-1)
    np.testing.assert_allclose(sums, 1.0, atol=1e-5)
    assert picture.is_pruned.any() == bool(config.pruned_heads)


@one_backend
def test_a_pruned_head_keeps_its_number(tmp_path: Path) -> None:
    config = FAMILIES["pruned"].replace(vocab_size=CONFIG.vocab_size)
    encoder = as_trained(BertEncoder(config))
    picture = attention(encoder, TOKENIZER, TEXT, layer=0)
    assert picture.is_pruned.tolist() == [[False, True], [False, False]]
    assert picture.save(tmp_path / "a.png").stat().st_size > 1_000
    assert '"pruned": [[false, true], [false, false]]' in picture.html
    with pytest.raises(ValueError, match="Head 1 of layer 0 is pruned"):
        attention(encoder, TOKENIZER, TEXT, layer=0, head=1)


@one_backend
def test_tasks_and_predictors_hold_their_tokenizer() -> None:
    task = classifier()
    expected = attention(task.encoder, TOKENIZER, TEXT).attentions
    for model in (task, Predictor(task)):
        np.testing.assert_allclose(attention(model, None, TEXT).attentions, expected, atol=1e-6)
    with pytest.raises(ValueError, match="has no tokenizer"):
        attention(task.encoder, None, TEXT)
    with pytest.raises(TypeError, match="a task or a BertEncoder"):
        attention(TOKENIZER, TOKENIZER, TEXT)


def test_the_page_holds_the_probabilities() -> None:
    picture = attention(classifier(), None, TEXT, layer=0, head=1)
    (text,) = re.findall(r'id="data">(.*?)</script>', picture.html, re.S)
    data = json.loads(text)
    assert data["tokens"] == picture.labels
    assert (data["layer"], data["head"]) == (0, 1)
    roots = np.frombuffer(base64.b64decode(data["roots"]), np.uint8) / 255
    found = (roots**2).reshape(picture.attentions.shape)
    np.testing.assert_allclose(found, picture.attentions, atol=0.004)


def test_layers_and_heads_are_counted_from_zero() -> None:
    task = classifier()
    assert attention(task, None, TEXT).layer == 1
    assert attention(task, None, TEXT, layer=-2).layer == 0
    wrong: Any
    for wrong in ({"layer": 2}, {"layer": -3}, {"head": 2}, {"layer": 1.0}):
        with pytest.raises(ValueError, match=r"must be from 0 to 1\. Received"):
            attention(task, None, TEXT, **wrong)


@one_backend
def test_long_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    task = classifier()
    assert len(attention(task, None, "a " * 50).tokens) == 24
    monkeypatch.setattr(attention_view, "MAX_TOKENS", 10)
    picture = attention(task, None, "a " * 50)
    assert len(picture.tokens) == 10
    assert picture.note == "The text has 52 tokens; the picture shows 10 of them."
    assert picture.note in picture.html
    assert len(attention(task, None, "a " * 50, max_length=20).tokens) == 20
    monkeypatch.setattr(attention_view, "MAX_VALUES", 100)
    with pytest.raises(UsageError, match=r"at most 100 probabilities.*Received: 400"):
        attention(task, None, "a " * 50)


@one_backend
def test_an_empty_text() -> None:
    assert attention(classifier(), None, "").tokens == ["[CLS]", "[SEP]"]
