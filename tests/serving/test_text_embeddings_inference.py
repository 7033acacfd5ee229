"""The protocols of Text Embeddings Inference and Cohere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bert_keras.serving.http_requests import Limits
from bert_keras.serving.text_embeddings_inference import first_models
from tests.serving.running import OTHERS, TEXTS, Running, predictor, running

LONG = "a " * 100


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def test_the_first_model_that_can_is_used(served: Running) -> None:
    found = first_models(served.server.service)
    assert {path: model.name for path, model in found.items() if model} == {
        "/embed": "vectors",
        "/predict": "labels",
        "/rerank": "numbers",
        "/v1/rerank": "numbers",
    }


def test_embed(served: Running) -> None:
    expected = predictor("vectors").encode(TEXTS)
    found = served.ask("/embed", {"inputs": TEXTS})
    np.testing.assert_allclose(found, unit(expected), atol=1e-6)
    raw = served.ask("/embed", {"inputs": TEXTS[0], "normalize": False})
    np.testing.assert_allclose(raw, expected[:1], atol=1e-6)


def test_predict_takes_texts_and_pairs(served: Running) -> None:
    model = predictor("labels")
    one = served.ask("/predict", {"inputs": TEXTS[0]})
    scores = model.predict_scores(TEXTS[0])
    np.testing.assert_allclose([item["score"] for item in one], np.sort(scores)[::-1], atol=1e-5)
    assert one[0]["label"] == model.predict_labels(TEXTS[0]).label
    assert served.ask("/predict", {"inputs": [TEXTS[0]]}) == one
    many = served.ask("/predict", {"inputs": [[text] for text in TEXTS]})
    assert [row[0]["label"] for row in many] == [
        label.label for label in model.predict_labels(TEXTS)
    ]
    pair = served.ask("/predict", {"inputs": [TEXTS[0], OTHERS[0]]})  # as in TEI, one pair
    assert pair[0]["label"] == model.predict_labels(TEXTS[0], OTHERS[0]).label
    for wrong in (TEXTS, [["a"], "b"], [["a", "b", "c"]], [[]], [["a"], [1]], [], None):
        assert served.post("/predict", {"inputs": wrong}).status_code == 400
    pairs = served.ask("/predict", {"inputs": [list(p) for p in zip(TEXTS, OTHERS, strict=True)]})
    assert [row[0]["label"] for row in pairs] == [
        label.label for label in model.predict_labels(TEXTS, OTHERS)
    ]
    rows = [[TEXTS[0], OTHERS[0]], [TEXTS[1]], [TEXTS[2], OTHERS[2]]]
    mixed = served.ask("/predict", {"inputs": rows})
    for found, expected in zip(mixed, [pairs[0], many[1], pairs[2]], strict=True):
        assert [item["label"] for item in found] == [item["label"] for item in expected]
        scores = [item["score"] for item in expected]
        np.testing.assert_allclose([item["score"] for item in found], scores, atol=1e-6)


def test_rerank(served: Running) -> None:
    numbers = predictor("numbers").predict_scores([TEXTS[0]] * 3, OTHERS)[:, 0]
    body = {"query": TEXTS[0], "texts": OTHERS}
    raw = served.ask("/rerank", {**body, "raw_scores": True, "return_text": True})
    assert [item["index"] for item in raw] == np.argsort(-numbers).tolist()
    assert [item["text"] for item in raw] == [OTHERS[item["index"]] for item in raw]
    np.testing.assert_allclose([i["score"] for i in raw], np.sort(numbers)[::-1], atol=1e-5)
    shares = served.ask("/rerank", body)
    expected = 1 / (1 + np.exp(-np.sort(numbers)[::-1]))
    np.testing.assert_allclose([item["score"] for item in shares], expected, atol=1e-5)


def test_rerank_of_cohere(served: Running) -> None:
    body = {"query": TEXTS[0], "documents": [OTHERS[0], {"text": OTHERS[1]}, OTHERS[2]]}
    found = served.ask("/v1/rerank", {**body, "model": "vectors", "top_n": 2})
    scores = predictor("vectors").similarity([TEXTS[0]] * 3, OTHERS)
    assert [item["index"] for item in found["results"]] == np.argsort(-scores).tolist()[:2]
    assert found["model"] == "vectors"
    with_text = served.ask("/v1/rerank", {**body, "return_documents": True})
    assert with_text["model"] == "numbers"
    assert all("text" in item["document"] for item in with_text["results"])


def test_long_texts_need_permission_to_be_truncated(served: Running) -> None:
    for path, body in (
        ("/embed", {"inputs": ["a", LONG]}),
        ("/predict", {"inputs": LONG}),
        ("/rerank", {"query": "a", "texts": [LONG]}),
    ):
        response = served.post(path, body)
        assert response.status_code == 413
        assert "truncate" in response.json()["error"]
        allowed = served.post(path, {**body, "truncate": True})
        assert allowed.status_code == 200
        assert allowed.headers["X-Truncated-Texts"] == "1"


def test_a_long_query_counts_once_for_each_text(folders: Any) -> None:
    with running({"numbers": folders["numbers"]}, limits=Limits(max_characters=100)) as other:
        body = {"query": "a" * 30, "texts": ["b"] * 3}
        assert other.post("/rerank", {**body, "truncate": True}).status_code == 200
        for path, key in (("/rerank", "texts"), ("/v1/rerank", "documents")):
            response = other.post(path, {"query": "a" * 30, key: ["b"] * 4})
            assert response.status_code == 413
            assert "124" in str(response.json()["error"])


WRONG: list[tuple[str, Any, str]] = [
    ("/embed", {}, "`inputs` must be"),
    ("/embed", {"inputs": [1]}, "`inputs[0]`"),
    ("/embed", {"inputs": "a", "normalize": 1}, "`normalize`"),
    ("/predict", {"inputs": [["a", "b", "c"]]}, "a pair"),
    ("/predict", {"inputs": 5}, "`inputs`"),
    ("/predict", {"inputs": {}}, "`inputs`"),
    ("/predict", {"inputs": "a", "raw_scores": True}, "raw_scores"),
    ("/rerank", {"query": 1, "texts": ["a"]}, "`query`"),
    ("/rerank", {"query": "a", "texts": []}, "`texts`"),
    ("/v1/rerank", {"query": "a", "documents": [{"title": "b"}]}, "`documents[0]`"),
    ("/v1/rerank", {"query": "a", "documents": ["b"], "top_n": 0}, "`top_n`"),
    ("/v1/rerank", {"query": "a", "documents": ["b"], "model": "labels"}, "scores no pairs"),
]


@pytest.mark.parametrize(("path", "body", "words"), WRONG)
def test_a_wrong_body_is_told(served: Running, path: str, body: Any, words: str) -> None:
    response = served.post(path, body)
    assert response.status_code == 400
    assert words in str(response.json()["error"])
    told = response.json()
    if path == "/v1/rerank":
        assert told["message"] == told["error"]["message"]  # Cohere's clients, and OpenAI's
    else:
        assert told["error_type"] == "Validation"  # TEI's clients


def test_a_server_without_such_a_model_says_so(folders) -> None:
    with running({"tags": folders["tags"]}) as other:
        for path, body in (
            ("/embed", {"inputs": "a"}),
            ("/predict", {"inputs": "a"}),
            ("/rerank", {"query": "a", "texts": ["a"]}),
            ("/v1/rerank", {"query": "a", "documents": ["a"]}),
        ):
            response = other.post(path, body)
            assert response.status_code == 424
            assert "it needs" in str(response.json()["error"])
