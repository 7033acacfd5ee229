"""docs/serving.md: its curl lines and clients get answers, and its options exist."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import keras
import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
from bert_keras import cli_serve, export
from bert_keras.serving.predictor_signatures import predictor_signatures
from bert_keras.serving.signatures import DEFAULT
from tests.markdown import blocks, run_python
from tests.serving.running import Running, predictor, running

PAGE = Path(__file__).parents[1] / "docs" / "serving.md"
TEXT = PAGE.read_text(encoding="utf-8")
# Model of the page -> model of the tests.
MODELS = {"reviews": "labels", "minilm": "vectors"}
FILMS = ["a fine film", "a dull film"]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Return a server of the page's models."""
    folder = tmp_path_factory.mktemp("page")
    for name, model in MODELS.items():
        predictor(model).save_to_preset(folder / name)
    with running({name: folder / name for name in MODELS}) as server:
        yield server


def at(text: str, served: Running) -> str:
    """Return a text with the address of the server in place of the page's."""
    return text.replace("http://localhost:8501", served.url)


def test_every_curl_line_is_answered(served: Running) -> None:
    assert shutil.which("curl")
    lines = [block.text for block in blocks(TEXT) if block.language == "bash"]
    assert len(lines) >= 10
    for line in lines:
        assert line.startswith("curl ")
        command = at(line, served).replace("curl ", "curl -sS --fail-with-body ")
        run = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
        assert run.returncode == 0, f"{line}\n{run.stdout}{run.stderr}"
        decoder, text = json.JSONDecoder(), run.stdout.strip()
        while text:  # a block may have several requests
            value, end = decoder.raw_decode(text)
            assert "error" not in value
            text = text[end:].strip()


def test_the_clients_get_the_answers_of_the_predictor(served: Running) -> None:
    pytest.importorskip("openai")
    pytest.importorskip("langchain_openai")
    programs = [block._replace(text=at(block.text, served)) for block in blocks(TEXT)]
    names = run_python(programs, str(PAGE))
    labels = predictor("labels").predict_labels(FILMS)
    assert names["outputs"]["label"] == [label.label for label in labels]
    scores = [label.score for label in labels]
    assert names["outputs"]["score"] == pytest.approx(scores, abs=1e-5)
    vectors = predictor("vectors").encode(FILMS)
    np.testing.assert_allclose(names["vectors"], vectors, atol=1e-6)
    np.testing.assert_allclose(names["vector"], vectors[0], atol=1e-6)


@pytest.mark.skipif(keras.backend.backend() == "jax", reason="ONNX is written on another backend")
def test_the_client_works_with_an_export(tmp_path: Path, capsys) -> None:
    """The HTTP client is that of TensorFlow Serving, whose SavedModel has the same signatures."""
    pytest.importorskip("onnxruntime")
    model = predictor("labels")
    export.runtime_model(model.task, model.tokenizer, tmp_path / "reviews" / "1")
    (client,) = [block for block in blocks(TEXT) if "urllib.request" in block.text]
    with running({"reviews": tmp_path / "reviews"}) as server:
        names = run_python([client._replace(text=at(client.text, server))], str(PAGE))
    expected = predictor_signatures(model)[DEFAULT].run({"text": FILMS})
    assert names["outputs"].keys() == expected.keys()
    assert names["outputs"]["label"] == expected["label"].tolist()
    assert expected["label"][0] in capsys.readouterr().out


def test_the_start_is_what_the_page_shows(served: Running) -> None:
    from bert_keras.serving.server import start_lines

    (shown,) = [b.text.splitlines() for b in blocks(TEXT) if b.text.startswith("reviews: text_")]
    backend = keras.backend.backend()
    assert start_lines(served.server, 8501) == [line.replace("torch", backend) for line in shown]


def test_the_options_exist() -> None:
    text = re.sub("<sup>.*?</sup>", "", TEXT, flags=re.DOTALL)  # the command of a benchmark
    named = set(re.findall(r"--([a-z][a-z-]+)", text)) - {"name"}  # of `bert-keras export`
    known = {name.replace("_", "-") for name in cli_serve.serve.__annotations__}
    assert named <= known
    # The page explains all other options; `--help` explains these.
    assert known - named == {"models", "port", "return"}
