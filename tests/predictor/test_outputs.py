"""Predictions as tables. Every task is in tests/training/test_predict.py."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from bert_keras import BertEncoder, MaskedLM, Predictor, SequenceClassifier, Tokenizer
from bert_keras.errors import UsageError
from bert_keras.predictor import Row, records, require_new, write
from tests import contracts
from tests.contracts import TINY

_TOKENIZER = Tokenizer(
    ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{n}" for n in range(45))]
)


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
