"""The application: hostile requests, errors, token, hosts, CORS, headers and other pages."""

from __future__ import annotations

import base64
import json
import re
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

from bert_keras.serving.http_requests import Limits
from bert_keras.serving.signatures import Signature, Spec
from tests.serving.running import TEXTS, Running, predictor, running, wait_for

PREDICT = "/v1/models/labels:predict"
# Path -> body that is answered with 200.
POSTS: dict[str, Any] = {
    PREDICT: {"instances": ["a"]},
    "/v1/models/labels:classify": {"examples": [{"text": "a"}]},
    "/v1/models/labels/versions/1:predict": {"instances": ["a"]},
    "/v1/models/labels/versions/1:classify": {"examples": [{"text": "a"}]},
    "/v1/embeddings": {"model": "vectors", "input": "a"},
    "/embed": {"inputs": "a"},
    "/predict": {"inputs": "a"},
    "/rerank": {"query": "a", "texts": ["b"]},
    "/v1/rerank": {"query": "a", "documents": ["b"]},
    "/api/models/labels/answer": {"inputs": {"text": "a"}},
    "/api/models/labels/tokens": {"text": "a"},
    "/api/models/labels/attention": {"text": "a"},
    "/api/models/vectors/search": {"query": "a", "lines": ["b"]},
}
_KEYS = (
    *("instances", "inputs", "examples", "input", "query", "texts", "documents", "text"),
    *("lines", "model"),
)
HOSTILE: dict[str, bytes] = {
    "nothing": b"",
    "no JSON": b"{",
    "two values": b"{}{}",
    "a list": b"[]",
    "a number": b"7",
    "null": b"null",
    "not UTF-8": b'{"inputs": "\xff"}',
    "half a surrogate": b'{"inputs": "\\ud800"}',
    "a huge number": b'{"inputs": 1e999}',
    "NaN": b'{"inputs": NaN}',
    "deep": b"[" * 100_000,
    "deep in an object": b'{"inputs": ' * 5000 + b"1" + b"}" * 5000,
    "deeper than JSON is written": b'{"instances": D, "inputs": D, "input": D, "examples": D,'
    b'"query": D, "text": D, "lines": D, "model": D}'.replace(b"D", b"[" * 500 + b"]" * 500),
    "too large": b'{"inputs": "' + b"a" * (9 * 2**20) + b'"}',
    "wrong types": json.dumps({key: {"a": [None]} for key in _KEYS}).encode(),
}


@pytest.mark.parametrize("path", POSTS)
def test_every_path_answers(served: Running, path: str) -> None:
    assert served.post(path, POSTS[path]).status_code == 200


@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_bodies_are_refused(served: Running, path: str, name: str) -> None:
    response = served.client.post(path, content=HOSTILE[name])
    assert 400 <= response.status_code < 500, response.text
    error = response.json()["error"]
    message = error["message"] if isinstance(error, dict) else error
    assert message
    assert "Traceback" not in message
    assert ".py" not in message
    assert len(message) < 600


def test_all_posts_of_the_application_are_among_these(served: Running) -> None:
    described = served.get("/openapi.json")["paths"]
    posts = [path for path, methods in described.items() if "post" in methods]
    tried = {re.sub(r"/(labels|vectors)", "/{name}", path) for path in POSTS}
    tried = {path.replace("versions/1", "versions/{number}") for path in tried}
    # This model is no regressor, and a checkpoint has no label of a version.
    assert {path for path in posts if "regress" not in path and "{label}" not in path} == tried


def test_long_texts_are_cut_and_one_bad_row_is_told(served: Running) -> None:
    odd = ["x" * 10_000, "a " * 100_000, "", " \t\n", "\x00", "😀\u200d", "[SEP] [CLS]"]
    rows = served.ask(PREDICT, {"instances": odd})["predictions"]
    assert len(rows) == len(odd)
    alone = [served.ask(PREDICT, {"instances": [text]})["predictions"][0] for text in odd]
    for row, other in zip(rows, alone, strict=True):
        assert row["label"] == other["label"]
        assert row["scores"] == pytest.approx(other["scores"], abs=1e-5)
    response = served.post(PREDICT, {"instances": ["a", None, "b"]})
    assert response.status_code == 400
    assert "instances[1]" in response.json()["error"]


