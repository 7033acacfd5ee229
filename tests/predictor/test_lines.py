"""Lines of text to lines of JSON. The files are those of tests/test_cli.py."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bert_keras import (
    BertEncoder,
    MultipleChoice,
    Predictor,
    QuestionAnswerer,
    SentenceEncoder,
    TokenClassifier,
    Tokenizer,
)
from bert_keras.errors import DataError
from bert_keras.predictor import lines as module
from bert_keras.predictor import predict_lines
from tests import contracts
from tests.contracts import TINY

_TOKENIZER = Tokenizer(
    ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{n}" for n in range(45))]
)


def _answers(predictor: Predictor, *rows: object) -> list:
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    return [json.loads(line) for line in predict_lines(predictor, lines, "f")]


def test_vectors() -> None:
    predictor = Predictor(contracts.as_trained(BertEncoder(TINY)), _TOKENIZER)
    found = _answers(predictor, "w1 w2", "w3")
    np.testing.assert_allclose(found, predictor.encode(["w1 w2", "w3"]), atol=1e-6)


def test_similarity() -> None:
    predictor = Predictor(contracts.as_trained(SentenceEncoder(BertEncoder(TINY))), _TOKENIZER)
    found = _answers(predictor, {"text": "w1 w2", "pair": "w3"}, {"text": "w4", "pair": "w4"})
    np.testing.assert_allclose(found, predictor.similarity(["w1 w2", "w4"], ["w3", "w4"]))
    assert found[1] == pytest.approx(1.0, abs=1e-5)


def test_more_lines_than_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_AT_ONCE", 2)
    predictor = Predictor(contracts.as_trained(BertEncoder(TINY)), _TOKENIZER)
    texts = [f"w{n}" for n in range(5)]
    np.testing.assert_allclose(_answers(predictor, *texts), predictor.encode(texts), atol=1e-5)


def test_questions() -> None:
    predictor = Predictor(contracts.as_trained(QuestionAnswerer(BertEncoder(TINY))), _TOKENIZER)
    (found,) = _answers(predictor, {"question": "w1 w2", "context": "w3 w4 w5"})
    assert "w3 w4 w5"[found["start"] : found["end"]] == found["text"]
    (found,) = _answers(predictor, {"question": "w1", "context": " "})
    assert (found["text"], found["null_score"]) == ("", None)
    line = json.dumps({"question": "w1", "context": "w3 w4 w5"})
    (never,) = predict_lines(predictor, [line], "f", null_threshold=-1e9)
    assert json.loads(never)["text"] == ""
    with pytest.raises(DataError, match="f:1: expected a JSON object with question, context"):
        _answers(predictor, "w1")


def test_choices() -> None:
    predictor = Predictor(contracts.as_trained(MultipleChoice(BertEncoder(TINY))), _TOKENIZER)
    (found,) = _answers(predictor, {"prompt": "w1", "options": ["w2", "w3"]})
    assert found["text"] == ["w2", "w3"][found["index"]]
    with pytest.raises(DataError, match="f:1: 'options' must be text"):
        _answers(predictor, {"prompt": "w1", "options": "w2"})


def test_what_the_model_cannot_answer_is_named() -> None:
    predictor = Predictor(contracts.as_trained(MultipleChoice(BertEncoder(TINY))), _TOKENIZER)
    rows = [{"prompt": "w1", "options": [f"w{i}" for i in range(n)]} for n in (2, 3, 1, 2)]
    assert len(_answers(predictor, *rows[:2])) == 2
    lines = predict_lines(predictor, [json.dumps(row) for row in rows], "f")
    assert json.loads(next(lines)) == _answers(predictor, rows[0])[0]
    next(lines)
    with pytest.raises(DataError, match=r"^f:3: .* two options"):
        next(lines)
    predictor = Predictor(contracts.as_trained(QuestionAnswerer(BertEncoder(TINY))), _TOKENIZER)
    rows = [{"question": "w1 " * n, "context": "w3 w4"} for n in (1, 40)]
    with pytest.raises(DataError, match=r"^f:2: max_length=12 leaves no room"):
        _answers(predictor, *rows)


@pytest.mark.parametrize("late", [1, 3])
def test_a_pair_in_every_line_or_none(monkeypatch: pytest.MonkeyPatch, late: int) -> None:
    """However many lines are read together."""
    monkeypatch.setattr(module, "_AT_ONCE", 2)
    predictor = Predictor(contracts.as_trained(SentenceEncoder(BertEncoder(TINY))), _TOKENIZER)
    rows: list[dict[str, str]] = [{"text": "w1", "pair": "w2"} for _ in range(4)]
    del rows[late]["pair"]
    with pytest.raises(DataError, match=f'^f:{late + 1}: no "pair", unlike the first line'):
        _answers(predictor, *rows)
    with pytest.raises(DataError, match=r'^f:3: a "pair", unlike the first line'):
        _answers(predictor, "w1", "w2", rows[0])
    tagger = Predictor(contracts.as_trained(TokenClassifier(BertEncoder(TINY), 3)), _TOKENIZER)
    with pytest.raises(DataError, match='f:1: a "pair", but a TokenClassifier reads one text'):
        _answers(tagger, rows[0])
