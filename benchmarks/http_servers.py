"""Servers of sentence vectors in processes of their own, and contenders that send them texts.

As a program, this module serves a sentence encoder as many people do: sentence-transformers behind
Starlette and uvicorn.

    python -m benchmarks.http_servers PRESET
"""

from __future__ import annotations

import atexit
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.http_load import (
    HOST,
    memory_bytes,
    processor_seconds,
    requests_of,
    send_for,
    send_many,
)

MODEL = "vectors"  # name of the served model
MANY, ONE, LOOP, BATCHES = "many clients", "one client", "loop", "batches"
BATCH = 32
_SECONDS_TO_START = 300.0
_COMPARED = 64  # texts whose vectors are compared before the measurement
_TOLERANCE = 1e-3
_WARM_UP = 0.1  # share of a round that runs before the first one, and is not measured
_ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)")


# === The peer ===


def peer_app(preset: str) -> Any:
    """Return an application that answers `/v1/embeddings` with sentence-transformers."""
    from sentence_transformers import SentenceTransformer
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    model: Any = SentenceTransformer(preset, device="cpu")

    async def embeddings(request: Request) -> JSONResponse:
        body = await request.json()
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        vectors = await run_in_threadpool(model.encode, texts, show_progress_bar=False)
        data = [{"index": i, "embedding": vector.tolist()} for i, vector in enumerate(vectors)]
        return JSONResponse({"object": "list", "data": data, "model": body["model"]})

    return Starlette(routes=[Route("/v1/embeddings", embeddings, methods=["POST"])])


def serve_peer(preset: str) -> None:
    """Serve the peer's application on a free port until SIGTERM."""
    import uvicorn

    bound = socket.socket()
    bound.bind((HOST, 0))
    config = uvicorn.Config(peer_app(preset), log_level="warning", access_log=False)
    print(f"http://{HOST}:{bound.getsockname()[1]}", flush=True)
    uvicorn.Server(config).run([bound])


# === Processes of servers ===


def our_command(model: str, *options: str) -> list[str]:
    """Return the command line of our server for a model, on a free port."""
    serve = ["-m", "bert_keras", "serve", f"{MODEL}={model}", "--port", "0"]
    return [sys.executable, *serve, *options]


def peer_command(preset: str) -> list[str]:
    """Return the command line of the peer's server, on a free port."""
    return [sys.executable, "-m", "benchmarks.http_servers", preset]


class Served:
    """A server in a process of its own.

    Args:
        command: command line of the server, which prints its address.

    Attributes:
        process: the process.
        port: port on which it answers.

    Raises:
        SystemExit: if it does not start.
    """

    def __init__(self, command: Sequence[str]):
        # `close` closes the file.
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self._errors, text=True, env=environment
        )
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if found := _ADDRESS.search(line):
                self.port = int(found[1])
                break
        else:
            raise self._failure(f"{' '.join(command)}: did not start.")
        self._wait()

    def _wait(self) -> None:
        """Wait until a connection is accepted."""
        end = time.monotonic() + _SECONDS_TO_START
        while time.monotonic() < end:
            try:
                socket.create_connection((HOST, self.port)).close()
            except OSError:
                time.sleep(0.05)
            else:
                return
        raise self._failure(f"The server on port {self.port} does not answer.")

    def _failure(self, message: str) -> SystemExit:
        """End the process; return an exception with a message and the errors of the process."""
        self.process.kill()
        self.process.wait()
        self._errors.seek(0)
        errors = self._errors.read()
        self.close()
        return SystemExit(f"{message}\n{errors}")

    def vectors(self, texts: Sequence[str]) -> np.ndarray:
        """Return the vectors of texts, each requested on its own: float32 [texts, size]."""
        return np.array([self._vector(text) for text in texts], np.float32)

    def _vector(self, text: str) -> list[float]:
        """Request the vector of a text."""
        request = urllib.request.Request(
            f"http://{HOST}:{self.port}/v1/embeddings",
            json.dumps({"model": MODEL, "input": text}).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request) as response:
            return json.load(response)["data"][0]["embedding"]

    def stop(self) -> int:
        """Stop the server with SIGTERM, and return its exit code."""
        self.process.terminate()
        try:
            code = self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self.close()
        return code

    def close(self) -> None:
        """Close the files of a process that has ended."""
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._errors.close()


