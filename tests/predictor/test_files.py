"""Rows to predict, read from lines and from tables."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bert_keras import (
    BertEncoder,
    MaskedLM,
    MultipleChoice,
    Predictor,
    QuestionAnswerer,
    SentenceEncoder,
    SequenceClassifier,
    TokenClassifier,
    Tokenizer,
)
from bert_keras.errors import DataError, UsageError
from bert_keras.predictor import (
    Row,
    file_lines,
    keys_of,
    line_rows,
    predict_lines,
    records,
    require_new,
    standard_input,
    table_rows,
    write,
)
from bert_keras.predictor import files as module
from tests import contracts
from tests.contracts import TINY


def test_the_keys_of_a_task() -> None:
    encoder = BertEncoder(TINY)
    assert keys_of(encoder) == ("text", "pair")
    assert keys_of(QuestionAnswerer(encoder)) == ("question", "context")
    assert keys_of(MultipleChoice(encoder)) == ("prompt", "options")


def test_lines_by_names_of_their_own() -> None:
    keys = keys_of(BertEncoder)
    lines = ["plain\n", '{"a": "x", "b": "y"}', '{"a": "x"}']
    found = list(line_rows(lines, "f", keys, {"text": "a", "pair": "b"}))
    values = [("plain", None), ("x", "y"), ("x", None)]
    assert found == [Row(f"f:{n}", each) for n, each in enumerate(values, 1)]
    with pytest.raises(DataError, match="f:1: 'a' is said twice"):
        list(line_rows(['{"a": "x", "a": "y"}'], "f", keys, {"text": "a"}))
    with pytest.raises(DataError, match="f:1: no 'a'"):
        list(line_rows(['{"text": "x"}'], "f", keys, {"text": "a"}))


def test_tables(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b,c\nx,y,z\n")
    keys = keys_of(BertEncoder)
    assert table_rows(path, keys, {"text": "a"}) == [Row(f"{path}:2", ("x", None))]
    assert table_rows(path, keys, {"text": "a", "pair": "c"})[0].values == ("x", "z")
    found = table_rows(path, ("question", "context"), {"question": "b", "context": "a"})
    assert found[0].values == ("y", "x")
    names = {"prompt": "a", "options": "b, c"}
    assert table_rows(path, ("prompt", "options"), names)[0].values == ("x", ["y", "z"])
    found = table_rows(path, keys, {"text": "2"}, header=False)
    assert [row.values[0] for row in found] == ["c", "z"]


def test_standard_input_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xef\xbb\xbfa\nb\n")))
    assert list(standard_input()) == ["a\n", "b\n"]
    (tmp_path / "t.txt").write_text("a\nb\n")
    assert [line.rstrip() for line in file_lines(tmp_path / "t.txt")] == ["a", "b"]


# === Lines of text become lines of JSON. The files are those of tests/test_cli.py ===


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
    with pytest.raises(DataError, match="f:1: 'options' must be a list of texts"):
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
    """A line with a missing or an unexpected pair is refused, in any block of lines."""
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


# === Predictions as tables. Every task is in tests/training/test_predict.py ===


def _predictor(**options: Any) -> Predictor:
    task = SequenceClassifier(BertEncoder(TINY), labels=["no", "yes"], **options)
    return Predictor(contracts.as_trained(task), _TOKENIZER)


def test_labels_with_their_probabilities() -> None:
    predictor = _predictor()
    (found,) = records(predictor, [Row("f:1", ("w1", "w2"))])
    scores = predictor.predict_scores(["w1"], ["w2"])[0]
    assert list(found) == ["text", "pair", "label", "score", "p_no", "p_yes"]
    assert [found["p_no"], found["p_yes"]] == pytest.approx(scores.tolist(), abs=1e-6)


def test_several_labels_from_a_threshold_on() -> None:
    predictor = _predictor(problem="multi_label")
    for threshold, labels in ((0.0, {"no", "yes"}), (1.0, set())):
        (found,) = records(predictor, [Row("f:1", ("w1", None))], threshold=threshold)
        assert set(found["labels"]) == labels


def test_fills_and_vectors() -> None:
    masked = Predictor(contracts.as_trained(MaskedLM(BertEncoder(TINY))), _TOKENIZER)
    found = list(
        records(masked, [Row("f:1", (text, None)) for text in ("w1 [MASK]", "[MASK] [MASK]")])
    )
    assert [list(each) for each in found] == [["text", "fills"]] * 2
    assert {"token", "score"} <= set(found[0]["fills"][0][0])
    encoder = Predictor(contracts.as_trained(BertEncoder(TINY)), _TOKENIZER)
    (found,) = records(encoder, [Row("f:1", ("w1", None))])
    assert len(found["vector"]) == TINY.hidden_size


def test_files(tmp_path: Path) -> None:
    rows = [
        {"text": 'a,\n\t"b', "score": 0.5, "labels": ["x"]},
        {"text": "é", "score": None, "labels": []},
    ]
    for name, separator in (("a.csv", ","), ("a.TSV", "\t")):
        assert write(tmp_path / name, iter(rows)) == 2
        with (tmp_path / name).open(encoding="utf-8", newline="") as file:
            found = list(csv.DictReader(file, delimiter=separator))
        assert [row["text"] for row in found] == ['a,\n\t"b', "é"]
        assert [row["score"] for row in found] == ["0.5", ""]
        assert [json.loads(row["labels"]) for row in found] == [["x"], []]
    assert write(tmp_path / "a.jsonl", iter(rows)) == 2
    lines = (tmp_path / "a.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == rows


def test_a_file_appears_when_all_is_written(tmp_path: Path) -> None:
    def broken():
        yield {"text": "a"}
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        write(tmp_path / "a.csv", broken())
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_kept(tmp_path: Path) -> None:
    """An existing file is kept unless `overwrite` is given."""
    (tmp_path / "a.csv").touch()
    (tmp_path / "b.csv").mkdir()
    require_new(tmp_path / "c.csv", overwrite=False)
    require_new(tmp_path / "a.csv", overwrite=True)
    for name, message in (
        ("a.csv", "exists"),
        ("b.csv", "is a folder"),
        ("a.txt", "must end with"),
    ):
        with pytest.raises(UsageError, match=message):
            require_new(tmp_path / name, overwrite=False)
