"""The ranking task: scores of documents for a query."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras import BertEncoder, SequenceClassifier, TextRanker, Tokenizer, features, losses
from bert_keras.errors import DataError
from bert_keras.losses.ranking import NAMED
from tests import contracts
from tests.contracts import TINY, numpy
from tests.tokenizers.samples import VOCABULARY

CONFIG = TINY.replace(vocab_size=len(VOCABULARY), num_layers=1, dropout=0.0, attention_dropout=0.0)
QUERIES = ["hello", "want the", "mask"] * 2
DOCUMENTS = [
    ["hello world", "unwanted"],
    ["the want", "mask sep", "hello"],
    ["sep mask", "the"],
] * 2
RELEVANCE = [[1, 0], [1.0, 0.0, 0.0], [1, 0]] * 2
QUIET: dict[str, Any] = {"verbose": 0}


def ranker(**options: Any) -> TextRanker:
    keras.utils.set_random_seed(3)
    return TextRanker(BertEncoder(CONFIG), **options, tokenizer=Tokenizer(VOCABULARY))


@pytest.mark.parametrize("options", [{}, {"hidden_activation": "gelu", "loss": "lambda"}])
def test_contract(options: dict[str, Any], tmp_path: Any) -> None:
    config = TINY.replace(num_layers=1, pooler="hidden_activation" not in options)
    contracts.check_task(
        lambda encoder: TextRanker(encoder, **options), config, tmp_path, label_axes=0
    )


def test_scores_are_those_of_a_classifier_with_one_class() -> None:
    task = contracts.as_trained(TextRanker(BertEncoder(TINY)))
    classifier = SequenceClassifier(task.encoder, 1)
    classifier.head.set_weights(task.head.get_weights())
    x = contracts.inputs_of(task)
    scores = numpy(task(x)[features.SCORE])
    assert scores.shape == (3, 2)
    for place in range(2):
        rows = {name: values[:, place] for name, values in x.items()}
        expected = numpy(classifier(rows)[features.LABEL])[:, 0]
        contracts.assert_close(scores[:, place], expected, 1e-6)


@pytest.mark.parametrize("loss", NAMED)
def test_it_learns_to_rank_lists_of_different_lengths(loss: str) -> None:
    task = ranker(loss=loss)
    history = task.fit(
        (QUERIES, DOCUMENTS), RELEVANCE, epochs=100, batch_size=3, learning_rate=0.003, **QUIET
    ).history
    assert history["loss"][-1] < history["loss"][0]
    for query, documents in zip(QUERIES[:3], DOCUMENTS[:3], strict=True):
        best = task.rank(query, documents[::-1], top_k=1)
        assert best[0].text == documents[0]
    measured = task.evaluate((QUERIES, DOCUMENTS), RELEVANCE, return_dict=True, **QUIET)
    if loss != "margin_mse":  # its targets are scores, not relevances
        assert measured["ndcg_at_10"] == measured["mrr_at_10"] == 1.0


def test_rows_of_one_document_make_the_same_lists() -> None:
    flat = [
        (query, text, number)
        for query, texts, numbers in zip(QUERIES[:3], DOCUMENTS[:3], RELEVANCE[:3], strict=True)
        for text, number in zip(texts, numbers, strict=True)
    ]
    flat = flat[::2] + flat[1::2]  # rows of a query need not follow each other
    weights = np.array([1.0 + (query == "mask") for query, *_ in flat])
    queries, documents, relevance = zip(*flat, strict=True)
    task = ranker(loss="lambda")
    wanted = task.evaluate(
        (QUERIES[:3], DOCUMENTS[:3]), RELEVANCE[:3], sample_weight=np.array([1, 1, 2]), **QUIET
    )
    found = task.evaluate((queries, documents), relevance, sample_weight=weights, **QUIET)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_predict_has_the_scores_before_the_activation() -> None:
    task = contracts.as_trained(ranker())
    ragged = task.predict((QUERIES, DOCUMENTS))
    assert [len(row) for row in ragged] == [len(row) for row in DOCUMENTS]
    even = task.predict((QUERIES, [row[:2] for row in DOCUMENTS]))
    assert even.shape == (6, 2)
    np.testing.assert_allclose(even, np.stack([row[:2] for row in ragged]), atol=1e-6)
    firsts = [row[0] for row in DOCUMENTS]
    single = task.predict((QUERIES, firsts))
    np.testing.assert_allclose(single, even[:, 0], atol=1e-6)
    probabilities = task.predict_pair_scores(QUERIES, firsts)
    np.testing.assert_allclose(probabilities, 1 / (1 + np.exp(-single)), atol=1e-6)
    linear = contracts.as_trained(ranker(activation="linear"))
    np.testing.assert_allclose(linear.predict_pair_scores(QUERIES, firsts), single, atol=1e-6)


def test_a_prompt_is_before_each_query() -> None:
    task = contracts.as_trained(ranker(prompts={"q": "want "}, default_prompt_name="q"))
    plain = contracts.as_trained(ranker())
    prompted = [f"want {query}" for query in QUERIES]
    np.testing.assert_allclose(
        task.evaluate((QUERIES, DOCUMENTS), RELEVANCE, **QUIET),
        plain.evaluate((prompted, DOCUMENTS), RELEVANCE, **QUIET),
        rtol=1e-5,
    )
    ranked = plain.rank(prompted[0], DOCUMENTS[1])
    assert [each.index for each in task.rank(QUERIES[0], DOCUMENTS[1])] == [
        each.index for each in ranked
    ]


def test_a_loss_object_is_saved(tmp_path: Any) -> None:
    task = ranker(loss=losses.LambdaLoss("lambda_rank", k=5))
    task.save(tmp_path / "ranker.keras")
    task.save_to_preset(tmp_path / "folder")
    opened: Any = keras.models.load_model(tmp_path / "ranker.keras")
    for each in (opened, TextRanker.from_preset(tmp_path / "folder")):
        assert each.ranking_loss.get_config() == task.ranking_loss.get_config()


BAD: dict[str, tuple[type[Exception], Callable[[], Any]]] = {
    "`loss` must be one of": (ValueError, lambda: ranker(loss="order")),
    "`activation` must be one of": (ValueError, lambda: ranker(activation="none")),
    "two columns": (ValueError, lambda: ranker().fit(QUERIES, [1] * 6, **QUIET)),
    "no relevance": (DataError, lambda: ranker().fit((QUERIES, DOCUMENTS), **QUIET)),
    "from 0 to 1. Received: 2": (
        DataError,
        lambda: ranker().fit((QUERIES[:1], [["the"]]), [[2]], **QUIET),
    ),
    "needs 2 or more": (
        DataError,
        lambda: ranker(loss="lambda").fit((QUERIES[:2], ["the", "hello"]), [1, 0], **QUIET),
    ),
}


@pytest.mark.parametrize("message", BAD)
def test_messages(message: str) -> None:
    error, call = BAD[message]
    with pytest.raises(error, match=message):
        call()
