"""Trials of our server under load: memory over many requests, hot swap, and SIGTERM."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from benchmarks.http_load import HOST, Answers, memory_bytes, requests_of, send, send_many
from benchmarks.http_servers import MODEL, Served, our_command, server

_WORDS = tuple(1 << power for power in range(8))  # lengths of texts: 1 to 128 words
_PATIENCE = 120.0  # seconds until a version has to answer, or the server has to end


# === Memory ===


def texts_of_lengths(texts: Sequence[str], count: int) -> list[str]:
    """Return texts of 1 to 128 words, each length equally often, made of the words of others."""
    words = cycle(word for text in texts for word in text.split())
    return [" ".join(islice(words, _WORDS[index % len(_WORDS)])) for index in range(count)]


def memory_over_requests(
    command: Sequence[str],
    texts: Sequence[str],
    *,
    clients: int,
    warm_up: int,
    requests: int,
    step: int,
) -> dict[str, Any]:
    """Measure the memory (RSS) of a server over many requests of many lengths.

    Args:
        command: command line of the server.
        texts: texts, whose words are sent.
        clients: number of connections.
        warm_up: number of requests before the first measurement.
        requests: number of requests after it.
        step: number of requests between two measurements.

    Returns:
        "bytes" by number of requests, "growth_bytes" from the first to the last measurement, and
        the figures of the answers.
    """
    bodies = requests_of(texts_of_lengths(texts, 64 * len(_WORDS)), MODEL)
    total = Answers()
    with server(command) as running:
        send_many(running.port, bodies, clients, warm_up)
        sizes = {0: memory_bytes(running.process.pid)}
        total.begin, done = time.perf_counter(), 0
        while done < requests:
            count = min(step, requests - done)
            part = send_many(running.port, bodies, clients, count)
            total.seconds += part.seconds
            total.statuses += part.statuses
            total.lost += part.lost
            total.processor += part.processor
            done += count
            sizes[done] = memory_bytes(running.process.pid)
        total.end = time.perf_counter()
    return {
        "warm_up_requests": warm_up,
        "bytes": sizes,
        "growth_bytes": sizes[requests] - sizes[0],
        **total.figures(),
    }


# === Hot swap and SIGTERM ===


def copy_version(source: Path, base: Path, number: int, *, broken: bool = False) -> None:
    """Put a copy of an export into a folder of versions, at once.

    Args:
        source: folder of the export.
        base: folder of numbered versions.
        number: version of the copy.
        broken: whether to cut the largest file in half.
    """
    incoming = base / "incoming"
    shutil.copytree(source, incoming)
    if broken:
        largest = max(
            (path for path in incoming.rglob("*") if path.is_file()),
            key=lambda path: path.stat().st_size,
        )
        with largest.open("r+b") as file:
            file.truncate(largest.stat().st_size // 2)
    incoming.rename(base / str(number))


def swap_under_load(
    export: Path, scratch: Path, texts: Sequence[str], *, clients: int, seconds: float
) -> dict[str, Any]:
    """Replace the version of a served model while clients send, then end the server with SIGTERM.

    Versions 1, 2 and 4 are copies of the export; version 3 is broken.

    Args:
        export: folder of an export in any format that is served.
        scratch: empty folder for the versions.
        texts: texts to send.
        clients: number of connections.
        seconds: seconds between two events.

    Returns:
        Answers by version, failed requests, and what happened after SIGTERM. A request that was
        sent after SIGTERM may stay without an answer, because the connection was being closed.
    """
    copy_version(export, scratch, 1)
    running = Served(our_command(str(scratch)))
    ended, events = threading.Event(), dict[str, Any]()

    def act() -> None:
        try:
            for name, value in _swaps(running, export, scratch, seconds):
                events[name] = value
        except (OSError, subprocess.TimeoutExpired) as error:  # TimeoutError is an OSError
            events["error"] = str(error)
        finally:
            running.process.kill()
            running.process.wait()
            running.close()
            ended.set()

    actor = threading.Thread(target=act)
    actor.start()
    bodies = requests_of(texts, MODEL)
    answers = asyncio.run(send(running.port, bodies, clients, is_over=ended.is_set))
    actor.join()
    signalled = events.get("signalled", float("inf"))
    figures = answers.figures()
    return {
        "answers_by_version": dict(sorted(answers.versions.items())),
        "error": events.get("error"),
        "states": events.get("states"),
        "busy": figures["busy"],
        "failed_answers": figures["failed"] - len(answers.lost),
        "lost_before_sigterm": sum(sent < signalled for sent in answers.lost),
        "lost_after_sigterm": sum(sent >= signalled for sent in answers.lost),
        "exit_code": events.get("exit_code"),
        "seconds_to_exit": events.get("seconds_to_exit"),
        "p99": figures["p99"],
    }


def _swaps(
    running: Served, export: Path, base: Path, seconds: float
) -> Iterator[tuple[str, object]]:
    """Add the versions one after another, then send SIGTERM; yield names and values of events."""
    time.sleep(seconds)
    copy_version(export, base, 2)
    _wait_for(lambda: _states(running) == {"2": "AVAILABLE"})
    time.sleep(seconds)
    copy_version(export, base, 3, broken=True)
    _wait_for(lambda: _states(running).get("3") == "END")
    time.sleep(seconds)
    copy_version(export, base, 4)
    _wait_for(lambda: _states(running).get("4") == "AVAILABLE")
    time.sleep(seconds)
    yield "states", _states(running)
    begin = time.perf_counter()
    running.process.terminate()
    yield "signalled", time.perf_counter()
    yield "exit_code", running.process.wait(timeout=_PATIENCE)
    yield "seconds_to_exit", time.perf_counter() - begin


def _states(running: Served) -> dict[str, str]:
    """Return version -> state, as the server tells them."""
    with (
        suppress(OSError),
        urllib.request.urlopen(f"http://{HOST}:{running.port}/v1/models/{MODEL}") as response,
    ):
        rows = json.load(response)["model_version_status"]
        return {row["version"]: row["state"] for row in rows}
    return {}


def _wait_for(is_so: Callable[[], bool]) -> None:
    """Wait until a condition holds, at most `_PATIENCE` seconds.

    Raises:
        TimeoutError: if it does not hold in time.
    """
    end = time.monotonic() + _PATIENCE
    while not is_so():
        if time.monotonic() > end:
            raise TimeoutError("A version of the model was not loaded or refused in time.")
        time.sleep(0.1)
