"""Ranks of texts for a query: measures, the model that ranks, and one encoding of the query."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bert_keras import BertEncoder, Predictor, SentenceEncoder, Tokenizer
from bert_keras.features import SIMILARITIES
from bert_keras.serving.ranking import can_rank, ranking_model
from tests.contracts import as_trained
from tests.serving.running import CONFIG, OTHERS, TEXTS, VOCABULARY, Running, running


def test_models_that_were_trained_to_rank_come_first(served: Running) -> None:
    service = served.server.service
    ranking = {name for name, model in service.models.items() if can_rank(model.newest.model)}
    assert ranking >= {"numbers", "vectors", "encoder"}
    assert not ranking & {"labels", "tags", "answers", "masks"}
    model = ranking_model(service)
    assert model is not None
    assert model.name == "numbers"


@pytest.mark.parametrize("measure", SIMILARITIES)
def test_search_and_ranks_use_the_measure_of_the_model(measure: str, tmp_path: Path) -> None:
    task = SentenceEncoder(BertEncoder(CONFIG), normalize=False, similarity=measure)
    predictor = Predictor(as_trained(task), Tokenizer(VOCABULARY))
    predictor.save_to_preset(tmp_path / "m")
    scores = predictor.similarity([TEXTS[0]] * len(OTHERS), OTHERS)
    expected = np.sort(scores)[::-1]
    order = np.argsort(-scores, kind="stable").tolist()
    with running({"m": tmp_path / "m"}) as other:
        assert other.get("/api/models")["models"][0]["similarity"] == measure
        found = other.ask("/api/models/m/search", {"query": TEXTS[0], "lines": OTHERS})["results"]
        ranked = other.ask("/rerank", {"query": TEXTS[0], "texts": OTHERS})
        body = {"model": "m", "query": TEXTS[0], "documents": OTHERS}
        cohere = other.ask("/v1/rerank", body)["results"]
    for results, name in ((found, "score"), (ranked, "score"), (cohere, "relevance_score")):
        assert [result["index"] for result in results] == order
        np.testing.assert_allclose([r[name] for r in results], expected, rtol=1e-4, atol=1e-5)


def test_a_bare_encoder_ranks_by_the_cosine(served: Running) -> None:
    lines = {"query": TEXTS[0], "lines": OTHERS}
    found = served.ask("/api/models/encoder/search", lines)["results"]
    body = {"model": "encoder", "query": TEXTS[0], "documents": OTHERS}
    ranked = served.ask("/v1/rerank", body)["results"]
    assert [item["index"] for item in ranked] == [item["index"] for item in found]
    scores = [item["relevance_score"] for item in ranked]
    np.testing.assert_allclose(scores, [item["score"] for item in found], atol=1e-6)


def test_the_query_is_encoded_once(served: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    model = served.server.service.models["vectors"].newest
    rows: list[int] = []
    submit = model.batcher.submit

    def counted(signature: Any, columns: Any, count: int) -> Any:
        rows.append(count)
        return submit(signature, columns, count)

    monkeypatch.setattr(model.batcher, "submit", counted)
    body = {"model": "vectors", "query": TEXTS[0], "documents": OTHERS}
    served.ask("/v1/rerank", body)
    assert rows == [len(OTHERS) + 1]


def test_truncated_texts_of_a_long_query_are_counted(served: Running) -> None:
    body = {"model": "vectors", "query": "a " * 100, "documents": OTHERS}
    response = served.post("/v1/rerank", body)
    assert response.headers["X-Truncated-Texts"] == str(len(OTHERS))
