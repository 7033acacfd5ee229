"""HTTP clients that keep their connections, and the figures of their requests.

The clients share the processor with the server, so they do little: requests are prepared before,
and only the status, some headers and the length of an answer are read.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

HOST = "127.0.0.1"
_END = b"\r\n\r\n"
_PAUSE = 0.01  # seconds before a client tries again to connect


@dataclass
class Answers:
    """Answers that the clients got.

    Attributes:
        seconds: time from each request to the end of its answer.
        statuses: HTTP status -> number of answers.
        versions: version of the model, from the header X-Model-Version -> number of answers.
        lost: time at which each request was sent that got no answer (`time.perf_counter`).
        begin: time of the start.
        end: time of the end.
        processor: seconds of processor time of this process.
    """

    seconds: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    versions: Counter[str] = field(default_factory=Counter)
    lost: list[float] = field(default_factory=list)
    begin: float = 0.0
    end: float = 0.0
    processor: float = 0.0

    def figures(self) -> dict[str, float]:
        """Return answers per second, milliseconds, counts and the clients' share of a core.

        "busy" counts 429 and 503, with which a server asks to come back. "failed" counts all other
        answers but 200, and requests without an answer.
        """
        wall = self.end - self.begin
        answered = self.statuses[200]
        busy = self.statuses[429] + self.statuses[503]
        p50, p99 = np.percentile(self.seconds or [0.0], (50, 99)) * 1000
        return {
            "texts_per_second": answered / wall,
            "p50": float(p50),
            "p99": float(p99),
            "answered": answered,
            "busy": busy,
            "failed": self.statuses.total() - answered - busy + len(self.lost),
            "client_cores": self.processor / wall,
        }


class _Client(asyncio.Protocol):
    """A connection, on which one request after another is sent.

    Args:
        answers: where the answers are counted.
        next_request: function that returns the next request; b"" to stop.
    """

    def __init__(self, answers: Answers, next_request: Callable[[], bytes]):
        self._answers, self._next = answers, next_request
        self._received = bytearray()
        self._sent: float | None = None
        self.is_closed = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        """Send the first request."""
        self._transport = transport
        self._send()

    def _send(self) -> None:
        """Send the next request, or close the connection."""
        request = self._next()
        if not request:
            self._transport.close()
            return
        self._sent = time.perf_counter()
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        """Count the answer when it is complete, and send the next request."""
        self._received += data
        head, end, _ = self._received.partition(_END)
        if not end:
            return
        headers = _headers(bytes(head))
        if len(self._received) < len(head) + len(end) + int(headers.get(b"content-length", 0)):
            return
        assert self._sent is not None
        self._answers.seconds.append(time.perf_counter() - self._sent)
        self._answers.statuses[int(head[9:12])] += 1
        if version := headers.get(b"x-model-version"):
            self._answers.versions[version.decode()] += 1
        self._sent = None
        self._received.clear()
        if headers.get(b"connection") == b"close":
            self._transport.close()
        else:
            self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        """Count a request without an answer."""
        del exc
        if self._sent is not None:
            self._answers.lost.append(self._sent)
        if not self.is_closed.done():
            self.is_closed.set_result(None)


def _headers(head: bytes) -> dict[bytes, bytes]:
    """Return the headers of an answer by lower-case name."""
    lines = (line.partition(b": ") for line in head.split(b"\r\n")[1:])
    return {name.lower(): value for name, _, value in lines}


def requests_of(texts: Sequence[str], model: str) -> list[bytes]:
    """Return a request to `/v1/embeddings` for each text, as bytes to send."""
    return [post("/v1/embeddings", {"model": model, "input": text}) for text in texts]


def post(path: str, body: Mapping[str, Any]) -> bytes:
    """Return a POST request with a JSON body, as bytes to send."""
    content = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


async def send(
    port: int,
    requests: Sequence[bytes],
    clients: int,
    *,
    count: float = float("inf"),
    is_over: Callable[[], bool] = lambda: False,
) -> Answers:
    """Send requests with several clients, each of which waits for its answer before the next.

    A client whose connection is closed or refused connects again.

    Args:
        port: port of the server on this computer.
        requests: requests, which are sent in turn.
        clients: number of connections.
        count: number of requests.
        is_over: function that returns whether to send no further request.
    """
    answers, sent = Answers(), 0

    def next_request() -> bytes:
        nonlocal sent
        if sent >= count or is_over():
            return b""
        sent += 1
        return requests[(sent - 1) % len(requests)]

    async def client() -> None:
        loop = asyncio.get_running_loop()
        while sent < count and not is_over():
            try:
                _, protocol = await loop.create_connection(
                    lambda: _Client(answers, next_request), HOST, port
                )
            except OSError:
                await asyncio.sleep(_PAUSE)
            else:
                await protocol.is_closed

    processor, answers.begin = time.process_time(), time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    answers.end, answers.processor = time.perf_counter(), time.process_time() - processor
    return answers


def send_for(port: int, requests: Sequence[bytes], clients: int, seconds: float) -> Answers:
    """Send requests for some seconds; see `send`."""
    end = time.perf_counter() + seconds
    return asyncio.run(send(port, requests, clients, is_over=lambda: time.perf_counter() >= end))


def send_many(port: int, requests: Sequence[bytes], clients: int, count: int) -> Answers:
    """Send a number of requests; see `send`."""
    return asyncio.run(send(port, requests, clients, count=count))


# === Processes ===


def memory_bytes(process: int) -> int:
    """Return the memory (RSS) of a process in bytes; 0 if the system does not report it."""
    with suppress(OSError, IndexError, ValueError):
        status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
        return int(status.split("VmRSS:")[1].split()[0]) * 1024
    return 0


def processor_seconds(process: int) -> float:
    """Return the processor time of a process; 0 if the system does not report it."""
    with suppress(OSError, IndexError, ValueError):
        fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2]
        return sum(map(int, fields.split()[11:13])) / os.sysconf("SC_CLK_TCK")
    return 0.0
