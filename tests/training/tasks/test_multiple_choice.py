"""Multiple choice: two table formats, metrics, and the format of predictions."""

from __future__ import annotations

from pathlib import Path

import pytest

from bert_keras.data import Choices
from bert_keras.errors import DataError
from bert_keras.features import CHOICE
from bert_keras.predictor import Choice

_CHOICES = Choices(["a", "b", "c"], [["d", "e"]] * 3, [0, 1, 1], ["f:1", "f:2", "f:3"])


def test_choices(kind, tokenizer, encoder, predictor, tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text('{"prompt": "a", "options": ["d", "e"], "answer": 1}\n')
    made = kind("multiple_choice")
    assert made.read(str(path)).answers == (1,)
    assert made.read(str(path), labelled=False).answers is None
    train, validation = made.split(_CHOICES, 0.3)
    assert (train.prompts, validation.answers, validation.places) == (["a", "b"], [1], ["f:3"])
    assert set(made.build(encoder, None).output) == {CHOICE}
    options = {"segments": True, "batch_size": 3, "multiple_of": 8, "seed": None}
    x, y, _ = made.examples(tokenizer, _CHOICES, None, **options).batch(0, 0)
    assert (x["token_ids"].shape, y[CHOICE].tolist()) == ((3, 2, 8), [0, 1, 1])
    with pytest.raises(DataError, match="no right answers"):
        made.check(Choices(["a"], [["b", "c"]]), None)
    made.check(_CHOICES, None)
    answers = predictor(
        predict_choices=[Choice(0, "d", 0.9), Choice(0, "d", 0.6), Choice(1, "e", 0.8)]
    )
    found = made.evaluate(answers, _CHOICES)
    assert found.metrics == {"accuracy": pytest.approx(2 / 3)}
    assert found.predictions == ["0", "0", "1"] == made.predict(answers, _CHOICES)
    assert [(w.text, w.right, w.answered) for w in found.worst] == [("b", "e", "d")]
    made.write(tmp_path / "p.tsv", _CHOICES, found.predictions)
    assert (tmp_path / "p.tsv").read_text().splitlines()[1] == "0\t0"


def test_choices_in_columns(kind, tmp_path: Path) -> None:
    """Choices may be in columns, as in the files of SWAG."""
    path = tmp_path / "swag.csv"
    path.write_text('number,sent1,sent2,ending0,ending1,label\n0,"a, b",c,d,e,1\n')
    columns = {"prompt": "sent1", "lead": "sent2", "options": "ending0,ending1", "answer": "label"}
    found = kind("multiple_choice", **columns).read(str(path))
    assert (found.prompts, found.options, found.answers) == (("a, b",), (("c d", "c e"),), (1,))
    path.write_text("d;e;B\n")
    columns = {"prompt": "", "options": "0,1", "answer": "2", "header": False, "separator": ";"}
    found = kind("multiple_choice", **columns).read(str(path))
    assert (found.prompts, found.options, found.answers) == (("",), (("d", "e"),), (1,))
