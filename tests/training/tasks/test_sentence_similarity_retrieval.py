"""Retrieval of the matching text: pairs of rows, ranks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bert_keras.data import Texts
from bert_keras.errors import DataError
from bert_keras.features import MATCH
from bert_keras.losses import TripletLoss
from bert_keras.models import SentencePairs
from bert_keras.training.tasks import sentence_similarity

_DATA = Texts(["a", "b", "c", "d"], ["x", "y", "z", "x"])
# Vectors of a, b, c, d and of x, y, z. The repeated x is a candidate only once.
_FIRSTS = np.array([[1, 0, 0], [0, 0.6, 0.8], [0.8, 0.6, 0], [0.6, 0, 0.8]], np.float32)
_SECONDS = np.eye(3, dtype=np.float32)


def _vectors(texts: list[str]) -> np.ndarray:
    return _FIRSTS if len(texts) == 4 else _SECONDS


def test_examples_are_pairs_of_rows(kind, tokenizer) -> None:
    options = {"segments": False, "batch_size": 4, "multiple_of": 8, "seed": None}
    made = kind("retrieval").examples(tokenizer, _DATA, None, **options)
    x, y, _ = made.batch(0, 0)
    assert x["token_ids"].shape == (4, 2, 8)
    assert y[MATCH].shape == (4, 2)  # a number for each text


def test_labels_are_not_read(kind, tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("one\ttwo\na\tx\n", encoding="utf-8")
    made = kind("retrieval", text="one", pair="two")
    assert made.read(str(path)).pairs == ("x",)


def test_columns_of_negatives_are_read_from_the_training_file_alone(
    kind, tokenizer, encoder, tmp_path: Path
) -> None:
    train, dev = tmp_path / "a.csv", tmp_path / "b.csv"
    train.write_text('text,pair,n1,n2\na,b,c,"d, e"\nf,g,h,i j\nb,a,e,c\n', encoding="utf-8")
    dev.write_text("text,pair\na,x\n", encoding="utf-8")
    made = kind("retrieval", pair="pair", train=str(train), negatives="n1, n2")
    assert not hasattr(made.read(str(dev)), "negatives")
    data = made.read(str(train))
    assert data.negatives == [("c", "d, e"), ("h", "i j"), ("e", "c")]
    learned, measured = made.split(data, 0.3)
    assert len(learned.negatives) == 2
    assert len(measured.negatives) == 1
    assert made.row_lengths(tokenizer, data).tolist() == [3] * 9 + [5, 4, 3]
    options = {"segments": False, "batch_size": 3, "multiple_of": 8, "seed": None}
    examples = made.examples(tokenizer, data, None, **options)
    x, y, _ = examples.batch(0, 0)
    assert x["token_ids"].shape == (3, 4, 8)
    assert y[MATCH].shape == (3, 4)
    assert made.cut_texts(examples, data).count == 12
    triplets = kind("retrieval", negatives="n1", loss="triplet").build(encoder, None)
    assert isinstance(triplets.vector_loss, TripletLoss)


def test_a_missing_column_of_negatives(kind, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,pair,n1\na,b,c\n", encoding="utf-8")
    made = kind("retrieval", pair="pair", train=str(tmp_path / "a.csv"), negatives="n1,n2")
    with pytest.raises(DataError, match="no column 'n2'"):
        made.read(str(tmp_path / "a.csv"))


def test_pairs_are_needed(kind) -> None:
    for call in (
        lambda made: made.check(Texts(["a"]), None),
        lambda made: made.predict(None, Texts(["a"])),
    ):
        with pytest.raises(DataError, match="with pair="):
            call(kind("retrieval"))


def test_model(kind, encoder) -> None:
    model = kind("retrieval", pooling="cls").build(encoder, None)
    assert isinstance(model, SentencePairs)
    assert model.options["loss"] == "in_batch"
    assert model.sentence_encoder.options["pooling"] == "cls"


@pytest.mark.parametrize("together", [1024, 3])
def test_ranks(together: int, kind, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sentence_similarity, "_TOGETHER", together)

    class Stub:
        encode = staticmethod(_vectors)

    made = kind("retrieval")
    found = made.evaluate(Stub(), _DATA)
    # Ranked candidates: x first for a; z, y for b; x, y, z for c; z, x for d.
    assert list(found.predictions) == ["x", "z", "x", "z"]
    assert found.metrics["accuracy"] == 0.25
    assert found.metrics["mrr"] == pytest.approx((1 + 1 / 2 + 1 / 3 + 1 / 2) / 4)
    worst = [(each.text, each.right, each.answered) for each in found.worst]
    assert worst[0] == ("c", "z", "x")
    assert made.predict(Stub(), _DATA) == found.predictions
    made.write(tmp_path / "p.tsv", _DATA, found.predictions)
    assert (tmp_path / "p.tsv").read_text().splitlines()[:2] == ["index\tprediction", "0\tx"]
