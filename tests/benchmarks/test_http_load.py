"""Clients send each request once, count every answer, and connect again."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks import http_load
from benchmarks.http_load import Answers, post, requests_of, send, send_for, send_many

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Model-Version: 3\r\n\r\n{}"
FULL = b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\n\r\n"
BUG = b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n"
CLOSE = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}"
GONE = b""  # closes the connection without an answer


class Server:
    """A server that gives these answers in turn, and keeps the texts that it received."""

    def __init__(self, answers: list[bytes]):
        self.answers, self.texts, self.connections = answers, list[str](), 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while True:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                break
            size = int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0])
            self.texts.append(json.loads(await reader.readexactly(size))["input"])
            content = self.answers[(len(self.texts) - 1) % len(self.answers)]
            if not content:
                break
            writer.write(content[:30])  # an answer may arrive in parts
            await writer.drain()
            await asyncio.sleep(0)
            writer.write(content[30:])
            if b"Connection: close" in content:
                break
        writer.close()


@contextmanager
def serving(*answers: bytes) -> Iterator[tuple[Server, int]]:
    """Run a server in a thread; yield it and its port."""
    server, bound = Server(list(answers)), socket.socket()
    bound.bind(("127.0.0.1", 0))
    loop, is_ready = asyncio.new_event_loop(), threading.Event()

    async def run() -> None:
        listening = await asyncio.start_server(server.answer, sock=bound)
        is_ready.set()
        async with listening:
            await stop.wait()

    stop = asyncio.Event()
    thread = threading.Thread(target=lambda: loop.run_until_complete(run()))
    thread.start()
    assert is_ready.wait(20)
    try:
        yield server, bound.getsockname()[1]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(20)
        loop.close()


def test_every_request_is_sent_once_and_counted() -> None:
    with serving(OK) as (server, port):
        found = send_many(port, requests_of(["a", "bb", "ccc"], "m"), 4, 30)
    assert sorted(server.texts) == sorted(["a", "bb", "ccc"] * 10)
    assert server.connections == 4
    assert found.statuses == {200: 30}
    assert found.versions == {"3": 30}
    assert (len(found.seconds), found.lost) == (30, [])
    figures = found.figures()
    assert (figures["answered"], figures["busy"], figures["failed"]) == (30, 0, 0)
    assert 0 < figures["p50"] <= figures["p99"]
    assert figures["texts_per_second"] == pytest.approx(30 / (found.end - found.begin))


def test_refused_and_lost_requests_are_counted() -> None:
    with serving(OK, FULL, BUG, GONE, CLOSE) as (server, port):
        found = send_many(port, requests_of(["a"], "m"), 1, 10)
    assert found.statuses == {200: 4, 429: 2, 500: 2}
    assert len(found.lost) == 2
    assert found.begin <= found.lost[0] <= found.lost[1] <= found.end
    figures = found.figures()
    assert (figures["answered"], figures["busy"], figures["failed"]) == (4, 2, 4)
    # Each lost request, and each answer with "Connection: close", ended a connection.
    assert (len(server.texts), server.connections) == (10, 4)


def test_clients_stop_when_the_time_is_over() -> None:
    with serving(OK) as (server, port):
        found = send_for(port, requests_of(["a"], "m"), 2, 0.05)
        assert found.statuses[200] == len(server.texts) > 0
        nothing = asyncio.run(send(port, [post("/", {})], 2, is_over=lambda: True))
    assert nothing.figures()["answered"] == 0


def test_figures_without_answers() -> None:
    figures = Answers(begin=0.0, end=1.0).figures()
    assert (figures["p50"], figures["texts_per_second"]) == (0, 0)


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs Linux's /proc")
def test_facts_of_a_process() -> None:
    assert http_load.memory_bytes(os.getpid()) > 10**6
    assert http_load.processor_seconds(os.getpid()) > 0


def test_facts_of_no_process() -> None:
    assert (http_load.memory_bytes(-1), http_load.processor_seconds(-1)) == (0, 0)
