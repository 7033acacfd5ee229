"""Servers are started and stopped, their vectors compared, and rounds give the tables' figures."""

from __future__ import annotations

import atexit
import json
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

from benchmarks import http_servers
from benchmarks.http_servers import (
    BATCHES,
    LOOP,
    MANY,
    ONE,
    difference,
    looped,
    our_command,
    peer_command,
    served,
    server,
)
from bert_keras import Predictor

TEXTS = ["a dog.", "cats", "b c d e f g h i j k l m a b c", "the dogs and a cat."]
FAKE = [sys.executable, str(Path(__file__).with_name("embedding_server.py"))]


@pytest.fixture
def texts(tmp_path: Path) -> str:
    path = tmp_path / "texts.json"
    path.write_text(json.dumps(TEXTS))
    return str(path)


def test_a_server_is_started_and_stopped() -> None:
    with server(FAKE) as running:
        assert running.vectors(TEXTS).tolist() == [[len(text)] for text in TEXTS]
        assert running.process.poll() is None
    assert running.process.returncode == 0


def test_a_server_that_does_not_start_says_why() -> None:
    command = [sys.executable, "-c", "raise SystemExit('no model')"]
    with pytest.raises(SystemExit, match=r"did not start(.|\n)*no model"):
        http_servers.Served(command)


def test_a_round_of_a_server(texts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stops = []
    monkeypatch.setattr(atexit, "register", stops.append)
    reference = tmp_path / "vectors.npy"
    run = served([*FAKE, "200", "200", "200"], texts, str(reference), 3, 0.1, 5)
    figures = run()
    (stop,) = stops
    assert stop() == 0
    assert np.load(reference).tolist() == [[len(text)] for text in TEXTS]
    assert figures[f"{ONE}/answered"] == 5
    assert figures[f"{MANY}/answered"] > 0
    assert figures[f"{MANY}/failed"] == figures[f"{MANY}/busy"] == figures["difference"] == 0
    assert {f"{MANY}/server_cores", f"{MANY}/server_gigabytes"} <= figures.keys()


def test_vectors_of_another_model_are_not_measured(tmp_path: Path) -> None:
    path = tmp_path / "vectors.npy"
    assert difference(np.zeros((2, 3)), path) == 0
    assert difference(np.full((2, 3), 1e-4), path) == pytest.approx(1e-4)
    with pytest.raises(ValueError, match=r"differ by 0\.1"):
        difference(np.full((2, 3), 0.1), path)


def test_a_round_without_a_server(tiny_preset: Path, texts: str, tmp_path: Path) -> None:
    reference = tmp_path / "vectors.npy"
    figures = looped(str(tiny_preset), texts, str(reference), 0.01, 3)()
    keys = {f"{LOOP}/texts_per_second", f"{BATCHES}/texts_per_second", f"{ONE}/p50", f"{ONE}/p99"}
    assert figures.keys() == {*keys, "difference"}
    assert all(figures[key] > 0 for key in keys)
    expected = Predictor.from_preset(tiny_preset).encode(TEXTS)
    np.testing.assert_allclose(np.load(reference), expected, atol=1e-5)


@pytest.mark.slow
@pytest.mark.skipif(keras.backend.backend() != "torch", reason="the peer's backend is torch")
@pytest.mark.parametrize("command", [our_command, peer_command])
def test_real_servers_give_the_same_vectors(command, tiny_preset: Path) -> None:
    pytest.importorskip("starlette")
    if command is peer_command:
        pytest.importorskip("sentence_transformers")
    with server(command(str(tiny_preset))) as running:
        found = running.vectors(TEXTS)
    if command is our_command:  # uvicorn alone ends by the signal
        assert running.process.returncode == 0
    expected = Predictor.from_preset(tiny_preset).encode(TEXTS)
    np.testing.assert_allclose(found, expected, atol=1e-5)
