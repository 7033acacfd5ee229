"""Similarity of two texts: scaled scores, pairs of rows, correlations."""

from __future__ import annotations

import numpy as np
import pytest

from bert_keras import losses
from bert_keras.data import Texts
from bert_keras.errors import DataError
from bert_keras.features import MATCH, SIMILARITY
from bert_keras.models import SentencePairs

_DATA = Texts(["a", "b c", "d"], ["e", "f", "g h i"], [5.0, 0.0, 2.5])


def test_examples_are_pairs_of_rows_with_scores_up_to_1(kind, tokenizer) -> None:
    options = {"segments": False, "batch_size": 3, "multiple_of": 8, "seed": None}
    made = kind("sentence_similarity", max_score=5.0).examples(tokenizer, _DATA, None, **options)
    x, y, _ = made.batch(0, 0)
    assert x["token_ids"].shape == (3, 2, 8)
    assert x["padding_mask"].sum(axis=-1).tolist() == [[3, 3], [4, 3], [3, 5]]
    assert y[SIMILARITY].tolist() == [1.0, 0.0, 0.5]


@pytest.mark.parametrize("data", [Texts(["a"], None, [1.0]), Texts(["a"], ["b"])])
def test_pairs_and_scores_are_needed(data: Texts, kind) -> None:
    with pytest.raises(DataError, match="with pair= and label="):
        kind("sentence_similarity").check(data, None)


@pytest.mark.parametrize("task", ["sentence_similarity", "text_regression"])
def test_one_row_has_no_correlation(task: str, kind) -> None:
    with pytest.raises(DataError, match="at least two rows"):
        kind(task).check(Texts(["a"], ["b"], [1.0]), None)


def test_model(kind, encoder) -> None:
    model = kind("sentence_similarity", pooling="max").build(encoder, None)
    assert isinstance(model, SentencePairs)
    assert model.sentence_encoder.options["pooling"] == "max"


def test_measures_and_predictions(kind, predictor) -> None:
    made = kind("sentence_similarity", max_score=5.0)
    answers = predictor(similarity=np.array([0.9, 0.2, 0.3]))
    found = made.evaluate(answers, _DATA)
    assert list(found.metrics) == ["spearman", "pearson"]
    assert found.metrics["spearman"] == pytest.approx(1.0)
    assert found.predictions == ["4.5000", "1.0000", "1.5000"]
    assert made.predict(answers, _DATA) == found.predictions
    assert [w.text for w in found.worst][-1] == "a / e"
    with pytest.raises(DataError, match="with pair="):
        made.predict(answers, Texts(["a"]))


def test_cosent_learns_from_the_scores_themselves(kind, encoder, tokenizer) -> None:
    made = kind("sentence_similarity", loss="cosent", max_score=5.0)
    options = {"segments": False, "batch_size": 3, "multiple_of": 8, "seed": None}
    x, y, _ = made.examples(tokenizer, _DATA, None, **options).batch(0, 0)
    assert x["token_ids"].shape == (3, 2, 8)
    assert y[MATCH].tolist() == [5.0, 0.0, 2.5]
    assert isinstance(made.build(encoder, None).vector_loss, losses.CosentLoss)
