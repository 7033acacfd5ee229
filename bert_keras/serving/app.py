"""The server's ASGI application: routes of all protocols, access, errors and headers."""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bert_keras.serving import (
    openai,
    openapi,
    page_api,
    tensorflow_serving,
    text_embeddings_inference,
)
from bert_keras.serving.http_json import json_response
from bert_keras.serving.http_requests import (
    RequestError,
    Service,
)
from bert_keras.serving.metrics import CONTENT_TYPE, Metrics

logger = logging.getLogger("bert_keras.serving")

_PAGE = Path(__file__).with_name("page")
# Paths that need no token: the page has no data of its own, and health probes send no token.
_OPEN = ("/", "/health", "/ready", "/docs", "/openapi.json")
_OPENAI_PATHS = ("/v1/embeddings", "/v1/rerank")
_TEI_PATHS = ("/embed", "/predict", "/rerank")
_TEI_ERRORS = {424: "Backend", 429: "Overloaded", 500: "Backend", 503: "Unhealthy"}
_POLICY = "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'"
_HEADERS = {
    b"content-security-policy": _POLICY.encode(),
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
}
_MOST_BODIES = 32  # maximum number of bodies of the largest size in memory at the same time
_CLIENT_GONE = 499  # nginx's status for a client that closed the connection before the answer


@dataclass(frozen=True)
class Access:
    """Conditions that a request must meet: token, origin and host.

    Attributes:
        token: token that the header Authorization must have; "" if none is needed.
        origins: origins whose web pages may send requests (CORS); none by default.
        hosts: values of the header Host that are accepted; () for all. On a loopback address it
            keeps web pages out whose domain name was changed to this address (DNS rebinding).
    """

    token: str = ""
    origins: Sequence[str] = ()
    hosts: Sequence[str] = ()


def make_app(service: Service, metrics: Metrics, access: Access | None = None) -> ASGIApp:
    """Return the ASGI application with the routes of all protocols.

    Args:
        service: models and limits.
        metrics: metrics that count the requests, and that `/metrics` returns.
        access: who may use the server; None for everybody.
    """
    access = access or Access()

    async def health(request: Request) -> Response:
        del request
        return json_response({"status": "ok"})

    async def ready(request: Request) -> Response:
        del request
        if service.is_draining or not tensorflow_serving.is_available(service):
            raise RequestError(503, "The server is not ready.", retry_after=1)
        return json_response({"status": "ready"})

    async def show_metrics(request: Request) -> Response:
        del request
        queues = [
            (model.name, model.newest.number, sum(len(v.batcher) for v in model.loaded))
            for model in service.models.values()
        ]
        return Response(metrics.text(queues), headers={"content-type": CONTENT_TYPE})

    async def page(request: Request) -> Response:
        del request
        return FileResponse(_PAGE / "index.html")

    async def describe(request: Request) -> Response:
        del request
        return json_response(openapi.description())

    async def reference(request: Request) -> Response:
        del request
        return HTMLResponse(openapi.html_page())

    routes = [
        *tensorflow_serving.routes(service),
        *openai.routes(service),
        *text_embeddings_inference.routes(service),
        *page_api.routes(service),
        Route("/health", health, methods=["GET"]),
        Route("/ready", ready, methods=["GET"]),
        Route("/metrics", show_metrics, methods=["GET"]),
        Route("/openapi.json", describe, methods=["GET"]),
        Route("/docs", reference, methods=["GET"]),
        Route("/", page, methods=["GET"]),
        Mount("/static", StaticFiles(directory=_PAGE)),
    ]
    handlers: Any = {
        RequestError: _request_error,
        HTTPException: _http_error,
        ClientDisconnect: _client_gone,
        Exception: _bug,
    }
    app = Starlette(routes=routes, exception_handlers=handlers)
    gate = _Gate(app, service, metrics, access)
    if not access.origins:
        return gate
    return CORSMiddleware(  # outside the gate, so that web pages can read its refusals too
        gate,
        allow_origins=list(access.origins),
        allow_methods=["GET", "POST"],
        allow_headers=["Authorization", "Content-Type"],
        expose_headers=["Retry-After", "X-Model-Version", "X-Truncated-Texts"],
    )


# === Errors ===


def error_response(
    path: str, status: int, message: str, *, retry_after: int | None = None, code: str = ""
) -> Response:
    """Return an error in the form of the protocol of a path."""
    body: dict[str, Any] = {"error": message}
    if path.startswith(_OPENAI_PATHS):
        kind = "invalid_request_error" if status < 500 else "server_error"
        body["error"] = {"message": message, "type": kind, "param": None, "code": code or None}
        body["message"] = message  # for Cohere's clients, at /v1/rerank
    elif path in _TEI_PATHS:
        body["error_type"] = _TEI_ERRORS.get(status, "Validation")
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return json_response(body, status, headers)