@contextmanager
def server(command: Sequence[str]) -> Iterator[Served]:
    """Start a server, and stop it at the end."""
    served = Served(command)
    try:
        yield served
    finally:
        served.stop()


# === Contenders; see `contest.Contender` ===


def difference(vectors: np.ndarray, reference: Path) -> float:
    """Return the largest difference of vectors to those of a file, which the first caller writes.

    Raises:
        ValueError: if it is so large that the vectors are not those of the same model.
    """
    if not reference.is_file():
        np.save(reference, vectors)
    gap = float(np.abs(vectors - np.load(reference)).max())
    if gap > _TOLERANCE:
        raise ValueError(f"the vectors differ by {gap:.2g} from those of the first program")
    return gap


def served(
    command: list[str], texts: str, reference: str, clients: int, seconds: float, requests: int
) -> Any:
    """Prepare a contender that starts a server, and sends it texts in each round.

    Args:
        command: command line of the server.
        texts: path of the texts, a JSON list.
        reference: path of the .npy file of the vectors to compare with; see `difference`.
        clients: number of connections of the first case.
        seconds: duration of the first case.
        requests: number of requests of the second case, one client.
    """
    running = Served(command)
    atexit.register(running.stop)
    known = json.loads(Path(texts).read_text(encoding="utf-8"))
    gap = difference(running.vectors(known[:_COMPARED]), Path(reference))
    bodies, process = requests_of(known, MODEL), running.process.pid

    def run(share: float = 1.0) -> dict[str, float]:
        before = processor_seconds(process)
        many = send_for(running.port, bodies, clients, share * seconds)
        cores = (processor_seconds(process) - before) / (many.end - many.begin)
        one = send_many(running.port, bodies, 1, max(1, round(share * requests)))
        return {
            **{f"{MANY}/{name}": value for name, value in many.figures().items()},
            **{f"{ONE}/{name}": value for name, value in one.figures().items()},
            f"{MANY}/server_cores": cores,
            f"{MANY}/server_gigabytes": memory_bytes(process) / 2**30,
            "difference": gap,
        }

    run(_WARM_UP)
    return run


def looped(preset: str, texts: str, reference: str, seconds: float, requests: int) -> Any:
    """Prepare a contender that calls `Predictor.encode` with single texts, and with batches.

    Args:
        preset: folder of the sentence encoder.
        texts: see `served`.
        reference: see `served`.
        seconds: duration of the loop over single texts, and of that over batches.
        requests: number of calls whose latency is measured.
    """
    from bert_keras import Predictor

    predictor = Predictor.from_preset(preset, batch_size=BATCH)
    known = json.loads(Path(texts).read_text(encoding="utf-8"))
    vectors = np.stack([predictor.encode(text) for text in known[:_COMPARED]])
    gap = difference(vectors, Path(reference))

    def rate(size: int, seconds: float) -> float:
        begin, done = time.perf_counter(), 0
        while (spent := time.perf_counter() - begin) < seconds:
            start = done % max(1, len(known) - size)
            done += len(predictor.encode(known[start : start + size]))
        return done / spent

    def run(share: float = 1.0) -> dict[str, float]:
        calls = []
        for index in range(max(1, round(share * requests))):
            begin = time.perf_counter()
            predictor.encode(known[index % len(known)])
            calls.append(time.perf_counter() - begin)
        p50, p99 = np.percentile(calls, (50, 99)) * 1000
        return {
            f"{LOOP}/texts_per_second": rate(1, share * seconds),
            f"{BATCHES}/texts_per_second": rate(BATCH, share * seconds),
            f"{ONE}/p50": float(p50),
            f"{ONE}/p99": float(p99),
            "difference": gap,
        }

    run(_WARM_UP)
    return run


if __name__ == "__main__":
    serve_peer(sys.argv[1])
