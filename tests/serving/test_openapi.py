"""The OpenAPI description has every path of the application."""

from __future__ import annotations

import re

from bert_keras.serving import openapi
from bert_keras.serving.http_requests import Service
from tests.serving.running import Running


def test_every_route_is_described() -> None:
    from bert_keras.serving import (
        openai,
        page_api,
        tensorflow_serving,
        text_embeddings_inference,
    )

    modules = (openai, page_api, tensorflow_serving, text_embeddings_inference)
    routes = [route for module in modules for route in module.routes(Service({}))]
    paths = {route.path for route in routes}
    described = {
        re.sub(r":(predict|classify|regress)$", ":{verb}", path)
        for path in openapi.description()["paths"]
    }
    assert paths <= described
    assert described - paths == {"/health", "/ready", "/metrics"}


def test_the_description_is_openapi(served: Running) -> None:
    described = served.get("/openapi.json")
    assert described["openapi"].startswith("3.1")
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            assert operation["summary"].endswith(".")
            assert ("requestBody" in operation) == (method == "post")
            names = [parameter["name"] for parameter in operation.get("parameters", [])]
            assert names == re.findall(r"\{(\w+)\}", path)


def test_the_page_lists_every_path(served: Running) -> None:
    page = served.client.get("/docs").text
    for path in openapi.OPERATIONS:
        assert f" {path}</code>" in page
    assert "<script" not in page
