"""Text ranking: rows of a query, a document and its relevance."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bert_keras import losses
from bert_keras.data import Texts
from bert_keras.errors import DataError
from bert_keras.features import SCORE
from bert_keras.models import TextRanker

_DATA = Texts(["a", "b", "a", "b"], ["c", "d", "e", "f"], [1.0, 0.0, 0.0, 1.0])


def test_rows_of_a_query_are_one_example(kind, tokenizer) -> None:
    options = {"segments": True, "batch_size": 2, "multiple_of": 8, "seed": None}
    made = kind("text_ranking", pair="pair", loss="lambda")
    examples = made.examples(tokenizer, _DATA, None, **options)
    x, y, weights = examples.batch(0, 0)
    assert x["token_ids"].shape == (2, 2, 8)
    assert y[SCORE].tolist() == [[1, 0], [0, 1]]
    assert weights[SCORE].tolist() == [[1, 1], [1, 1]]
    cut = made.cut_texts(examples, _DATA)
    assert (cut.cut, cut.count, cut.noun) == (0, 4, "pairs")


def test_model(kind, encoder) -> None:
    model = kind("text_ranking", loss="list_net").build(encoder, None)
    assert isinstance(model, TextRanker)
    assert isinstance(model.ranking_loss, losses.ListNetLoss)


def test_the_rows_of_a_query_stay_together(kind) -> None:
    train, validation = kind("text_ranking").split(_DATA, 0.5)
    assert len(train) == len(validation) == 2
    assert len({*train.texts}) == len({*validation.texts}) == 1


def test_measures_and_predictions(kind, predictor, tmp_path: Path) -> None:
    made = kind("text_ranking")
    answers = predictor(predict_pair_scores=np.array([0.9, 0.7, 0.2, 0.3]))
    found = made.evaluate(answers, _DATA)
    # The relevant document of "a" comes first, and that of "b" second.
    second = 1 / np.log2(3)
    assert found.metrics == {
        "ndcg_at_10": pytest.approx((1 + second) / 2),
        "mrr_at_10": pytest.approx(0.75),
    }
    assert found.predictions == ["0.900000", "0.700000", "0.200000", "0.300000"]
    assert made.predict(answers, _DATA) == found.predictions
    assert [(w.text, w.right, w.answered) for w in found.worst] == [("b", "f", "d")]
    made.write(tmp_path / "p.tsv", _DATA, found.predictions)
    assert (tmp_path / "p.tsv").read_text().splitlines()[1] == "0\t0.900000"


@pytest.mark.parametrize("data", [Texts(["a"], None, [1.0]), Texts(["a"], ["b"])])
def test_documents_and_relevance_are_needed(data: Texts, kind, predictor) -> None:
    with pytest.raises(DataError, match="task=text_ranking needs"):
        kind("text_ranking").check(data, None)
    if data.pairs is None:
        with pytest.raises(DataError, match="with pair="):
            kind("text_ranking").predict(predictor(), data)
