"""The process of the server: arguments, signals, and its end."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from starlette.testclient import TestClient

from bert_keras.errors import ArtifactError, ResourceError, UsageError
from bert_keras.serving import server as server_module
from bert_keras.serving.model_source import Options
from bert_keras.serving.server import (
    Server,
    Settings,
    _Uvicorn,
    labels_from,
    listen,
    load_models,
    start_lines,
)
from bert_keras.serving.signatures import Signature, Spec
from tests.serving.running import running

ROOT = Path(__file__).parents[2]


def test_labels_of_the_command_line() -> None:
    names = {"reviews": "", "tags": ""}
    assert labels_from(["reviews:stable=2", "reviews:canary=3", "tags:a=1"], names) == {
        "reviews": {"stable": 2, "canary": 3},
        "tags": {"a": 1},
    }
    for wrong in ("reviews=2", "reviews:stable", "reviews:stable=x", "reviews:=2"):
        with pytest.raises(UsageError, match="NAME:LABEL=VERSION"):
            labels_from([wrong], names)
    with pytest.raises(UsageError, match="no model other"):
        labels_from(["other:stable=1"], names)


def test_wrong_models_are_told(folders: dict[str, Path], tmp_path: Path) -> None:
    source = str(folders["labels"])
    with pytest.raises(UsageError, match="Two models have the name labels"):
        load_models([source, source], options=Options())
    with pytest.raises((UsageError, ArtifactError), match=r"nothing"):
        load_models([source, str(tmp_path / "nothing")], options=Options())
    with pytest.raises(ValueError, match="`dtype`"):
        load_models([source], options=Options(dtype="int3"))


def test_a_taken_port_is_told() -> None:
    with listen(Settings(port=0)) as bound:
        port = bound.getsockname()[1]
        with pytest.raises(ResourceError, match="--port"):
            listen(Settings(port=port))
    with pytest.raises(ResourceError, match="--host"):
        listen(Settings(host="192.0.2.1", port=0))


def test_the_start_is_told(folders: dict[str, Path]) -> None:
    models = load_models([str(folders["labels"]), str(folders["vectors"])], options=Options())
    server = Server(models, Settings())
    text = "\n".join(start_lines(server, 8501))
    assert "labels: text_classification, checkpoint on" in text
    assert "/embed, /rerank, /v1/rerank: answered by vectors" in text
    assert "/predict: answered by labels" in text
    assert "http://127.0.0.1:8501/" in text
    assert "--token" not in text
    public = start_lines(Server(models, Settings(host="0.0.0.0")), 8501)
    assert any("--token" in line for line in public)
    for model in models.values():
        model.close()


@pytest.mark.parametrize(
    ("host", "is_local"),
    [
        ("127.0.0.1", True),
        ("localhost", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("example.org", False),
    ],
)
def test_addresses_of_this_computer(host: str, is_local: bool) -> None:
    assert Settings(host=host).is_local is is_local
    assert bool(Settings(host=host).accepted_hosts) is is_local
    assert "api.example" in Settings(host=host, allowed_hosts=["API.example"]).accepted_hosts


@contextmanager
def process(*words: str) -> Iterator[tuple[subprocess.Popen, str]]:
    """Run `bert-keras serve` in another process; return it and its address."""
    command = [sys.executable, "-m", "bert_keras", "serve", "--port", "0", *words]
    # Users do not set the variable, and the address must reach them.
    environment = {name: x for name, x in os.environ.items() if name != "PYTHONUNBUFFERED"}
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    run = subprocess.Popen(command, cwd=ROOT, env=environment, **pipes)
    try:
        assert run.stdout is not None
        for line in run.stdout:
            if match := re.search(r"Page: (\S+)/ ", line):
                yield run, match[1]
                break
        else:
            raise AssertionError(run.stderr.read() if run.stderr else "")
    finally:
        run.kill()
        run.communicate()


def test_a_signal_before_the_http_server_runs_is_not_lost(monkeypatch) -> None:
    def run(uvicorn_server: Any, sockets: Any) -> None:
        del sockets
        signal.raise_signal(signal.SIGTERM)
        assert uvicorn_server.should_exit

    monkeypatch.setattr(_Uvicorn, "run", run)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    server = Server({}, Settings(port=0))
    try:
        with listen(server.settings) as bound:
            server.run(bound)
        assert {number: signal.getsignal(number) for number in handlers} == handlers
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert server.service.is_draining


def test_a_batch_that_outlasts_the_drain_does_not_hold_the_process_up(folders, monkeypatch) -> None:
    """Its request is answered by 503, and the server ends while the batch still runs."""
    monkeypatch.setattr(server_module, "_LAST_SECONDS", 0.1)
    entered, may_go = threading.Event(), threading.Event()

    def slow(columns: Any) -> Any:
        entered.set()
        assert may_go.wait(60)
        return {"scores": np.zeros((len(columns["text"]), 1), np.float32)}

    with running({"labels": folders["labels"]}, drain_seconds=1.0) as other:
        loaded = other.server.service.models["labels"].newest.model
        loaded.signatures = {
            "serving_default": Signature(slow, {"text": Spec("string", (None,))}, {})
        }
        answers: list[httpx.Response] = []
        body = {"instances": ["a"]}
        path = "/v1/models/labels:predict"
        asking = threading.Thread(target=lambda: answers.append(other.post(path, body)))
        asking.start()
        assert entered.wait(20)
        other.server.stop()
        asking.join(30)
        assert [answer.status_code for answer in answers] == [503]
        assert answers[0].headers["Retry-After"]
        assert answers[0].json()["error"]
    may_go.set()


def test_the_address_of_the_server_is_a_host() -> None:
    server = Server({}, Settings(host="127.0.0.2"))
    for host, status in (("127.0.0.2:8501", 200), ("localhost", 200), ("127.0.0.3", 400)):
        assert TestClient(server.app, f"http://{host}").get("/health").status_code == status


def test_sigterm_under_load_answers_what_is_open_and_ends_with_0(
    folders: dict[str, Path],
) -> None:
    """Requests that were accepted are answered; later ones are refused a connection."""
    with process(str(folders["vectors"])) as (run, url):
        broken: list[str] = []
        answered = [0] * 6
        is_ending = threading.Event()

        def ask(number: int) -> None:
            body = json.dumps({"model": "vectors", "input": ["a fine film"] * 30})
            while True:
                try:
                    reply = httpx.post(f"{url}/v1/embeddings", content=body, timeout=30)
                except httpx.ConnectError:
                    return  # not accepted any more
                except httpx.TransportError as error:
                    # A connection in the queue of the operating system is reset at the end.
                    if not is_ending.is_set():
                        broken.append(repr(error))
                    return
                if reply.status_code != 200:
                    broken.append(reply.text)
                answered[number] += 1

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        while min(answered) < 3:
            assert not broken
        is_ending.set()
        run.send_signal(signal.SIGTERM)
        assert run.wait(40) == 0
        for thread in threads:
            thread.join(30)
        assert not broken
        assert run.stdout is not None
        assert "Stopped." in run.stdout.read()


def test_ctrl_c_ends_with_0(folders: dict[str, Path]) -> None:
    with process(str(folders["labels"]), "--token", "secret") as (run, url):
        assert httpx.get(f"{url}/v1/models").status_code == 401
        run.send_signal(signal.SIGINT)
        assert run.wait(40) == 0
        assert run.stderr is not None
        assert "Traceback" not in run.stderr.read()
