"""The OpenAPI description of the server, for `/openapi.json` and the page `/docs`."""

from __future__ import annotations

import re
from html import escape
from importlib import metadata
from typing import Any

_TEXTS = {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
_STRING, _BOOLEAN, _INTEGER = {"type": "string"}, {"type": "boolean"}, {"type": "integer"}
_ANY: dict[str, Any] = {}
_PREDICT = {"signature_name": _STRING, "instances": {"type": "array"}, "inputs": _ANY}
_EXAMPLES = {
    "signature_name": _STRING,
    "context": {"type": "object"},
    "examples": {"type": "array", "items": {"type": "object"}},
}
_RANK = {"query": _STRING, "texts": _TEXTS, "raw_scores": _BOOLEAN, "return_text": _BOOLEAN}
_TEXT_AND_PAIR = {"text": _STRING, "pair": _STRING}

# Path -> (method, group, summary, properties of the body or None, required properties).
_Operation = tuple[str, str, str, dict[str, Any] | None, tuple[str, ...]]
OPERATIONS: dict[str, _Operation] = {
    "/v1/models/{name}:predict": (
        *("post", "TensorFlow Serving", "Run a signature on rows or columns."),
        *(_PREDICT, ()),
    ),
    "/v1/models/{name}:classify": (
        *("post", "TensorFlow Serving", "Return labels and scores of examples."),
        *(_EXAMPLES, ("examples",)),
    ),
    "/v1/models/{name}:regress": (
        *("post", "TensorFlow Serving", "Return a number for each example."),
        *(_EXAMPLES, ("examples",)),
    ),
    "/v1/models/{name}/metadata": (
        *("get", "TensorFlow Serving", "Return the signatures of a model."),
        *(None, ()),
    ),
    "/v1/models/{name}": (
        *("get", "TensorFlow Serving", "Return the versions of a model and their states."),
        *(None, ()),
    ),
    "/v1/models": ("get", "OpenAI", "List the models.", None, ()),
    "/v1/embeddings": (
        *("post", "OpenAI", "Return vectors of texts."),
        {
            "model": _STRING,
            "input": _TEXTS,
            "encoding_format": {"type": "string", "enum": ["float", "base64"]},
            "dimensions": _INTEGER,
        },
        ("model", "input"),
    ),
    "/embed": (
        *("post", "Text Embeddings Inference", "Return vectors of texts."),
        {"inputs": _TEXTS, "normalize": _BOOLEAN, "truncate": _BOOLEAN},
        ("inputs",),
    ),
    "/predict": (
        *("post", "Text Embeddings Inference", "Return labels of texts or pairs."),
        *({"inputs": _ANY, "truncate": _BOOLEAN}, ("inputs",)),
    ),
    "/rerank": (
        *("post", "Text Embeddings Inference", "Rank texts for a query."),
        *({**_RANK, "truncate": _BOOLEAN}, ("query", "texts")),
    ),
    "/v1/rerank": (
        *("post", "Cohere", "Rank documents for a query."),
        {
            "model": _STRING,
            "query": _STRING,
            "documents": {"type": "array"},
            "top_n": _INTEGER,
            "return_documents": _BOOLEAN,
        },
        ("query", "documents"),
    ),
    "/api/models": ("get", "Page", "Describe the models for the page.", None, ()),
    "/api/models/{name}/answer": (
        *("post", "Page", "Answer one example."),
        *({"inputs": {"type": "object"}, "top_k": _INTEGER}, ("inputs",)),
    ),
    "/api/models/{name}/tokens": (
        *("post", "Page", "Return the tokens of a text."),
        *(_TEXT_AND_PAIR, ("text",)),
    ),
    "/api/models/{name}/attention": (
        *("post", "Page", "Return the attention between the tokens of a text."),
        *(_TEXT_AND_PAIR, ("text",)),
    ),
    "/api/models/{name}/search": (
        *("post", "Page", "Rank lines by their similarity to a query."),
        *({"query": _STRING, "lines": _TEXTS}, ("query", "lines")),
    ),
    "/health": ("get", "Server", "Return 200 while the process runs.", None, ()),
    "/ready": ("get", "Server", "Return 200 if all models answer.", None, ()),
    "/metrics": ("get", "Server", "Return metrics for Prometheus.", None, ()),
}


_BUSY = "The server is busy. The header Retry-After has the seconds to wait."
# Parts of a path of TensorFlow Serving after the name: the version, or a label of a version.
_VERSIONS = ("/versions/{number}", "/labels/{label}")


def _with_versions(operations: dict[str, _Operation]) -> dict[str, _Operation]:
    """Return operations with those of TensorFlow Serving for a version and for a label."""
    versioned = dict(operations)
    for path, (method, group, summary, properties, required) in operations.items():
        if group == "TensorFlow Serving":
            for part in _VERSIONS:
                name = part.removeprefix("/").partition("/")[0].removesuffix("s")
                text = f"{summary.removesuffix('.')}, by {name}."
                its_path = path.replace("{name}", "{name}" + part)
                versioned[its_path] = (method, group, text, properties, required)
    return versioned


def description() -> dict[str, Any]:
    """Return the OpenAPI description as JSON values."""
    paths: dict[str, Any] = {}
    operations = _with_versions(OPERATIONS)
    for path, (method, group, summary, properties, required) in operations.items():
        operation: dict[str, Any] = {
            "tags": [group],
            "summary": summary,
            "responses": {
                "200": {"description": "The answer."},
                "4XX": {"description": "An error of the request, with a message."},
                "429": {"description": _BUSY},
                "503": {"description": _BUSY},
            },
        }
        if names := re.findall(r"{(\w+)}", path):
            operation["parameters"] = [
                {
                    "name": name,
                    "in": "path",
                    "required": True,
                    "schema": _INTEGER if name == "number" else _STRING,
                }
                for name in names
            ]
        if properties is not None:
            schema: dict[str, Any] = {"type": "object", "properties": properties}
            if required:
                schema["required"] = list(required)
            operation["requestBody"] = {
                "required": True,
                "content": {"application/json": {"schema": schema}},
            }
        paths[path] = {method: operation}
    return {
        "openapi": "3.1.0",
        "info": {"title": "bert-keras serve", "version": metadata.version("bert-keras")},
        "paths": paths,
        "security": [{}, {"bearer": []}],  # a server may need no token
        "components": {"securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}}},
    }


def html_page() -> str:
    """Return the description as an HTML page without scripts, with a table for each protocol."""
    rows: dict[str, list[str]] = {}
    for path, (method, group, summary, properties, required) in OPERATIONS.items():
        names = ", ".join(
            f"<b>{escape(name)}</b>" if name in required else escape(name)
            for name in properties or ()
        )
        cells = (f"<code>{method.upper()} {escape(path)}</code>", escape(summary), names)
        row = "".join(f"<td>{cell}</td>" for cell in cells)
        rows.setdefault(group, []).append(f"<tr>{row}</tr>")
    head = "<thead><tr><th>Request</th><th>What it does</th><th>Keys of the body</th></tr></thead>"
    tables = "\n".join(
        f"<h2>{escape(group)}</h2>\n<table>{head}\n<tbody>{''.join(lines)}</tbody></table>"
        for group, lines in rows.items()
    )
    styles = "".join(
        f'<link rel="stylesheet" href="/static/{name}.css">' for name in ("style", "reference")
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        '<meta name="color-scheme" content="light dark"><title>bert-keras serve: HTTP API</title>'
        f'<link rel="icon" href="/static/icon.svg" type="image/svg+xml">{styles}</head>\n'
        '<body class="reference"><main><h1>HTTP API</h1>\n'
        '<p><a href="/">The page</a> shows each request as curl and Python, under its answer. '
        '<a href="/openapi.json">openapi.json</a> describes the paths in the OpenAPI format.</p>\n'
        "<p>Bodies and answers are JSON objects. Required keys are bold. A path of TensorFlow "
        "Serving may name a version, as in <code>/v1/models/{name}/versions/2:predict</code>, or a "
        "label, as in <code>/v1/models/{name}/labels/stable:predict</code>.</p>\n"
        f"{tables}\n</main></body></html>\n"
    )