async def _request_error(request: Request, error: Exception) -> Response:
    """Return the answer of a `RequestError`."""
    assert isinstance(error, RequestError)
    return error_response(
        request.url.path,
        error.status,
        error.message,
        retry_after=error.retry_after,
        code=error.code,
    )


async def _http_error(request: Request, error: Exception) -> Response:
    """Return the answer to a path or method that does not exist."""
    assert isinstance(error, HTTPException)
    message = {
        404: "There is no such path. /docs lists them.",
        405: f"This path does not take {request.method}. /docs lists the methods. To run a model, "
        "POST to /v1/models/NAME:predict.",
    }.get(error.status_code, error.detail)
    response = error_response(request.url.path, error.status_code, message)
    response.headers.update(error.headers or {})
    return response


async def _client_gone(request: Request, error: Exception) -> Response:
    """Return an answer that only the metrics see: the client has closed the connection."""
    del request, error
    return Response(status_code=_CLIENT_GONE)


async def _bug(request: Request, error: Exception) -> Response:
    """Return the answer of a bug, without its text, which may name files of this computer."""
    del error
    return error_response(
        request.url.path, 500, "The server could not answer. Its log has the reason."
    )


# === The gate ===


class _Gate:
    """Middleware around the application: hosts, token, headers, metrics and the log of bugs.

    It is plain ASGI, because Starlette's `BaseHTTPMiddleware` costs as much as the application.
    """

    def __init__(self, app: Starlette, service: Service, metrics: Metrics, access: Access):
        self._app, self._metrics, self._access = app, metrics, access
        self._most_bytes = _MOST_BODIES * service.limits.max_body
        self._held_bytes = 0  # of the bodies of all requests that are not answered yet

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status, size = time.perf_counter(), _CLIENT_GONE, 0

        async def receive_counted() -> Message:
            """Receive a part of the body; refuse it if the bodies of all requests are too large."""
            nonlocal size
            message = await receive()
            received = len(message.get("body", b""))
            size += received
            self._held_bytes += received
            if received and self._held_bytes > self._most_bytes:
                raise RequestError(
                    429,
                    f"The open requests have more than {self._most_bytes:,} bytes. Repeat this "
                    "request later.",
                    retry_after=1,
                )
            return message

        async def send_with_headers(message: Message) -> None:
            """Add the headers of all answers, and note the status."""
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                known = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *(item for item in _HEADERS.items() if item[0] not in known),
                ]
            await send(message)

        refused = self._refusal(scope)
        try:
            if refused is not None:
                await refused(scope, receive, send_with_headers)
            else:
                await self._app(scope, receive_counted, send_with_headers)
        except ClientDisconnect:
            pass
        except asyncio.CancelledError:  # the drain has taken too long
            if status != _CLIENT_GONE:  # the answer has begun
                raise
            answer = error_response(scope["path"], 503, "The server stops.", retry_after=1)
            await answer(scope, receive, send_with_headers)
        except Exception:  # `_bug` has answered; Starlette raises the error again for the log
            logger.error("%s %r\n%s", scope["method"], scope["path"], traceback.format_exc())
        finally:
            self._held_bytes -= size
            route = scope.get("route")
            pattern = getattr(route, "path", "other")
            self._metrics.count_request(pattern, status, time.perf_counter() - start)

    def _refusal(self, scope: Scope) -> Response | None:
        """Return the answer to a request without permission; None if it has permission."""
        path, headers = scope["path"], dict(scope["headers"])
        hosts = self._access.hosts
        host = headers.get(b"host", b"").decode("latin-1")
        # Browsers always send this header. A request without it comes from a program, such as a
        # probe.
        if host and hosts and _host_name(host).lower() not in hosts:
            return error_response(
                path,
                400,
                f"The header Host has {_host_name(host)!r:.100}. Use localhost, or start the "
                "server with --allowed-host and this name.",
            )
        is_open = path in _OPEN or path.startswith("/static/") or scope["method"] == "OPTIONS"
        token = self._access.token
        if not token or is_open:
            return None
        scheme, _, sent = headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() == b"bearer" and hmac.compare_digest(sent.strip(), token.encode()):
            return None
        what = "This token is wrong" if sent else "The server needs a token"
        return error_response(
            path, 401, f"{what}: send the header Authorization: Bearer TOKEN with the right one."
        )


def _host_name(host: str) -> str:
    """Return the name in a header Host, without its port."""
    name, _, port = host.rpartition(":")
    return name if name and port.isdecimal() else host
