"""HTTP connections: large and slow headers, requests that are no HTTP, clients that do not read."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest

from bert_keras.serving import http_connection
from tests.serving.running import Running, running


@pytest.fixture
def connection(served: Running) -> Iterator[socket.socket]:
    """Return a connection to the server."""
    host, port = served.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as opened:
        yield opened


def everything(connection: socket.socket) -> bytes:
    """Return all that the server sends until it closes the connection."""
    parts = []
    while part := connection.recv(65_536):
        parts.append(part)
    return b"".join(parts)


@pytest.mark.parametrize(
    "sent",
    [
        b"no HTTP\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(50),  # TLS
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"GET /\xc3\xa9 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
)
def test_a_request_that_is_no_http_is_told(connection: socket.socket, sent: bytes) -> None:
    connection.sendall(sent)
    head, _, body = everything(connection).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400")
    assert b"application/json" in head
    assert json.loads(body)["error"]


def test_endless_headers_are_refused(connection: socket.socket) -> None:
    connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n")
    with pytest.raises(ConnectionError):
        connection.sendall((b"X: " + b"a" * 50_000 + b"\r\n") * 400)


def test_a_large_body_is_not_taken_for_headers(served: Running) -> None:
    for _ in range(3):
        body = {"model": "vectors", "input": "a " * 200_000}
        assert served.post("/v1/embeddings", body, X="a" * 10_000).status_code == 200


def test_requests_one_after_the_other_without_waiting(connection: socket.socket) -> None:
    request = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
    connection.sendall((request + b"\r\n") * 20 + request + b"Connection: close\r\n\r\n")
    assert everything(connection).count(b'{"status":"ok"}') == 21


def test_slow_headers_are_not_waited_for(folders, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connection, "_HEADERS_TIMEOUT", 0.2)
    request = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
    with running({"labels": folders["labels"]}) as other:
        host, port = other.url.removeprefix("http://").split(":")
        for sent in (b"", b"\r\n", b"GET", request, request + b"\r\n" + request):
            with socket.create_connection((host, int(port)), timeout=20) as opened:
                opened.sendall(sent)
                assert everything(opened).count(b"HTTP/1.1 200") == sent.count(b"\r\n\r\n")


def test_an_answer_that_nobody_reads_is_dropped() -> None:
    """A connection with an answer that does not get shorter between two looks is closed."""

    class Transport:
        def __init__(self) -> None:
            self.unsent, self.calls = 5, []

        def get_write_buffer_size(self) -> int:
            return self.unsent

        def is_closing(self) -> bool:
            return False

        def close(self) -> None:
            self.calls.append("close")

        def abort(self) -> None:
            self.calls.append("abort")

    class Loop:
        def call_later(self, *_) -> None:
            """Do not call."""

    connection = http_connection.HttpConnection.__new__(http_connection.HttpConnection)
    connection.transport = transport = Transport()  # type: ignore[assignment]
    connection.loop, connection.timeout_keep_alive = Loop(), 1  # type: ignore[assignment]
    connection._unsent = 0
    for unsent, calls in ((5, []), (3, []), (3, ["abort"]), (0, ["abort", "close"])):
        transport.unsent = unsent
        connection.timeout_keep_alive_handler()
        assert transport.calls == calls


def test_the_answers_of_two_requests_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that was slow to read an earlier answer has the whole time for the next one."""
    monkeypatch.setattr(http_connection.HttpToolsProtocol, "on_message_begin", lambda _: None)
    monkeypatch.setattr(http_connection.HttpConnection, "_start_timer", lambda _: None)
    connection = http_connection.HttpConnection.__new__(http_connection.HttpConnection)
    connection._unsent = 5
    connection.on_message_begin()
    assert connection._unsent == 0