def test_requests_at_the_same_time_have_their_own_answers(served: Running) -> None:
    texts = [" ".join(["a", "fine", "dull", "film"][: 1 + i % 4]) for i in range(60)]
    expected = predictor("labels").predict_scores(texts)

    def ask(text: str) -> list[float]:
        (row,) = served.ask(PREDICT, {"instances": [text]})["predictions"]
        scores = dict(zip(row["labels"], row["scores"], strict=True))
        return [scores[name] for name in ("bad", "good", "ugly")]

    with ThreadPoolExecutor(12) as pool:
        for scores, row in zip(pool.map(ask, texts), expected, strict=True):
            assert scores == pytest.approx(row, abs=1e-5)


def test_clients_that_are_slow_or_go_away_do_not_disturb_others(folders) -> None:
    limits = Limits(body_timeout=0.2)
    with running({"labels": folders["labels"]}, limits=limits) as other:
        host, port = other.url.removeprefix("http://").split(":")
        head = f"POST {PREDICT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n"
        for sent in ("", "POST", head, f"{head}\r\n", f'{head}\r\n{{"instances": ["a'):
            with socket.create_connection((host, int(port)), timeout=20) as connection:
                connection.sendall(sent.encode())
                connection.shutdown(socket.SHUT_WR)  # half closed
            assert other.ask(PREDICT, {"instances": ["a"]})
        with socket.create_connection((host, int(port)), timeout=20) as connection:
            connection.sendall(f"{head}\r\n".encode())
            assert b"408" in connection.recv(100)  # the body does not come


def test_very_long_texts_are_shortened_and_do_not_hold_others_up(served: Running) -> None:
    """The longest text has the answer of its beginning, and is told to be truncated."""
    long = "a dull film in rome " * 25_000
    model = served.server.service.models["labels"].newest.model
    short = model.shortened(long)
    assert len(short) < 10_000
    for text in ("a" * 500_000, " " * 500_000):  # without a word at which it could be cut
        assert model.shortened(text) == text
    for key in ("instances", "inputs"):
        response = served.post(PREDICT, {key: [long]})
        assert response.headers["X-Truncated-Texts"] == "1"
        assert response.json() == served.ask(PREDICT, {key: [short]})
    encoded = {"b64": base64.b64encode(long.encode()).decode()}
    assert served.ask(PREDICT, {"inputs": [encoded]}) == response.json()
    pair = {"instances": [{"text": "a", "pair": long}], "signature_name": "pairs"}
    assert served.post(PREDICT, pair).headers["X-Truncated-Texts"] == "1"
    body = {"inputs": {"prompt": "a", "options": [long, "dull " * 20_000]}}
    assert served.ask("/api/models/choices/answer", body)["answer"]["index"] in (0, 1)
    for path in ("tokens", "attention"):
        tokens = served.ask(f"/api/models/labels/{path}", {"text": long})["tokens"]
        assert len(tokens) == model.max_length
    usage = served.ask("/v1/embeddings", {"model": "vectors", "input": long})
    assert usage["truncated"] == 1


def test_texts_that_are_read_in_windows_have_a_limit(served: Running) -> None:
    long = "a film in rome " * 7000
    for path, body in (
        ("/v1/models/tags:predict", {"instances": [long]}),
        ("/v1/models/answers:predict", {"inputs": {"question": ["a"], "context": [long]}}),
        ("/api/models/crf/answer", {"inputs": {"text": long}}),
    ):
        response = served.post(path, body)
        assert response.status_code == 413, path
        assert "100,000 characters" in response.json()["error"]


def test_ids_run_in_batches_and_texts_are_no_numbers(served: Running) -> None:
    rows = [[2, 5 + i % 7, 3] for i in range(100)]
    names = ("token_ids", "segment_ids", "padding_mask")
    columns = {
        name: rows if name == "token_ids" else [[int(name != "segment_ids")] * 3] * 100
        for name in names
    }
    found = served.ask(PREDICT, {"signature_name": "ids", "inputs": columns})["outputs"]
    for index in (0, 40, 99):
        one = {name: values[index : index + 1] for name, values in columns.items()}
        (row,) = served.ask(PREDICT, {"signature_name": "ids", "inputs": one})["outputs"]
        assert found[index] == pytest.approx(row, abs=1e-5)
    # NumPy would give each text the room of the longest: 4 TB.
    wrong = {**columns, "token_ids": ["a" * 1_000_000, *"b" * 1_000_000]}
    assert served.post(PREDICT, {"signature_name": "ids", "inputs": wrong}).status_code == 400


