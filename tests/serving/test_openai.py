"""OpenAI's protocol, also with the official client and with LangChain's."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bert_keras import BertEncoder, Predictor, SentenceEncoder, Tokenizer
from tests.contracts import as_trained
from tests.serving.running import CONFIG, TASKS, TEXTS, VOCABULARY, Running, predictor, running


@pytest.fixture
def expected() -> np.ndarray:
    return predictor("vectors").encode(TEXTS)


def vectors_of(answer: Any) -> list[Any]:
    return [item["embedding"] for item in answer["data"]]


def test_vectors_are_those_of_the_predictor(served: Running, expected: np.ndarray) -> None:
    answer = served.ask("/v1/embeddings", {"model": "vectors", "input": TEXTS})
    np.testing.assert_allclose(vectors_of(answer), expected, atol=1e-6)
    assert [item["index"] for item in answer["data"]] == [0, 1, 2]
    tokens = sum(len(Tokenizer(VOCABULARY).encode(text)) for text in TEXTS)
    assert answer["usage"] == {"prompt_tokens": tokens, "total_tokens": tokens}
    assert answer["model"] == "vectors"
    one = served.ask("/v1/embeddings", {"model": "vectors", "input": TEXTS[0]})
    np.testing.assert_allclose(vectors_of(one), expected[:1], atol=1e-6)


def test_base64_and_fewer_dimensions(served: Running, expected: np.ndarray) -> None:
    body = {"model": "vectors", "input": TEXTS}
    answer = served.ask("/v1/embeddings", {**body, "encoding_format": "base64"})
    found = [np.frombuffer(base64.b64decode(text), "<f4") for text in vectors_of(answer)]
    np.testing.assert_allclose(found, expected, atol=1e-6)
    short = np.array(vectors_of(served.ask("/v1/embeddings", {**body, "dimensions": 3})))
    parts = expected[:, :3]
    np.testing.assert_allclose(
        short, parts / np.linalg.norm(parts, axis=1, keepdims=True), atol=1e-6
    )


def test_truncated_texts_are_counted(served: Running) -> None:
    body = {"model": "vectors", "input": ["a", "a " * 100]}
    assert served.ask("/v1/embeddings", body)["truncated"] == 1


def test_the_official_client(served: Running, expected: np.ndarray) -> None:
    openai = pytest.importorskip("openai")
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="none") as client:
        answer = client.embeddings.create(model="vectors", input=TEXTS)
        np.testing.assert_allclose([item.embedding for item in answer.data], expected, atol=1e-6)
        assert answer.usage.prompt_tokens > 0
        assert [model.id for model in client.models.list()] == list(TASKS)
        assert client.models.retrieve("vectors").id == "vectors"
        with pytest.raises(openai.NotFoundError) as missing:
            client.embeddings.create(model="nobody", input="a")
        assert missing.value.code == "model_not_found"
        with pytest.raises(openai.BadRequestError, match="gives no vectors"):
            client.embeddings.create(model="labels", input="a")
        with pytest.raises(openai.BadRequestError, match="token ids"):
            client.embeddings.create(model="vectors", input=[5, 6])


def test_the_client_of_langchain(served: Running, expected: np.ndarray) -> None:
    module = pytest.importorskip("langchain_openai")
    options: Any = {"model": "vectors", "api_key": "none", "base_url": f"{served.url}/v1"}
    client = module.OpenAIEmbeddings(**options, check_embedding_ctx_length=False)
    np.testing.assert_allclose(client.embed_documents(TEXTS), expected, atol=1e-6)
    np.testing.assert_allclose(client.embed_query(TEXTS[0]), expected[0], atol=1e-6)


def test_token_ids_need_an_option(served: Running, folders, expected: np.ndarray) -> None:
    ids = Tokenizer(VOCABULARY).text_ids(TEXTS)
    body = {"model": "vectors", "input": ids}
    response = served.post("/v1/embeddings", body)
    assert response.status_code == 400
    assert "--token-ids" in response.json()["error"]["message"]
    with running({"vectors": folders["vectors"]}, accepts_token_ids=True) as other:
        answer = other.ask("/v1/embeddings", body)
        np.testing.assert_allclose(vectors_of(answer), expected, atol=1e-5)
        one = other.ask("/v1/embeddings", {**body, "input": ids[0]})
        np.testing.assert_allclose(vectors_of(one), expected[:1], atol=1e-5)
        for wrong in ([[999]], [[-1]]):
            response = other.post("/v1/embeddings", {**body, "input": wrong})
            assert response.status_code == 400
            assert str(wrong[0][0]) in response.json()["error"]["message"]


def test_token_ids_are_refused_for_a_model_with_a_prompt(tmp_path: Path) -> None:
    prompts = {"query": "a film "}
    task = SentenceEncoder(BertEncoder(CONFIG), prompts=prompts, default_prompt_name="query")
    Predictor(as_trained(task), Tokenizer(VOCABULARY)).save_to_preset(tmp_path / "vectors")
    with running({"vectors": tmp_path / "vectors"}, accepts_token_ids=True) as other:
        response = other.post("/v1/embeddings", {"model": "vectors", "input": [[5, 6]]})
        assert response.status_code == 400
        assert "prompt 'a film '" in response.json()["error"]["message"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model": 7}, "`model` must be"),
        ({"input": None}, "`input` must be"),
        ({"input": []}, "`input` must be"),
        ({"input": ["a", 3]}, "`input[1]` must be a text"),
        ({"input": [[]]}, "`input[0]` must be a text"),
        ({"encoding_format": "hex"}, "`encoding_format`"),
        ({"dimensions": 0}, "`dimensions` must be from 1 to 8"),
        ({"dimensions": "8"}, "`dimensions`"),
        ({"input": ["a"] * 3000}, "2,048"),
    ],
)
def test_a_wrong_body_is_told(served: Running, change: Any, words: str) -> None:
    response = served.post("/v1/embeddings", {"model": "vectors", "input": "a", **change})
    assert response.status_code in (400, 413)
    error = response.json()["error"]
    assert words in error["message"]
    assert error["type"] == "invalid_request_error"


def test_models_have_both_shapes(served: Running) -> None:
    listed = served.get("/v1/models")
    assert listed["object"] == "list"
    assert [model["id"] for model in listed["data"]] == list(TASKS)
    one = served.get("/v1/models/labels")
    assert one["object"] == "model"
    assert one["model_version_status"][0]["state"] == "AVAILABLE"