def test_answers_have_a_limit(served: Running) -> None:
    """Vectors of all tokens are large, so they are limited; those of texts are not."""
    texts = ["a film " * 20] * 700
    response = served.post("/v1/models/encoder:predict", {"instances": texts})
    assert response.status_code == 413
    assert "16,384 tokens" in response.json()["error"]
    assert served.ask("/v1/models/encoder:predict", {"instances": texts[:600]})
    vectors = served.server.service.models["encoder"].newest.model.vector_signature
    assert vectors is not None
    assert list(vectors.outputs) == ["sentence_vector"]
    found = served.ask("/v1/embeddings", {"model": "encoder", "input": [*texts[:2], "a"]})["data"]
    rows = served.ask("/v1/models/encoder:predict", {"instances": [*texts[:2], "a"]})["predictions"]
    for item, row in zip(found, rows, strict=True):
        assert item["embedding"] == pytest.approx(row["sentence_vector"], abs=1e-6)


def test_bodies_in_memory_have_a_limit(folders) -> None:
    """A body that would be one too many is told to come back; the others are answered."""

    def is_refused() -> bool:
        response = other.post(PREDICT, {"instances": ["a" * 100]})
        if response.status_code == 429:
            assert int(response.headers["Retry-After"]) >= 1
        return response.status_code == 429

    head = f"POST {PREDICT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n"
    limits = Limits(max_body=1000)
    with running({"labels": folders["labels"]}, limits=limits) as other:
        host, port = other.url.removeprefix("http://").split(":")
        with ExitStack() as waiting:
            for _ in range(100):
                connection = socket.create_connection((host, int(port)), timeout=20)
                waiting.enter_context(connection).sendall(head.encode() + b" " * 999)
                if is_refused():
                    break
            else:
                raise AssertionError("no request was refused")
        wait_for(lambda: not is_refused())


def test_limits_of_texts(folders) -> None:
    limits = Limits(max_texts=3, max_characters=50, max_body=400)
    with running({"labels": folders["labels"]}, limits=limits) as other:
        for body in (["a"] * 4, ["a" * 51], ["a", "b" * 50]):
            response = other.post(PREDICT, {"instances": body})
            assert response.status_code == 413
        chunks = iter([b'{"instances": ["', b"a" * 500, b'"]}'])  # without Content-Length
        assert other.client.post(PREDICT, content=chunks).status_code == 413
        assert other.ask(PREDICT, {"instances": ["a"] * 3})


def test_a_request_that_takes_too_long_is_told_to_come_back(folders) -> None:
    may_go = threading.Event()

    def slow(columns: Any) -> Any:
        assert may_go.wait(60)
        return {"scores": np.zeros((len(columns["text"]), 1), np.float32)}

    with running({"labels": folders["labels"]}, limits=Limits(timeout=0.01)) as other:
        loaded = other.server.service.models["labels"].newest.model
        loaded.signatures = {
            "serving_default": Signature(slow, {"text": Spec("string", (None,))}, {})
        }
        response = other.post(PREDICT, {"instances": ["a"]})
        may_go.set()
        assert response.status_code == 503
        assert int(response.headers["Retry-After"]) >= 1


def test_a_token_is_needed_for_all_but_the_page_and_probes(folders) -> None:
    with running({"labels": folders["labels"]}, token="secret") as other:
        for path in ("/", "/health", "/ready", "/docs", "/openapi.json", "/static/style.css"):
            assert other.client.get(path).status_code == 200, path
        described = other.get("/openapi.json")["paths"]
        guarded = [path for path in described if path not in ("/health", "/ready")]
        assert len(guarded) > 10
        for path in guarded:
            method = "POST" if "post" in described[path] else "GET"
            concrete = path.replace("{name}", "labels")
            for header in ({}, {"Authorization": "Bearer other"}, {"Authorization": "secret"}):
                response = other.client.request(method, concrete, headers=header)
                assert response.status_code == 401, path
                assert response.headers["WWW-Authenticate"] == "Bearer"
                assert ("is wrong" in response.text) == ("other" in str(header))
        header = {"Authorization": "Bearer secret"}
        assert other.post(PREDICT, {"instances": ["a"]}, **header).status_code == 200
        assert other.client.get("/metrics", headers=header).status_code == 200
        header = {"Authorization": "bearer  secret"}  # the scheme is read in any case
        assert other.client.get("/metrics", headers=header).status_code == 200


def test_other_host_names_are_refused_on_this_computer(served: Running) -> None:
    for host, status in (
        *(("localhost", 200), ("LOCALHOST", 200), ("127.0.0.1:1", 200), ("", 200)),
        *(("evil.example", 400), ("evil.example:localhost", 400), ("localhost@evil", 400)),
    ):
        assert served.client.get("/health", headers={"Host": host}).status_code == status


def test_a_proxy_may_send_its_own_name(folders) -> None:
    with running({"labels": folders["labels"]}, allowed_hosts=["api.example"]) as other:
        for host, status in (("api.example", 200), ("API.example:443", 200), ("evil", 400)):
            response = other.client.get("/health", headers={"Host": host})
            assert response.status_code == status
        assert "--allowed-host" in response.json()["error"]


def test_cors_is_off_unless_an_origin_is_named(served: Running, folders) -> None:
    asks = {"Origin": "https://a.example", "Access-Control-Request-Method": "POST"}
    assert (
        "access-control-allow-origin" not in served.client.options("/embed", headers=asks).headers
    )
    with running({"labels": folders["labels"]}, origins=["https://a.example"]) as other:
        answer = other.client.options("/embed", headers=asks)
        assert answer.headers["access-control-allow-origin"] == "https://a.example"
        asks["Origin"] = "https://b.example"
        refused = other.client.options("/embed", headers=asks)
        assert "access-control-allow-origin" not in refused.headers
    with running({"labels": folders["labels"]}, origins=["https://a.example"], token="x") as other:
        origin = {"Origin": "https://a.example"}
        refused = other.client.get("/v1/models", headers=origin)
        assert refused.status_code == 401
        assert refused.headers["access-control-allow-origin"] == "https://a.example"


def test_errors_of_paths_are_json_and_headers_protect_the_page(served: Running) -> None:
    for method, path, status in (
        ("GET", "/nothing", 404),
        ("GET", "/embed", 405),
        ("DELETE", "/v1/models", 405),
        ("GET", "/static/../app.py", 404),
        ("GET", "/static/%2e%2e/app.py", 404),
        ("GET", "/static/%00", 404),
        ("GET", "/static/" + "a" * 5000, 404),
        ("GET", "/v1/models/%00%ff", 404),
        ("GET", "/v1/models/labels/versions/" + "9" * 5000, 404),
        ("GET", "/v1/models/labels/versions/%D9%A1", 404),
        ("GET", "/v1/models/labels/versions/x", 404),
        ("POST", "/v1/models/labels:" + "x" * 5000, 400),
    ):
        response = served.client.request(method, path)
        assert response.status_code == status, path
        assert 0 < len(response.json()["error"]) < 400
    page = served.client.get("/")
    assert "default-src 'self'" in page.headers["content-security-policy"]
    assert page.headers["x-content-type-options"] == "nosniff"


def test_a_bug_is_logged_and_not_shown(served: Running, monkeypatch, caplog) -> None:
    model = served.server.service.models["labels"].newest.model
    monkeypatch.setattr(type(model), "truncated", lambda *_: {}["/secret/path"])
    response = served.post(PREDICT, {"instances": TEXTS})
    assert response.status_code == 500
    assert response.json() == {"error": "The server could not answer. Its log has the reason."}
    wait_for(lambda: "/secret/path" in caplog.text)  # it is written after the answer


def test_ready_metrics_and_description(served: Running) -> None:
    assert served.get("/ready") == {"status": "ready"}
    served.post(PREDICT, {"instances": ["a"]})
    text = served.client.get("/metrics").text
    assert 'bert_keras_requests_total{route="/v1/models/{name}:{verb}",status="200"}' in text
    assert 'bert_keras_queue_rows{model="labels"} 0.0' in text
    served.server.service.is_draining = True
    try:
        assert served.client.get("/ready").status_code == 503
    finally:
        served.server.service.is_draining = False
